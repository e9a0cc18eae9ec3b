"""A store's start, its ageing and its end.

Begin with `recovery` (what is valid after an exit, clean or not; `damage` is what it refuses), which asks
`checkpoint`, and of the queues
`queueevidence` and `queuecompleteness`; `unsyncedtail` (which breaks touch no promise), `sidefile` (where cut
bytes are kept), `tailcut` (so that they don't come back), `flushedmark` and `unsyncedpages` (what a failed sync
may have left out). `rangerepair` puts intact bytes in the place of rotten ones. `lastrun` says whether anything
can be missing.
`storelock` keeps a second broker out. `dispatchedsync` makes durable what was built from the log.
`diskwatermark` says when a disk is full, `retention` removes what is too much or, by `logages`, too old.
`filesizes` finds the sizes that a store was written with.

Recovery ends before a port is opened; it refuses a log whose damage may hide messages acknowledged as durable.
"""
