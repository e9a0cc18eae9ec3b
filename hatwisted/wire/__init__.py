"""The bytes on the wire and in the files, as pure functions and small receivers.

Read `layout` (a record, byte by byte), `storedrecord`, `recordreader` and `properties` for the log (`record`
is the oracle of the tests); `remoting` (frames), `codes` and `requestheader` for requests, `logrange` for our
own about a log's bytes, `bodylimits` for how large bodies may be; `haframe` for the HA link. `registration`
and `fastjson` are the bodies and files in JSON, `registerbody` the largest of them, `tablesteps` reads a
master's; `topics` has the reserved topic names, `storenames` those of a store's folder, `consumerdata` the
constants of heartbeats. The rest is small: `batch`, `hostport`, `networks`, `inflate`, `javahash`,
`javaproperties` (the syntax of configurations), `mendedjson`, `messageid`, `messagequeue`, `ownfields` (what
no header can say), `printable` (others' text for logs and terminals), `proxyheader`, `quantities` (sizes and
times for people), `signing`, `signedsend`.
docs/formats.md and docs/remoting.md describe the same bytes in prose.

A constant of the protocol is defined here and nowhere else. Nothing here does I/O, keeps time or imports
Twisted; invalid bytes raise a ValueError of their module, and incomplete ones aren't an error.
"""
