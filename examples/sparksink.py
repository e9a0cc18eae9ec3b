"""Writes a stream's rows to a topic, repeats the last batch as Spark does after a crash, and reads each row once.

python examples/sparksink.py [NAME_SERVERS]

It needs hatwisted[pipeline] and a cluster whose brokers make topics at their first message.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from hatwisted.pipeline.spark.repeats import without_repeats
from hatwisted.pipeline.spark.sparksession import spark_session

COUNT = 100


def write(rows: DataFrame, name_servers: str, checkpoint: Path) -> None:
    """What there is, as messages of the topic SparkOrders; those of one customer share a queue."""
    written = rows.writeStream.format("rocketmq")
    written = written.option("namesrvAddr", name_servers).option("topic", "SparkOrders")
    written = written.option("checkpointLocation", str(checkpoint))
    written.trigger(availableNow=True).start().awaitTermination()


def read(spark: SparkSession, name_servers: str) -> DataFrame:
    source = spark.read.format("rocketmq").option("namesrvAddr", name_servers)
    return source.option("topics", "SparkOrders").load()


def main(name_servers: str) -> None:
    spark = spark_session(app="sparksink")  # any session will do: Spark finds the format by its name
    try:
        with tempfile.TemporaryDirectory() as folder:
            orders, checkpoint = Path(folder, "orders"), Path(folder, "checkpoint")
            orders.mkdir()
            lines = (json.dumps({"order": number, "customer": number % 7}) for number in range(COUNT))
            (orders / "first.json").write_text("\n".join(lines))
            rows = (
                spark.readStream.schema("order long, customer long")
                .json(str(orders))
                .selectExpr(
                    "to_json(struct(order, customer)) as body",
                    "cast(customer as string) as key",
                    "'json' as tags",
                    "map('customer', cast(customer as string)) as properties",
                )
            )
            write(rows, name_servers, checkpoint)
            # Now the batch counts as unfinished, as if the program had been killed right after it was written.
            for note in (checkpoint / "commits").iterdir():
                note.unlink()
            write(rows, name_servers, checkpoint)
        messages = read(spark, name_servers)
        print(f"{messages.count()} messages, {without_repeats(messages).count()} rows")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:9876"]))
