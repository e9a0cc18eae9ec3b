"""RocketMQ's master/slave high availability as an event-driven server on Twisted.

Rooms from the bottom up: `wire` and `sqlfilter` (pure functions), `config`, `logcodec` (the log's records),
`store` (a broker's files), `remoting` (requests), `ha` (replication), `namesrv` and `broker` (the servers),
`assembly` (a node put together) and `tap` (twistd's commands). `client` is for programs, `pipeline` for logs
as tables, `cli` and `demo` for people. docs/architecture.md draws them and says where each class of RocketMQ
lives; .importlinter holds them to importing one way.

Nothing here runs or opens anything when it is imported.
"""

__version__ = "0.1.0"
