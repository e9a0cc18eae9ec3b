"""Consumer groups: who is connected, what their settings are, how far they have come.

Read `heartbeat` (what a client says of itself), `clienttable` (groups and members by these), `membernotices`
(who is told of them), `subscriptiongroup` (settings), `consumeroffset` (the table of offsets) and
`progressbody` (as it's sent), `offsetcommit` (which commits count), `staleoffsets` (those of before a loss),
`offsetsync` (offsets that flow back from a slave), `rebalancelocks` (ordered consumption), `clientcalls`
(requests from the broker to a client) and `consumerprocessors` (the requests of all this).

It never assigns queues to members: clients share them out among themselves, by what they learn here. An
offset doesn't move back unless that can be intended; see `offsetcommit`.
"""
