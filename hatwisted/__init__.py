"""RocketMQ's master/slave high availability as an event-driven server on Twisted.

Rooms from the bottom up: `wire` and `sqlfilter` (pure functions), `timing` (guarded loops and timers),
`logcodec` (the log's records), `kernel` (sending's inner loops, compiled where that is possible), `config`,
`health` (what figures mean), `store` (a broker's files), `remoting` (requests), `tls` (encrypted connections),
`acl` (who may make requests), `ha` (replication), `namesrv` and `broker` (the servers), `metrics` (what a
broker shows of itself), `assembly` (a node put together) and `tap` (twistd's commands).
For programs: `clientcore` (a client's logic) under `client` (on Twisted), `aio` (on
asyncio) and `blocking`. For logs as tables: `pipeline`, and `sparkstart`, by which Spark's JVM finds its formats.
On the command line: `cli` and `demo`. For tests: `sim`, a whole group from one seed. docs/architecture.md draws
them and says where each class of RocketMQ lives; .importlinter makes sure that they import one way.

Nothing here runs or opens anything when it is imported.
"""

__version__ = "0.1.0"
