"""A whole group on one clock, from one seed: name server, brokers and clients, with faults of network, disk and
host.

The brokers are those of `assembly`, unchanged; what this room makes are the parts around them. Read `simclock`
first (one heap of calls for all machines); then `simdisk` with its `siminode`, `simnames`, `simfile` and
`diskstrike` (what a power failure leaves); `memorynet`, `memorytransport` and `linkfaults` (what arrives);
`simworker` and `machine` (a host on which a process runs, is killed, or loses its power); then `simulation`: a
seed's `group` (`setup`), its `messageload`, its faults (`faultplan`, `faultinjector`, `decay` of bits while
they go on, and `bitrot` at the end) and who looks after it (`simoperator`), with the `history` of the answers
that clients got, judged by `promises` on what `storeview` and `logwatch` see; an `outcome` is what came of it.
Some runs have a `transactionload`, or a `tableload` (with
`tablechanges`, `firstmessages` and `remadetopics`): `deliveries` judges what brokers
put by themselves later, `tablepromises` what they have confirmed about topics and groups, `indexcheck` the key
index. Some have consumers: a `groupmember` is a process of theirs, `consumption` what its group was given, and
`progresspromises` judges what brokers know of it. `waitwatch` looks at what waits in brokers, `tightlimits` at
how much, `deferredwatch` at every Deferred. `trace` tells two runs apart. `soak` runs seeds by the thousand,
`shrink` leaves out the faults that a failure doesn't need, a `recording` makes the `simulationpage` on which
one seed is watched, and `deliberatebugs`, among them `servicebugs`, `tablebugs`, `waitbugs`, `limitbugs` and
`writebugs`, are what the promises must notice (a `plantedbug` each): a `bughunt` counts the seeds that it
takes.

Imported by tests and by `make soak`, by no server.
"""
