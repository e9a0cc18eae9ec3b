"""Landing topics over the network, from brokers of ours."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.queuetails import noted_queues
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster
from testbed.brokergroup import OURS, BrokerGroup
from tests.support.clustermessages import fill
from tests.support.scriptedgroup import BROKER, TOPIC, ScriptedBroker, ScriptedNameServer, record


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
    fill(group, "LandB", 10, queues=2)
    assert land(cluster, str(table), LandOptions(engine="local")).rows == 20
    fill(group, "LandA", 5, queues=2)
    assert land(cluster, str(table), spark=spark).rows == 10
    expected = [("LandA", queue, offset) for queue in range(2) for offset in range(155)]
    expected += [("LandB", queue, offset) for queue in range(2) for offset in range(140)]
    assert queue_offsets(table) == expected
    assert noted_queues(DeltaTable(str(table)), [group.name])[1] == set()


def test_a_broker_that_appears_after_the_claim_is_claimed_and_lands_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has rows of it since an earlier landing, of which this one's checkpoint knows nothing."""
    table = str(tmp_path / "table")
    with ScriptedNameServer() as names, ScriptedBroker(range(40)) as one, ScriptedBroker(range(30)) as other:
        names.brokers, names.others = {0: one.address}, {"broker-b": {0: other.address}}
        cluster = Cluster(names.address, [TOPIC], more={"retries": "0"})
        land(cluster, table, LandOptions(engine="local"))
        for broker, high in ((one, 45), (other, 33)):
            broker.messages |= {offset: record(offset) for offset in range(broker.high, high)}
            broker.high = high
        known = [Writer.of([BROKER])]
        writer = Cluster.writer
        monkeypatch.setattr(Cluster, "writer", lambda source: known.pop() if known else writer(source))
        land(cluster, table, spark=spark)
    rows = DeltaTable(table).to_pyarrow_table(columns=["broker", "queue_offset"]).to_pylist()
    landed = sorted((row["broker"], row["queue_offset"]) for row in rows)
    assert landed == [(BROKER, at) for at in range(45)] + [("broker-b", at) for at in range(33)]
