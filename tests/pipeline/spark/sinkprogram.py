"""A copying of topics that is killed and started again: `python -m ... NAMESRV FROM TO CHECKPOINT` writes one
topic's messages into another until it's stopped, in small batches."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from hatwisted.pipeline.spark.sparksession import spark_session


def copying(spark: SparkSession, *places: str) -> DataStreamWriter:
    """The query; its shuffle gives a repeated batch another order."""
    name_server, source, target, checkpoint = places
    spark.dataSource.register(RocketMQSource)
    options = {"namesrvAddr": name_server, "topics": source, "maxRecordsPerTrigger": "2000"}
    rows = spark.readStream.format("rocketmq").options(**options).load()
    shuffled = rows.select("body", "queue_id").repartition(3, "queue_id").select("body")
    written = shuffled.writeStream.format("rocketmq").option("namesrvAddr", name_server)
    return written.option("topic", target).option("checkpointLocation", checkpoint)


def main(*places: str) -> None:
    query = copying(spark_session("local[2]", "sinkprogram"), *places)
    query.trigger(processingTime="50 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
