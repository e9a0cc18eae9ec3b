"""Commit logs into Arrow record batches, by columns, with numpy and pyarrow: no Spark, no Twisted, no sockets."""
