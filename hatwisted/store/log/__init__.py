"""The commit log: one stream of bytes over files of one size.

Begin with `filequeue` (the files of a stream) on `openfiles` (its descriptors), then `put` (what is appended)
and `commitlog` (append, on a master and on a slave). `fileallocation` makes files ahead of the end,
`lastrecord` finds the last record before it, `recentbytes` keeps what came last for dispatch. `flush` decides
when written bytes are synced, `waitline` who waits for it. `logfiles` is for programs that read another process's
store, `logranges` for comparing a log in use with its copies.

The log doesn't know queues or topics, and never syncs in the reactor's thread.
"""
