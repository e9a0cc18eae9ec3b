"""A whole node put together: `build_broker` and `build_name_server` make one of a configuration and of parts.

Read `parts` first (all that a node takes from outside; `orders` is what its operator says while it runs), then
`broker` (the wiring, one screen), `options` (what the configuration means to each room), `entry` (what it means to
those who come in), `ports` (claimed before the process forks), `encryption` (of them, and of the node's own
connections), `linkencryption` (of the HA link), `accountfiles` (whom it serves), `nameserver`, `pageports` (of
figures and pages), `monitoring` (a broker with these) and `namesrvmonitoring` (a name server).

Nothing here or in the rooms below asks the process for a reactor, a clock, a disk or a random number: whoever
calls decides: `tap` with real ones, or a test or simulation with its own time, network and disk.
"""
