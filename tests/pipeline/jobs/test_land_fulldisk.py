"""The engine Spark on a disk that is full, and a little later: one line, a whole table, and it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hatwisted.pipeline.delta.errors import NoRoom
from hatwisted.pipeline.jobs.land.landing import land
from hatwisted.pipeline.jobs.land.landoptions import LandOptions
from tests.support.growing import GrowingStore
from tests.support.smalldisk import leave_room, small_disk

pytestmark = pytest.mark.timeout(600)
DISK_BYTES = 8 << 20
ROOMS = (0, 64 << 10, 256 << 10)
"""Bytes that are free: not even for a claim; for some of the files; for all of a batch's files and little more."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, DISK_BYTES) as disk:
        yield disk


def test_a_full_disk_and_room_again(spark: SparkSession, disk: Path, tmp_path: Path) -> None:
    store, table = GrowingStore(tmp_path / "broker-a"), str(disk / "table")
    how = LandOptions(engine="spark", max_bytes_per_trigger=400_000, compact_below=None, partitions=2)
    store.append(300)
    land([str(store.root)], table, how, spark=spark)
    whole = store.offsets[:]
    store.append(3_000)
    for room in ROOMS:
        ballast = leave_room(disk, room)
        with pytest.raises(NoRoom) as refused:
            land([str(store.root)], table, how, spark=spark)
        assert "there's no room left on its disk" in str(refused.value)
        assert "\n" not in str(refused.value)
        ballast.unlink()
        seen = offsets(table)
        assert seen == store.offsets[: len(seen)]
        assert len(seen) >= len(whole)
    land([str(store.root)], table, how, spark=spark)
    assert offsets(table) == store.offsets
    mentioned = {Path(uri).name for uri in DeltaTable(table).file_uris()}
    assert {path.name for path in Path(table).glob("topic=*/*/*")} == mentioned


def offsets(table: str) -> list[int]:
    return sorted(DeltaTable(table).to_pyarrow_table(columns=["physical_offset"])[0].to_pylist())
