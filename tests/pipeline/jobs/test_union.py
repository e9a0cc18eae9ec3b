"""One query over a landed table and the log's end, in Spark; what it's made of is tested without it."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch
from urllib.parse import unquote

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures
from pyiceberg.types import LongType
from pyspark.sql import SparkSession

from hatwisted.pipeline import union_arrow, union_read
from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.delta.commits import commit_files
from hatwisted.pipeline.delta.datafiles import DataFiles
from hatwisted.pipeline.delta.deltatable import prepare_table
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.landedrows import PARTITION_BY, landed_schema
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster, Stores
from tests.support.columnmapping import rename
from tests.support.deletionvectors import delete_rows, paths
from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.s3server import s3_server
from tests.support.scriptedgroup import BROKER, TOPIC, ScriptedBroker, ScriptedNameServer, record

LOCAL = LandOptions(engine="local")
PLACES_OF_LOG = [
    "broker",
    "topic",
    "physical_offset",
    "store_timestamp",
    "keys",
    "tags",
    "properties",
    "body",
]
PLACES = ["broker", "topic", "physical_offset", "store_date", "tags", "body"]


def test_a_store_and_its_table(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    stores = [GrowingStore(tmp_path / f"broker-{name}", seed) for seed, name in enumerate("ab")]
    stores[0].append(60)
    land([str(stores[0].root)], table, LOCAL)
    for store in stores:
        store.append(30)
    log = [str(store.root) for store in stores]
    found = union_read(spark, table, log)
    assert found.columns == [*COLUMNS, "store_date"]
    expected = union_arrow(table, log, PLACES).read_all()
    assert expected.num_rows == 120
    assert sorted(found.select(*PLACES).toArrow().to_pylist(), key=str) == sorted(
        expected.to_pylist(), key=str
    )


def test_options_choose_rows_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    store = GrowingStore(tmp_path / "broker-a")
    store.append(60)
    chosen = read_arrow(str(store.root), ["topic"]).read_all().column(0)[0].as_py()
    source = Stores([str(store.root)], {"topic": chosen})
    land(source, table, spark=spark)
    store.append(60)
    log = read_arrow(str(store.root), ["topic", "physical_offset"]).read_all().to_pylist()
    wanted = [row["physical_offset"] for row in log if row["topic"] == chosen]
    assert 0 < len(wanted) < len(log)
    found = union_read(spark, table, source).select("physical_offset").collect()
    assert sorted(at for (at,) in found) == wanted


def test_a_cluster_and_its_table(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    with ScriptedNameServer() as names, ScriptedBroker(range(40)) as broker:
        names.brokers = {0: broker.address}
        land(Cluster(names.address, [TOPIC]), table, LOCAL)
        broker.messages |= {offset: record(offset) for offset in range(40, 55)}
        broker.high = 55
        found = union_read(spark, table, names.address).select("broker", "topic", "queue_offset").collect()
    assert sorted(map(tuple, found)) == [(BROKER, TOPIC, offset) for offset in range(55)]


def test_a_store_and_its_iceberg_table(spark: SparkSession, tmp_path: Path) -> None:
    table = "iceberg:lake.rocketmq.messages"
    store = GrowingStore(tmp_path / "broker-a")
    log = str(store.root)
    with iceberg_catalog(tmp_path):
        land([log], table, LOCAL)
        store.append(20)
        assert union_read(spark, table, log).count() == 20
        land([log], table, LOCAL)
        store.append(40)
        land([log], table, LOCAL)
        store.append(30)
        found = union_read(spark, table, log)
        land([log], table, LOCAL)
        assert found.columns == [*COLUMNS, "store_date"]
        expected = read_arrow(log, PLACES_OF_LOG).read_all().to_pylist()
        assert sorted(found.select(*PLACES_OF_LOG).toArrow().to_pylist(), key=str) == sorted(
            expected, key=str
        )
        whole = found.select(*PLACES).filter("store_date IS NULL").count()
        assert whole == 0
        opened = IcebergName.parse(table).load()
        with opened.update_schema() as change:
            change.union_by_name(pa.schema([("note", pa.string())]))
            change.update_column("queue_id", LongType())
        again = union_read(spark, table, log)
        assert dict(again.dtypes)["queue_id"] == "bigint"
        queues = read_arrow(log, ["queue_id"]).read_all().column(0).to_pylist()
        assert sorted(row["queue_id"] for row in again.select("queue_id").collect()) == sorted(queues)


def test_a_cluster_and_its_iceberg_table(tmp_path: Path) -> None:
    table = "iceberg:lake.rocketmq.messages"
    with (
        iceberg_catalog(tmp_path),
        ScriptedNameServer() as names,
        ScriptedBroker(range(40)) as broker,
    ):
        names.brokers = {0: broker.address}
        for end in (40, 55):
            land(Cluster(names.address, [TOPIC]), table, LOCAL)
            broker.messages |= {offset: record(offset) for offset in range(40, end + 5)}
            broker.high = end + 5
            rows = union_arrow(table, names.address, ["broker", "topic", "queue_offset"]).read_all()
            found = sorted(tuple(row.values()) for row in rows.to_pylist())
            assert found == [(BROKER, TOPIC, offset) for offset in range(end + 5)]


def test_topics_whose_folders_dont_tell_them(spark: SparkSession, tmp_path: Path) -> None:
    """Names that are too long, or look like something else."""
    table = str(tmp_path / "table")
    topics = ("%RETRY%" + "g" * 200, "00123", "2026-01-01", "a=b/c")
    schema = prepare_table(table, landed_schema(["tags"]), PARTITION_BY)
    files = DataFiles(table, schema, PARTITION_BY, writer="0" * 8, epoch=1)
    rows = [{"topic": topic, "physical_offset": 100 * at} for at, topic in enumerate(topics * 2)]
    files.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    commit_files(table, files.close(), application="a", number=0, held=None)
    GrowingStore(tmp_path / "broker-x")
    found = union_read(spark, table, str(tmp_path / "broker-x"))
    assert sorted(row["topic"] for row in found.select("topic").collect()) == sorted(topics * 2)


def test_a_session_without_the_object_store_s_package_says_so_in_a_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    """programs/test_sparkstores.py has one that knows it."""
    table, store = "s3://lake/table", GrowingStore(tmp_path / "broker-a")
    store.append(20)
    with s3_server("lake") as environment, patch.dict(os.environ, environment):
        land([str(store.root)], table, LOCAL)
        store.append(10)
        with pytest.raises(WrongTable) as told:
            union_read(spark, table, str(store.root))
        assert str(told.value) == (
            "s3://lake/table: Spark can't read its files: this session knows no s3a://: give it"
            " org.apache.hadoop:hadoop-aws of its Hadoop's version (spark.jars.packages), or use union_arrow"
        )
        assert union_arrow(table, str(store.root), ["physical_offset"]).read_all().num_rows == 30


def test_files_that_are_gone_are_told_in_a_line(spark: SparkSession, tmp_path: Path) -> None:
    table, store = tmp_path / "table", GrowingStore(tmp_path / "broker-a")
    for _ in range(2):
        store.append(20)
        land([str(store.root)], str(table), LOCAL)
    files = pa.table(DeltaTable(str(table)).get_add_actions(flatten=True)).sort_by("max.physical_offset")
    (table / unquote(files.column("path")[0].as_py())).unlink()
    with pytest.raises(WrongTable, match="Spark can't read its files: .*PATH_NOT_FOUND") as told:
        union_read(spark, str(table), str(store.root))
    assert "\n" not in str(told.value)


def test_deletion_vectors_are_left_to_who_knows_them(spark: SparkSession, tmp_path: Path) -> None:
    table, store = str(tmp_path / "table"), GrowingStore(tmp_path / "broker-a")
    store.append(20)
    land([str(store.root)], table, LOCAL)
    feature = TableFeatures.DeletionVectors
    DeltaTable(table).alter.add_feature(feature, allow_protocol_versions_increase=True)
    store.append(10)
    assert union_read(spark, table, str(store.root)).count() == 30
    delete_rows(table, paths(table)[0], [0])
    with pytest.raises(WrongTable, match="deletion vectors, which Spark's Parquet reader doesn't know"):
        union_read(spark, table, str(store.root))


def test_renamed_columns_are_left_to_who_knows_them(spark: SparkSession, tmp_path: Path) -> None:
    table, store = str(tmp_path / "table"), GrowingStore(tmp_path / "broker-a")
    store.append(20)
    land([str(store.root)], table, LOCAL)
    rename(table, "tags", "labels")
    with pytest.raises(WrongTable, match="columns are mapped, which Spark's Parquet reader doesn't know"):
        union_read(spark, table, str(store.root))
