"""Landings by `permissive` whose last row of the log stands for damage, and those that go on behind it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from hatwisted.pipeline.jobs.audit.auditing import AuditOptions, audit
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.workertasks import InlineTasks, Tasks
from hatwisted.wire.record import encode_record
from tests.support.growing import FILE_SIZE, GrowingStore
from tests.support.icebergcatalog import iceberg_catalog

ICEBERG = "iceberg:lake.rocketmq.messages"
DAMAGED = 49


def garble_last_body(store: GrowingStore) -> None:
    """It says that it's compressed, and isn't: the record is whole, so that the log ends behind it, and yet it
    can't be read."""
    record = store.records[-1]
    with (store.root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(record.physical_offset % FILE_SIZE)
        file.write(encode_record(msgspec.structs.replace(record, sys_flag=record.sys_flag | 1)))


def landed_rows(table: str) -> list[tuple[int, bool]]:
    """Of each row its offset, and whether it stands for damage."""
    if table == ICEBERG:
        rows = load_catalog("lake").load_table("rocketmq.messages").scan().to_arrow()
    else:
        rows = DeltaTable(table).to_pyarrow_table()
    times = rows["store_timestamp"].to_pylist()
    return sorted(zip(rows["physical_offset"].to_pylist(), (time is None for time in times), strict=True))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_landing_goes_on_behind_damage_that_was_its_last_row(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    store = GrowingStore(tmp_path / "broker-a")
    table = ICEBERG if kind == "iceberg" else str(tmp_path / "table")
    permissive = Stores([str(store.root)], {"mode": "permissive"})

    def landed(checkpoint: str | None = None) -> int:
        """By a stream with this checkpoint, or without Spark: rows."""
        if checkpoint is None:
            return land([str(store.root)], table, LandOptions(engine="local", compact_below=None)).rows
        options = LandOptions(engine="spark", checkpoint=str(tmp_path / checkpoint), compact_below=None)
        return land(permissive, table, options, spark=spark).rows

    def audited(tasks: SparkSession | Tasks, allow_lag: bool) -> tuple[bool, list[int]]:
        """Is the table what the log is, and where are its rows of damage?"""
        options = AuditOptions(allow_lag=allow_lag)
        found = audit(tasks, [str(store.root)], [table], options)
        return found.identical, [row.begin for row in found.damage_rows]

    with iceberg_catalog(tmp_path):
        store.append(DAMAGED + 1)
        garble_last_body(store)
        assert landed("one") == DAMAGED + 1
        same = (True, [store.offsets[DAMAGED]])
        assert audited(InlineTasks(), False) == audited(InlineTasks(), True) == audited(spark, False) == same
        for checkpoint in (None, "two", "one"):
            store.append(10)
            assert landed(checkpoint) == 10
        assert landed_rows(table) == [(at, at == store.offsets[DAMAGED]) for at in store.offsets]
        assert audited(InlineTasks(), False) == audited(InlineTasks(), True) == audited(spark, False) == same
