"""A broker's files: the commit log, what is built from it, and what keeps it whole.

Begin with `interfaces` (disk, threads and log as the rest sees them) and `messagestore` (the parts put
together). The log: `filequeue` (files of one stream), `put` (what is appended), `commitlog` (append), `flush`
and `waitline` (who waits for the disk). From the log: `dispatcher` and `reput` (when it runs) fill
`consumequeue`s (`queuetable`, `queuewriter`, `queueremoval`, `deletedqueues`) and the `index` (`indexfile`).
Reading: `reading`, `lookup`. Start and end: `storelock`, `checkpoint`, `recovery` with `queueevidence` and
`queuecompleteness`, `retention`. `stats` are the figures; `logfiles` and `filesizes` are for programs that
read a broker's store. The small files of tables are `configfile`'s, written by `wholefile` in steps that each
may fail; the real disk is `filesystem`'s, threads are `worker`'s.

The store opens no socket and knows no request, and while it serves it never calls fsync in the reactor's
thread.
"""
