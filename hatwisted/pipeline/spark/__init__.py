"""The logs as Spark tables: the data sources `commitlog` and `rocketmq`, batch and streaming, and the session.

Read `commitlogsource` with `commitlogstream`, `logtask` and `logplaces`; `rocketmqsource` with `rocketmqstream`,
`queuereads` and `queueoffsets`; then what both use: `readoptions`, `filters`, `sourcecolumns`, `damagetable`,
`failures` (a worker's error in one line), `refusedstream` (a mistake in a stream's options, told when Spark
asks); `storelist` and `rocketmqoptions` say what is read. `deltasink` writes, `sparksession` and `javahome` start
Spark, `planstream` has a sink's tasks read what a source has planned.

Nothing here decodes a record: that is `hatwisted.pipeline.decode`, which knows no Spark. Importing this
package imports no PySpark; its modules do.
"""
