"""The logs as Spark tables: the data sources `commitlog` and `rocketmq`, batch and streaming, and the session.

Read `commitlog` with `commitlogstream`, `logtask` and `logplaces`; `rocketmq` with `rocketmqstream`,
`queuereads` and `queueoffsets`; then what both use: `options`, `filters`, `columns`, `damagetable`.
`deltasink` writes, `session` and `javahome` start Spark, `planstream` reads in one place what another has
planned.

Nothing here decodes a record: that is `hatwisted.pipeline.decode`, which knows no Spark. Importing this
package imports no PySpark; its modules do.
"""
