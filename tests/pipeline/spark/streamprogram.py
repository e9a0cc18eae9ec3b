"""A landing that is killed and started again: `python -m ... NAMESRV TOPIC FOLDER` lands a topic until it's
stopped, in small batches, each exactly once."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from hatwisted.pipeline.spark.deltasink import FORMAT, DeltaSink
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from hatwisted.pipeline.spark.sparksession import spark_session


def landing(spark: SparkSession, name_server: str, topic: str, folder: str) -> DataStreamWriter:
    """The query."""
    spark.dataSource.register(RocketMQSource)
    spark.dataSource.register(DeltaSink)
    options = {"namesrvAddr": name_server, "topics": topic, "maxRecordsPerTrigger": "1000"}
    rows = spark.readStream.format("rocketmq").options(**options).load()
    rows = rows.selectExpr(
        "topic", "to_date(store_timestamp) as store_date", "queue_id", "queue_offset", "body"
    )
    written = rows.writeStream.format(FORMAT).option("path", f"{folder}/table")
    written = written.option("txnAppId", "streamprogram")
    return written.option("checkpointLocation", f"{folder}/checkpoint")


def main(name_server: str, topic: str, folder: str) -> None:
    query = landing(spark_session("local[2]", "streamprogram"), name_server, topic, folder)
    query.trigger(processingTime="50 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
