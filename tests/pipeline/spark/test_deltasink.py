"""The sink `hatwisted-delta` under Spark: batch writes, streams, failures of a task."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.readwriter import DataFrameWriter

from hatwisted.pipeline.spark.deltasink import FORMAT, DeltaSink

SCHEMA = "topic string, store_date date, number bigint"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    spark.dataSource.register(DeltaSink)
    return str(tmp_path / "table")


def rows(spark: SparkSession, begin: int, end: int) -> DataFrame:
    topic = F.when(F.col("id") % 2 == 0, "%RETRY%g").otherwise("orders")
    return spark.range(begin, end, numPartitions=2).select(
        topic.alias("topic"), F.lit(date(2026, 11, 20)).alias("store_date"), F.col("id").alias("number")
    )


def write(frame: DataFrame, table: str, **options: str) -> DataFrameWriter:
    return frame.write.format(FORMAT).mode("append").option("path", table).options(**options)


def numbers(table: str) -> list[int]:
    found: list[int] = DeltaTable(table).to_pyarrow_table()["number"].to_pylist()
    return sorted(found)


def test_a_batch_write_appends_in_one_commit(spark: SparkSession, table: str) -> None:
    write(rows(spark, 0, 100), table).save()
    before = DeltaTable(table).version()
    write(rows(spark, 100, 150), table).save()
    assert numbers(table) == list(range(150))
    assert DeltaTable(table).version() == before + 1


def test_a_numbered_batch_write_counts_once(spark: SparkSession, table: str) -> None:
    for _ in range(2):
        write(rows(spark, 0, 100), table, txnAppId="mine", txnVersion="1").save()
    assert numbers(table) == list(range(100))
    assert len(list(Path(table).glob("topic=*/*/*.parquet"))) == len(DeltaTable(table).file_uris())


def test_a_failed_task_leaves_no_file(spark: SparkSession, table: str) -> None:
    write(rows(spark, 0, 10), table).save()
    before = set(Path(table).rglob("*.parquet"))
    # One task: what another one finishes while Spark gives up the write is left for a vacuum.
    failing = (
        rows(spark, 10, 5000)
        .coalesce(1)
        .withColumn("number", F.when(F.col("number") < 4999, F.col("number")))
    )
    failing = failing.withColumn(
        "number", F.coalesce("number", F.raise_error(F.lit("broken")).cast("bigint"))
    )
    with pytest.raises(PySparkException, match="broken"):
        write(failing, table).save()
    assert set(Path(table).rglob("*.parquet")) == before
    assert numbers(table) == list(range(10))


def test_a_column_of_another_type_is_refused(spark: SparkSession, table: str) -> None:
    write(rows(spark, 0, 10), table).save()
    with pytest.raises(PySparkException, match="column number is int64 in the table and string"):
        write(rows(spark, 0, 10).withColumn("number", F.lit("one")), table).save()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"txnAppId": "mine"}, "needs txnVersion"),
        ({"partitionBy": "color"}, "partitioned by color"),
        ({"partitonBy": "topic"}, "did you mean partitionBy"),
        ({"path": "ftp://host/table"}, "tables are written to folders and to"),
    ],
)
def test_wrong_options_are_reported(
    spark: SparkSession, table: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        write(rows(spark, 0, 10), table, **options).save()


def test_overwriting_is_refused(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match="only appends"):
        write(rows(spark, 0, 10), table).mode("overwrite").save()


def test_a_stream_repeats_no_batch(spark: SparkSession, table: str, tmp_path: Path) -> None:
    source, checkpoint = str(tmp_path / "source"), tmp_path / "checkpoint"
    for begin in (0, 100, 200):
        rows(spark, begin, begin + 100).write.mode("append").parquet(source)
        stream = spark.readStream.schema(SCHEMA).parquet(source).writeStream.format(FORMAT)
        stream = stream.option("path", table).option("txnAppId", "mine").trigger(availableNow=True)
        stream.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
        # As if it was killed between Delta's commit and Spark's: the next run repeats the batch.
        for commit in checkpoint.glob("commits/*"):
            if begin < 200:
                commit.unlink()
        for note in checkpoint.glob("commits/.*"):
            note.unlink()
    assert numbers(table) == list(range(300))


def test_a_stream_needs_a_name(spark: SparkSession, table: str, tmp_path: Path) -> None:
    rows(spark, 0, 10).write.parquet(str(tmp_path / "source"))
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "source")).writeStream.format(FORMAT)
    with pytest.raises(PySparkException, match="txnAppId"):
        query = stream.option("path", table).option("checkpointLocation", str(tmp_path / "c")).start()
        query.awaitTermination()
