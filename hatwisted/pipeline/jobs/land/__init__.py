"""Landing: a replicated log as a Delta or Iceberg table, each record once, however often the landing is killed.

Read `landing` (what a run does, and with which engine) and `landoptions`, the engines: Spark's, `taskedlanding`
(stores) with `landingtask` and `sparklanding` (a stream), and, without Spark, `locallanding` (stores) and
`clusterlanding` with their `landingrounds`; what these ask of a table, `landedbatch`, and behind it `deltalanding`
and `icebergbatches` (`iceberglanding` is such a run). Then `landingsources` (folders or a cluster, and whether it
is the log that the table began with), `logsplits` (what of it is to be landed) with `splitrows`, `queuestarts` (where a cluster's queues go on), `landingstate` (what is kept beside a table),
`checkpoint` (is the table further than that?), `absence` (brokers that are away) and `stopping` (Ctrl-C).
`deadletterjob` looks at rows that didn't fit their schema, and lands them once it's mended (`deltaletters`,
`icebergletters`).

A landing never continues with another log than the table's, and never commits a batch twice.
"""
