"""The jobs' column expressions."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.testing import assertDataFrameEqual

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.delta.landedrows import LANDING_KEYS, landed_names, landed_schema, with_store_date
from hatwisted.pipeline.jobs.columnexpressions import landed, store_date
from hatwisted.pipeline.spark.sourcecolumns import spark_schema
from tests.support.golden import MASTER

DAY = 86_400_000_000
"""Microseconds."""


def test_store_date_is_the_day_in_utc(spark: SparkSession) -> None:
    times = [datetime(2026, 11, 20, 23, 59, 59, 999000, UTC), datetime(2026, 11, 21, tzinfo=UTC)]
    given = spark.createDataFrame([(time,) for time in times], "time timestamp")
    expected = spark.createDataFrame([(date(2026, 11, 20),), (date(2026, 11, 21),)], "store_date date")
    assertDataFrameEqual(given.select(store_date(F.col("time"))), expected)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_store_date_is_the_day_in_utc_wherever_the_session_is(spark: SparkSession, zone: str) -> None:
    days = [0, 1, -1, -719_162, 2_932_896, 20_778]
    edges = [day * DAY + more for day in days for more in (0, 1, DAY // 2, DAY - 1)]
    given = spark.createDataFrame([(edge,) for edge in edges], "micros long")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = given.select(F.unix_date(store_date(F.timestamp_micros("micros")))).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert [row[0] for row in found] == [edge // DAY for edge in edges]


def test_landed_selects_its_columns_in_order(spark: SparkSession) -> None:
    columns = landed_names(["tags"])
    assert set(columns) == {*LANDING_KEYS, "tags"}
    row: dict[str, object] = {
        "topic": "orders",
        "queue_id": 1,
        "queue_offset": 3,
        "physical_offset": 7,
        "size": 100,
        "tags": "t",
        "body_crc": 1,
        "broker": "a",
    }
    row["store_timestamp"] = datetime(2026, 11, 20, tzinfo=UTC)
    messages = spark.createDataFrame([row], spark_schema(columns))
    expected = messages.withColumn("store_date", F.lit(date(2026, 11, 20)))
    assertDataFrameEqual(landed(messages.select(*reversed(columns)), ["tags"]), expected)


def test_rows_that_never_become_spark_s_are_the_same(spark: SparkSession) -> None:
    messages = read_arrow([str(MASTER)]).read_all()
    arrow = pa.Table.from_batches([with_store_date(batch) for batch in messages.to_batches()])
    assert arrow.schema == landed_schema()
    frame = spark.createDataFrame(messages)
    assertDataFrameEqual(landed(frame), spark.createDataFrame(arrow))


def test_landed_has_the_schema_it_says(spark: SparkSession) -> None:
    found = to_arrow_schema(landed(spark.createDataFrame([], spark_schema())).schema, timezone="UTC")
    assert [(item.name, item.type) for item in found] == [(item.name, item.type) for item in landed_schema()]
