"""A whole group on one clock, from one seed: name server, brokers and clients, with faults of network, disk and
host.

The brokers are those of `assembly`, unchanged; what this room makes are the parts around them. Read `simclock`
first (one heap of calls for all machines), then `simdisk` (what a power failure leaves), `memorynet` and
`linkfaults` (what arrives), `simworker` and `machine` (a host on which a process runs, is killed, or loses its
power), then `simulation`: a seed's group, load and faults, with the `history` of what clients were told, judged
by `promises`.

Imported by tests and by `make soak`, by no server.
"""
