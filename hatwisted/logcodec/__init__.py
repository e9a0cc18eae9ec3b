"""The commit log's records: encoding, finding, reading and proving them, and what queues and index need of each.

Read first `wire.layout` (the format, on one page), then `scan` (records of a buffer as columns) on `octets`
and `topicgroups`, `plaincolumns` (the same compiled), `fewscan` (for a handful) and `encoder`;
`dispatchscan` with `propertyareas`, `keyhash` and `queueruns` (what records mean to queues and index), down
to `queueentry` and `delaylevel`; `rangedispatch` and `queueplan` (queues and index rebuilt from the log);
`window` (reading along a log), `recordsearch` (where records continue after damage, and the one rule of
what proves a record) with `rivalrecords`, `logwalk` (finding the log's end), `onerecord` (a record that a
peer names by its offset), `recordhead` (its fixed fields alone), `recordplace` (does a record belong to a
queue), `entrychoice` (what a read of a queue gets), `logdrift` (where two copies of a log differ, and which
of them is rotten). Of these, what sending runs through most has a compiled twin in the room above,
`hatwisted.kernel`.

A single record with all its fields is read by `wire.recordreader`, which lies below because clients decode what
they pull with it. `wire.record`, which no program imports, is the oracle that the tests compare everything
here with.

It imports `wire`, numpy, isal and msgspec: no Twisted, no zope, no Arrow (Spark workers and brokers alike pay
for every import). It never opens a file or a socket: it is given buffers, or anything that reads bytes at an
offset.
"""
