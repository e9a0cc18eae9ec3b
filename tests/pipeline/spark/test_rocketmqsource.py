"""The source `rocketmq` under Spark, on a name server, master and slave of ours."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from testbed.brokergroup import OURS, QUICK_SYNC, BrokerGroup
from tests.support.clustermessages import (
    bodies_of,
    fill,
    send_batches,
    wait_for_no_route,
    wait_for_route,
    wait_for_slave,
)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    folder = tmp_path_factory.mktemp("cluster")
    with BrokerGroup(folder, namesrv_kind=OURS, slave_settings=QUICK_SYNC) as running:
        running.start()
        yield running


@pytest.fixture
def source(spark: SparkSession, group: BrokerGroup) -> dict[str, str]:
    """The options every read has."""
    spark.dataSource.register(RocketMQSource)
    return {"namesrvAddr": f"127.0.0.1:{group.namesrv_port}", "retries": "2"}


def read(spark: SparkSession, source: dict[str, str], **options: str) -> DataFrame:
    return spark.read.format("rocketmq").options(**source, **options).load()


def offsets_of(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted(
        (row.queue_id, row.queue_offset) for row in frame.select("queue_id", "queue_offset").collect()
    )


def test_batch_reads(spark: SparkSession, group: BrokerGroup, source: dict[str, str]) -> None:
    fill(group, "Batch", 600)
    everything = [(queue, offset) for queue in range(4) for offset in range(600)]
    found = read(spark, source, topics="Batch")
    assert found.count() == 2400
    assert found.select(F.count_distinct("body")).first()[0] == 2400  # type: ignore[index]
    assert found.where("body_crc_ok and file is null").count() == 2400
    many = read(spark, source, topics="Batch", minPartitions="7", columns="queue_id,queue_offset")
    assert many.rdd.getNumPartitions() >= 7
    assert offsets_of(many) == everything
    start = {"Batch": {group.name: {"0": 590, "2": "latest"}}}
    end = {"Batch": {group.name: {"1": 10, "3": "earliest"}}}
    part = read(
        spark, source, topics="Batch", startingOffsets=json.dumps(start), endingOffsets=json.dumps(end)
    )
    assert offsets_of(part) == [(0, offset) for offset in range(590, 600)] + [
        (1, offset) for offset in range(10)
    ]


def test_filters_choose_queues_and_ranges(
    spark: SparkSession, group: BrokerGroup, source: dict[str, str]
) -> None:
    for topic in ("FilterA", "FilterB"):
        fill(group, topic, 100, queues=2)
    found = read(spark, source, topicsPattern="Filter.")
    assert found.count() == 400
    assert found.where("topic = 'FilterA' and queue_offset >= 90").count() == 20
    assert found.where(F.col("store_timestamp") < F.lit(datetime(2020, 1, 1, tzinfo=UTC))).count() == 0
    assert found.where("queue_id in (1, 7) and queue_offset between 5 and 9").count() == 10
    given = read(spark, source, topicsPattern="Filter.", queueId="1", queueOffsetFrom="98")
    assert offsets_of(given) == [(1, 98), (1, 98), (1, 99), (1, 99)]


def test_times(spark: SparkSession, group: BrokerGroup, source: dict[str, str]) -> None:
    fill(group, "Times", 50, queues=1)
    time.sleep(0.05)
    between = datetime.now(UTC).isoformat()
    time.sleep(0.05)
    with group.master_client() as client:
        send_batches(client, "Times", 0, bodies_of(100, 25))
    assert read(spark, source, topics="Times", startingOffsets=between).count() == 25
    assert read(spark, source, topics="Times", endingOffsets=between).count() == 50
    by_queue = json.dumps({"Times": {group.name: {"0": between}}})
    assert read(spark, source, topics="Times", startingOffsetsByTimestamp=by_queue).count() == 25


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"topics": "Nowhere"}, "topic Nowhere: the name servers don't know it"),
        ({}, "give topics"),
        ({"topics": "Wrong", "startingOffsets": '{"Wrong": {"b": {"0": 1}}}'}, "none of the 1 queues"),
        (
            {"topics": "Wrong", "endingOffsets": '{"Wrong": {"broker-a": {"0": 99}}}'},
            "ends at 5, before 99",
        ),
        ({"topics": "Wrong", "colums": "body"}, "did you mean columns"),
        ({"topics": "Wrong", "columns": "bodi"}, "did you mean body"),
    ],
)
def test_mistakes(
    spark: SparkSession, group: BrokerGroup, source: dict[str, str], options: dict[str, str], told: str
) -> None:
    with group.master_client() as client:
        if client.max_queue_offset("Wrong", 0) == 0:
            send_batches(client, "Wrong", 0, bodies_of(0, 5))
            wait_for_route(group, "Wrong")
    if "none of" in told:
        told = "startingOffsets: topic Wrong queue 0 of b is none of the"
    with pytest.raises(PySparkException, match=told):
        read(spark, source, **options).count()


def test_a_stream(spark: SparkSession, group: BrokerGroup, source: dict[str, str], tmp_path: Path) -> None:
    """Limits, AvailableNow, a queue's growth between runs, the lag in the progress."""
    fill(group, "Stream", 300, queues=2)

    def run(**options: str) -> list[dict[str, Any]]:
        stream = spark.readStream.format("rocketmq").options(**source, topics="Stream", **options).load()
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        return [json.loads(each.json) for each in query.recentProgress]

    progress = run(maxRecordsPerTrigger="250")
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [250, 250, 100]
    ends = {"Stream": {group.name: {"0": 300, "1": 300, "2": 0, "3": 0}}}
    told = progress[0]["sources"][0]["latestOffset"]
    assert told.pop(":lag")["maxOffsetsBehindLatest"] == 175
    assert told == ends
    with group.master_client() as client:
        send_batches(client, "Stream", 3, bodies_of(7_000_000, 40))
    progress = run(maxBytesPerTrigger="1k")
    assert sum(each["numInputRows"] for each in progress) == 40
    assert max(each["numInputRows"] for each in progress) <= 5
    rows = spark.read.parquet(str(tmp_path / "rows"))
    assert rows.count() == rows.select("body").distinct().count() == 640


def test_a_mistake_in_a_streams_options(
    spark: SparkSession, group: BrokerGroup, source: dict[str, str], tmp_path: Path
) -> None:
    """Spark shows it, and nothing of its own."""
    fill(group, "Short", 3, queues=1)
    after = json.dumps({"Short": {group.name: {"0": 900}}})
    for options, told in (
        ({"maxBytesPerTrigger": "much"}, "maxBytesPerTrigger='much' must be bytes"),
        ({"startingOffsets": after}, "queue 0 of broker-a ends at 3, before 900"),
    ):
        stream = spark.readStream.format("rocketmq").options(**source, topics="Short", **options).load()
        query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / told[:9]))
        with pytest.raises(PySparkException, match=told):
            query.trigger(availableNow=True).start().awaitTermination(300)


def test_a_master_that_dies_between_triggers(
    spark: SparkSession, group: BrokerGroup, source: dict[str, str]
) -> None:
    """The last test of this module: the slave serves on."""
    fill(group, "Orphan", 200, queues=2)
    wait_for_slave(group, "Orphan")
    group.master.kill()
    assert read(spark, source, topics="Orphan").count() == 400
    group.slave.kill()
    wait_for_no_route(group, "Orphan")
    with pytest.raises(PySparkException, match="NoRoute: topic Orphan: .* no broker that has it is alive"):
        read(spark, source, topics="Orphan").count()
