"""The logs as Spark tables: the data sources `commitlog` and `rocketmq`, batch and streaming, and the session.

Nothing here decodes a record: that is `hatwisted.pipeline.decode`, which knows no Spark. Importing this package
imports no PySpark; its modules do.
"""
