"""A landing that is killed and started again: `streamprogram.py NAMESRV TOPIC FOLDER` lands a topic until it's
stopped, in small batches, each exactly once."""

from __future__ import annotations

import sys

from hatwisted.pipeline.spark.deltasink import FORMAT, DeltaSink
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from hatwisted.pipeline.spark.sparksession import spark_session


def main(name_server: str, topic: str, folder: str) -> None:
    spark = spark_session("local[2]", "streamprogram")
    spark.dataSource.register(RocketMQSource)
    spark.dataSource.register(DeltaSink)
    options = {"namesrvAddr": name_server, "topics": topic, "maxRecordsPerTrigger": "1000"}
    rows = spark.readStream.format("rocketmq").options(**options).load()
    rows = rows.selectExpr(
        "topic", "to_date(store_timestamp) as store_date", "queue_id", "queue_offset", "body"
    )
    query = (
        rows.writeStream.format(FORMAT)
        .option("path", f"{folder}/table")
        .option("txnAppId", "streamprogram")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
