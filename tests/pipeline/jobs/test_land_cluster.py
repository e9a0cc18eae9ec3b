"""Landing topics over the network, from brokers of ours."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hatwisted.pipeline.jobs.land.landing import land
from hatwisted.pipeline.jobs.land.landingsources import Cluster
from testbed.brokergroup import OURS, BrokerGroup
from tests.support.clustermessages import fill


@pytest.fixture
def group(tmp_path: Path) -> Iterator[BrokerGroup]:
    with BrokerGroup(tmp_path / "cluster", namesrv_kind=OURS) as running:
        running.start()
        yield running


def queue_offsets(table: Path) -> list[tuple[str, int, int]]:
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=["topic", "queue_id", "queue_offset"]).to_pylist()
    return sorted((row["topic"], row["queue_id"], row["queue_offset"]) for row in rows)


def test_topics_land_once_also_without_the_checkpoint(
    spark: SparkSession, group: BrokerGroup, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    cluster = Cluster(f"127.0.0.1:{group.namesrv_port}", pattern="Land.*", more={"retries": "2"})
    for topic in ("LandA", "LandB"):
        fill(group, topic, 100, queues=2)
    assert land(cluster, str(table), spark=spark).rows == 400
    fill(group, "LandA", 50, queues=2)
    assert land(cluster, str(table), spark=spark).rows == 100
    shutil.rmtree(table / "_landing")
    fill(group, "LandB", 30, queues=2)
    assert land(cluster, str(table), spark=spark).rows == 60
    expected = [("LandA", queue, offset) for queue in range(2) for offset in range(150)]
    expected += [("LandB", queue, offset) for queue in range(2) for offset in range(130)]
    assert queue_offsets(table) == expected
