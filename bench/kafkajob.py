"""Pieces of work for bench/sparkjob.py, of ours and of Spark's own Kafka source: fill a topic, read all, land.

Ours and theirs run in sessions of the same settings, and write by the same means: to nowhere by Spark's `noop`, or
into files by each one's usual way.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from testbed.mavenjars import MavenJars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Job = dict[str, Any]
VERSION = "4.2.0"
"""The latest at Maven's; Spark's own may be a later one, and takes it."""
JARS = MavenJars("Spark-Kafka", "org.apache.spark", ("spark-sql-kafka-0-10_2.13",), VERSION)
LOADED = ("spark-sql-kafka-", "spark-token-provider-kafka-", "kafka-clients-", "commons-pool2-")
"""What Spark doesn't have itself."""
MOST_BYTES = 64 << 10
"""Of a batch, when a topic is filled: Kafka's own is a quarter of that."""


def session(job: Job) -> SparkSession:
    """A session on the job's cores that can have Kafka's source."""
    from hatwisted.pipeline.spark.sparksession import spark_session

    jars = [str(path) for path in sorted(JARS.install().iterdir()) if path.name.startswith(LOADED)]
    return spark_session(f"local[{job['cores']}]", **{"spark.jars": ",".join(jars)})


def fill(job: Job) -> Callable[[], int]:
    """A log's bodies into a topic."""
    spark = session(job)
    rows = spark.read.format("commitlog").option("columns", "body").load(job["path"])

    def run() -> int:
        sent = rows.selectExpr("body AS value").write.format("kafka")
        sent = sent.option("kafka.bootstrap.servers", job["address"]).option("topic", job["topic"])
        sent.option("kafka.batch.size", str(MOST_BYTES)).option("kafka.linger.ms", "5").save()
        return int(_topic(spark, job).count())

    return run


def noop(job: Job) -> Callable[[], int]:
    """All rows with the columns asked for, to nowhere. How many there are is asked once, beforehand."""
    spark = session(job)
    rows = _topic(spark, job) if job["source"] == "kafka" else _log(spark, job)
    counted = int(rows.count())

    def run() -> int:
        rows.write.format("noop").mode("overwrite").save()
        return counted

    return run


def land_log(job: Job) -> Callable[[], int]:
    """A log into a new Delta table, exactly once, as `land` does."""
    from hatwisted.pipeline.jobs.land.landing import land
    from hatwisted.pipeline.jobs.land.landoptions import LandOptions

    spark = session(job)

    def run() -> int:
        shutil.rmtree(job["table"], ignore_errors=True)
        return land([job["path"]], job["table"], LandOptions(engine="spark"), spark=spark).rows

    return run


def land_topic(job: Job) -> Callable[[], int]:
    """A topic into new Parquet files, compressed alike, in a query that keeps a checkpoint."""
    spark = session(job)
    table = Path(job["table"])

    def run() -> int:
        shutil.rmtree(table, ignore_errors=True)
        rows = _options(spark.readStream.format("kafka"), job).load()
        into = rows.writeStream.format("parquet").option("compression", "zstd").option("path", str(table))
        into = into.option("checkpointLocation", f"{table}/_checkpoint")
        into.trigger(availableNow=True).start().awaitTermination()
        return sum(pq.read_metadata(path).num_rows for path in table.glob("*.parquet"))

    return run


def _log(spark: SparkSession, job: Job) -> DataFrame:
    rows: DataFrame = narrowed(spark.read.format("commitlog"), job).load(job["path"])
    return rows


def narrowed(reader: Any, job: Job) -> Any:
    """A source of ours that gives the job's "columns" alone; all where it names none."""
    return reader.option("columns", ",".join(job["columns"])) if job["columns"] else reader


def _topic(spark: SparkSession, job: Job) -> DataFrame:
    rows: DataFrame = _options(spark.read.format("kafka"), job).load()
    return rows


def _options(reader: Any, job: Job) -> Any:
    """Of a batch or a stream alike."""
    reader = reader.option("kafka.bootstrap.servers", job["address"]).option("subscribe", job["topic"])
    return reader.option("startingOffsets", "earliest").option("minPartitions", "2")
