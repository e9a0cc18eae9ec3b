"""A streaming query as a program of its own, to be killed: `python -m ... STORES TARGET CHECKPOINT`.

Takes in so little a trigger that a kill can come at any of a batch's stages. Tells each batch on a line.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from hatwisted.pipeline.spark.sparksession import spark_session

BYTES_PER_TRIGGER = "60k"


def landing(spark: SparkSession, stores: str, target: str, checkpoint: str, limit: str) -> DataStreamWriter:
    """The query: all columns of the stores into Parquet files, at most `limit` bytes of log a trigger."""
    rows = spark.readStream.format("commitlog").option("maxBytesPerTrigger", limit).load(stores)
    written = rows.writeStream.format("parquet").option("path", target)
    return written.option("checkpointLocation", checkpoint)


def main(stores: str, target: str, checkpoint: str) -> None:
    rows = landing(spark_session(), stores, target, checkpoint, BYTES_PER_TRIGGER)
    query = rows.trigger(processingTime="50 milliseconds").start()
    told = None
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != told:
            told = progress["batchId"]
            print("batch", told, flush=True)
        time.sleep(0.05)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
