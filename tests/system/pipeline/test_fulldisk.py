"""A landing on a disk that is full, again and again a little later: one line, nothing half, and it goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake import DeltaTable
from pyiceberg import catalog
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from hatwisted.pipeline.delta.errors import NoRoom
from hatwisted.pipeline.jobs.land.landing import land
from hatwisted.pipeline.jobs.land.landoptions import LandOptions
from hatwisted.pipeline.jobs.latest.latesttable import latest
from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.smalldisk import leave_room, small_disk

pytestmark = pytest.mark.timeout(600)
DISK_BYTES = 4 << 20
STEP = 16 << 10
"""Of room more, from one try to the next."""
HOW = LandOptions(engine="local", max_bytes_per_trigger=200_000, compact_below=None)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, DISK_BYTES) as disk:
        yield disk


@pytest.fixture
def store(tmp_path: Path) -> GrowingStore:
    store = GrowingStore(tmp_path / "broker-a")
    store.append(1_500)
    return store


def until_there_is_room(disk: Path, run: Callable[[], object], check: Callable[[], None]) -> int:
    """How often there was none. check: after each try."""
    refused = 0
    for room in range(0, DISK_BYTES, STEP):
        ballast = leave_room(disk, room)
        try:
            run()
        except NoRoom as error:
            assert "there's no room left on its disk" in str(error)
            assert "\n" not in str(error)
            refused += 1
            ballast.unlink()
            check()
            continue
        check()
        return refused
    raise AssertionError("not even with all the disk")


def test_a_delta_table(disk: Path, store: GrowingStore) -> None:
    table = disk / "table"

    def check() -> None:
        if not DeltaTable.is_deltatable(str(table)):
            return
        there = DeltaTable(str(table))
        offsets = sorted(there.to_pyarrow_table(columns=["physical_offset"])[0].to_pylist())
        assert offsets == store.offsets[: len(offsets)]
        mentioned = {Path(uri).name for uri in there.file_uris()}
        assert {path.name for path in table.rglob("*.parquet")} == mentioned
        seen.append(len(offsets))

    seen: list[int] = []
    assert until_there_is_room(disk, lambda: land([str(store.root)], str(table), HOW), check) > 3
    assert seen == sorted(seen)
    assert seen[-1] == 1_500
    (disk / "ballast").unlink()

    last = str(disk / "last")

    def merged() -> None:
        latest(str(table), last, key="physical_offset")

    assert until_there_is_room(disk, merged, lambda: None) > 1
    assert DeltaTable(last).to_pyarrow_table(columns=["key"]).num_rows == 1_500


def test_an_iceberg_table(disk: Path, store: GrowingStore, tmp_path: Path) -> None:
    def check() -> None:
        if not load_catalog("lake").table_exists("rocketmq.messages"):
            return
        rows = load_catalog("lake").load_table("rocketmq.messages").scan().to_arrow()
        offsets = sorted(rows["physical_offset"].to_pylist())
        assert offsets == store.offsets[: len(offsets)]
        seen.append(len(offsets))

    seen: list[int] = []
    warehouse = {"PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{disk}/warehouse"}
    with (
        iceberg_catalog(tmp_path),
        patch.dict(os.environ, warehouse),
        patch.object(catalog, "_ENV_CONFIG", Config()),
    ):
        name = "iceberg:lake.rocketmq.messages"
        assert until_there_is_room(disk, lambda: land([str(store.root)], name, HOW), check) > 3
        assert seen[-1] == 1_500
        (disk / "ballast").unlink()
        last = "iceberg:lake.rocketmq.last"
        assert until_there_is_room(disk, lambda: latest(name, last, key="physical_offset"), lambda: None) > 1
        kept = load_catalog("lake").load_table("rocketmq.last").scan().to_arrow()
        assert kept.num_rows == 1_500
