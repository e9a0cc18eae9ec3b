"""The logs as Spark tables: the data sources `commitlog` and `rocketmq`, batch and streaming, sinks, the session.

Read `commitlogsource` with `commitlogstream`, `logtask` and `logplaces`; `rocketmqsource` with `rocketmqstream`,
`queuewatch`, `triggerlimits`, `triggerpace`, `queueassignment`, `queuereads`, `brokerfilter`, `timeedges`,
`queueplaces`, `queueoffsets`, `queuetimes` and `kafkaschema` (rows with Kafka's columns); then what both use:
`readoptions`, `filters`, `sourcecolumns`, `damagetable`, `streamlag`, `failures` (a worker's error in one line),
`refusedstream` (a mistake in a stream's options, told when Spark asks); `storelist` and `rocketmqoptions` say
what is read. `rocketmqsink` writes to a cluster, `repeats` leaves out what was written twice; `deltasink` and
`icebergsink` write to tables, `planstream` has its tasks read what a source has planned. `sparksession` and
`javahome` start Spark, `workersite.sitecustomize` has its Python workers start sooner, `registration` makes
the formats known to a session of somebody else's, `ownpython` has it run them with the program's Python.

Nothing here decodes a record: that is `hatwisted.pipeline.decode`, which knows no Spark. Importing this
package imports no PySpark; its modules do.
"""
