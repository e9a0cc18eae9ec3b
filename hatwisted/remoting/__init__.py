"""RocketMQ's remoting protocol on Twisted: a server with a table of request processors, and a client.

Read `interfaces` (listening and connecting as a node is given them), `server` (frames become requests) and
`processortable` (who answers them), `guarded` (a table that doesn't serve everybody), `requestcounts` (one that
counts), `serverfactory` (what a port's connections share, which they know as `connectionsofport`), `portoptions`
(who may connect), `proxyprotocol` (whose connection it is), `connectionbudget`, `requestturns`, `sendwindows`,
`partialframes`, `unreadanswers` and `sharedroom` (how they share descriptors, time, the way to the slave, and
memory), `framesizes` (what a rate of bytes counts), `client` (one lasting connection per address, over
`clientcore.calls`), `eagerwrite` (writing without waiting for the next turn) and `tcp` (connecting for real);
`deferreds` and `twistedlog` turn what `clientcore` waits for and says into Twisted's. The bytes are
`wire.remoting`'s.

It doesn't know what any request means, starts no thread, and holds no more than its named limits for a peer
that doesn't read.
"""
