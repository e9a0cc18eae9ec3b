"""Landing: a replicated log as a Delta or Iceberg table, each record once, however often the landing is killed.

Read `landing` (what a run does, and with which engine; `iceberglanding` has that of Iceberg tables), `landingrun`
and `landoptions`. Without Spark `locallanding` lands stores, and `clusterlanding` topics, with their
`landingrounds`; what these two ask of a table is in `landedbatch`, and behind it are `deltalanding` and
`icebergbatches`. By Spark `taskedlanding` lands stores in the same rounds (`landingtask`, `icebergtask`,
`splitrows`), and a stream all else: `sparkrun` and `sparklanding`, which ask of a table what is in `sparktable`,
and behind it are `deltaquery` and `icebergquery`. Then `landingsources` (folders or a cluster, and whether it is
the log that the table began with), `logsplits` (what of it is to be landed), `queuestarts` (where a cluster's
queues go on), `landingstate` (what is kept beside a table), `checkpoint` (is the table further than that?),
`absence` (brokers that are away) and `stopping` (Ctrl-C).
`deadletterjob` looks at rows that didn't fit their schema, and lands them once it's mended (`deltaletters`,
`icebergletters`).

A landing never continues with another log than the table's, and never commits a batch twice.
"""
