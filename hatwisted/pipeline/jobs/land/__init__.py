"""Landing: a replicated log as a Delta or Iceberg table, each record once, however often the landing is killed.

Read `landing` (what a run does, and with which engine) and `landoptions`, the engines `sparklanding` and
`locallanding`, and `iceberglanding`, which needs neither Spark nor a checkpoint; then `logsplits` (what is to be
landed), `landingsources` (folders or a cluster, and whether it is the log that the table began with),
`landingstate` (what is kept next to the table), `checkpoint` (is the table further than that?), `absence`
(brokers that are away) and `stopping` (Ctrl-C).

A landing never continues with another log than the table's, and never commits a batch twice.
"""
