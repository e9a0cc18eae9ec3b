"""Reads a store's commit log as a Spark DataFrame: messages and bytes by topic, and the biggest messages.

python examples/sparksource.py STORE

It needs hatwisted[pipeline].
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F

from hatwisted.pipeline.spark.sparksession import spark_session


def main(store: str) -> None:
    spark = spark_session(app="sparksource")  # any session will do: Spark finds the source by its name
    try:
        # Columns that aren't named are never built.
        log = spark.read.format("commitlog").option("columns", "topic,size,physical_offset").load(store)
        topics = log.groupBy("topic").agg(F.count("*").alias("messages"), F.sum("size").alias("bytes"))
        for row in topics.orderBy("topic").collect():
            print(f"{row.topic}: {row.messages} messages, {row.bytes} bytes")
        for row in log.orderBy(F.desc("size"), "physical_offset").limit(3).collect():
            print(f"{row.size} bytes at {row.physical_offset} ({row.topic})")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
