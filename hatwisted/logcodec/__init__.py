"""The commit log's records: finding, reading and proving them, and what queues and index need of each.

No Twisted, no sockets, no file opened: buffers and anything that reads bytes at an offset come in, columns and
values go out. `store`, `pipeline` and `cli` are above, `wire` is below, and of the world outside only numpy,
isal and msgspec are imported (Spark workers pay for every import).

Read first `wire.layout` (the format, on one page), then `scan` (records of a buffer as columns), `dispatchscan`
(what they mean to queues and index), `fewscan` (the same for a handful), `recordsearch` (where records go on
behind damage). One record alone is `wire.record`: clients take apart by it what they pull, and the tests hold
everything here to it.
"""
