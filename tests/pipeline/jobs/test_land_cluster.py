"""Landing topics over the network, from brokers of ours, into tables of both kinds."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.notes import Notes
from hatwisted.pipeline.delta.queuetails import noted_queues
from hatwisted.pipeline.iceberg.queuenotes import landed_queues
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster
from testbed.brokergroup import OURS, BrokerGroup
from tests.support.clustermessages import fill
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.landedtables import KINDS, LandedTable
from tests.support.scriptedgroup import BROKER, TOPIC, ScriptedBroker, ScriptedNameServer, record


@pytest.fixture
def group(tmp_path: Path) -> Iterator[BrokerGroup]:
    with BrokerGroup(tmp_path / "cluster", namesrv_kind=OURS) as running:
        running.start()
        yield running


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LandedTable]:
    with iceberg_catalog(tmp_path):
        yield KINDS[request.param](tmp_path, [])


def rows_of(table: LandedTable, *columns: str) -> list[tuple[Any, ...]]:
    """In order."""
    if table.name == str(table.place):
        rows = DeltaTable(table.name).to_pyarrow_table(columns=[*columns])
    else:
        rows = load_catalog("lake").load_table("rocketmq.messages").scan(selected_fields=columns).to_arrow()
    return sorted(tuple(row[column] for column in columns) for row in rows.to_pylist())


def without_a_note(table: LandedTable, broker: str) -> Collection[str]:
    """This broker, if the table doesn't say of all of its queues where they end."""
    if table.name == str(table.place):
        return noted_queues(Notes(table.name), [broker])[1]
    return landed_queues(load_catalog("lake").load_table("rocketmq.messages"), table.name, [broker])[1]


def test_topics_land_once_also_without_the_checkpoint(
    spark: SparkSession, group: BrokerGroup, table: LandedTable
) -> None:
    cluster = Cluster(f"127.0.0.1:{group.namesrv_port}", pattern="Land.*", more={"retries": "2"})
    for topic in ("LandA", "LandB"):
        fill(group, topic, 100, queues=2)
    assert land(cluster, table.name, spark=spark).rows == 400
    fill(group, "LandA", 50, queues=2)
    assert land(cluster, table.name, spark=spark).rows == 100
    shutil.rmtree(table.place / "_landing")
    fill(group, "LandB", 30, queues=2)
    assert land(cluster, table.name, spark=spark).rows == 60
    fill(group, "LandB", 10, queues=2)
    assert land(cluster, table.name, LandOptions(engine="local")).rows == 20
    fill(group, "LandA", 5, queues=2)
    assert land(cluster, table.name, spark=spark).rows == 10
    expected = [("LandA", queue, offset) for queue in range(2) for offset in range(155)]
    expected += [("LandB", queue, offset) for queue in range(2) for offset in range(140)]
    assert rows_of(table, "topic", "queue_id", "queue_offset") == expected
    assert not without_a_note(table, group.name)


def test_a_broker_that_appears_after_the_claim_is_claimed_and_lands_once(
    spark: SparkSession, table: LandedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has rows of it since an earlier landing, of which this one's checkpoint knows nothing."""
    with ScriptedNameServer() as names, ScriptedBroker(range(40)) as one, ScriptedBroker(range(30)) as other:
        names.brokers, names.others = {0: one.address}, {"broker-b": {0: other.address}}
        cluster = Cluster(names.address, [TOPIC], more={"retries": "0"})
        land(cluster, table.name, LandOptions(engine="local"))
        for broker, high in ((one, 45), (other, 33)):
            broker.messages |= {offset: record(offset) for offset in range(broker.high, high)}
            broker.high = high
        known = [Writer.of([BROKER])]
        writer = Cluster.writer
        monkeypatch.setattr(Cluster, "writer", lambda source: known.pop() if known else writer(source))
        land(cluster, table.name, spark=spark)
    expected = [(BROKER, at) for at in range(45)] + [("broker-b", at) for at in range(33)]
    assert rows_of(table, "broker", "queue_offset") == expected
