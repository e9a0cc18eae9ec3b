"""The commit log's records: encoding, finding, reading and proving them, and what queues and index need of each.

Read first `wire.layout` (the format, on one page), then `scan` (records of a buffer as columns) on `octets` and
`topicgroups`, `fewscan` (the same for a handful) and `encoder`; `dispatchscan` with `propertyareas`, `keyhash`
and `queueruns` (what records mean to queues and index), down to `queueentry` and `delaylevel`; `rangedispatch`
and `queueplan` (queues and index rebuilt from the log); `window` (the way along a log), `recordsearch` (where
records continue after damage, and the one rule of what proves a record), `logwalk` (the way to the log's end),
`onerecord` (what a peer names by its offset), `recordhead` (its fixed fields alone), `recordplace` (whose a
record is), `logdrift` (where two copies of a log differ, and which of them is rotten). `kernel` names the inner
loops that a compiled twin could replace.

One record alone, with all its fields, is `wire.recordreader`: clients take apart by it what they pull, and so it
lies below. `wire.record`, which no program imports, is the oracle that the tests hold everything here to.

It imports `wire`, numpy, isal and msgspec: no Twisted, no zope, no Arrow (Spark workers and brokers alike pay
for every import). It never opens a file or a socket: buffers and anything that reads bytes at an offset come
in.
"""
