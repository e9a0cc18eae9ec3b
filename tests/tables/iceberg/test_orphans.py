"""Files of Iceberg tables that nothing mentions: removed where that's plain, and no others."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from hatwisted.pipeline.delta.errors import Fenced
from hatwisted.pipeline.iceberg import fileids, snapshots, upkeep
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_catalog

NAME = "iceberg:lake.rocketmq.messages"
COMMITS = 10
"""At least, and enough for a compaction."""


class OrphanCase(TestCase):
    records = 60

    def setUp(self) -> None:
        self.folder = self.make_folder()
        self.enterContext(iceberg_catalog(self.folder))
        self.store = GrowingStore(self.folder / "broker-a")
        self.store.append(self.records)

    def make_folder(self) -> Path:
        return Path(self.enterContext(tempfile.TemporaryDirectory()))

    @property
    def table(self) -> Table:
        return load_catalog("lake").load_table(("rocketmq", "messages"))

    def land(self, **options: Any) -> LandResult:
        how = LandOptions(**{"compact_below": None, "max_bytes_per_trigger": 6_000, **options})
        return land([str(self.store.root)], NAME, how)

    def files(self, kind: str = "*.parquet") -> set[str]:
        return {str(path) for path in (self.folder / "warehouse").rglob(kind)}

    def mentioned(self) -> set[str]:
        """Data files of all snapshots."""
        found = self.table.inspect.all_data_files()["file_path"].to_pylist()
        return {path.removeprefix("file://") for path in found}

    def offsets(self) -> list[int]:
        found: list[int] = self.table.scan(selected_fields=("physical_offset",)).to_arrow()[0].to_pylist()
        return sorted(found)


class LeftTests(OrphanCase):
    """What a run left that didn't end by itself."""

    def interrupted(self, at: int, *, after: bool = False) -> None:
        """A landing whose commit number `at` isn't known to have happened; after: it has."""
        commit, numbers = snapshots._commit, iter(range(100))

        def broken(*given: Any) -> None:
            number = next(numbers)
            if number != at or after:
                commit(*given)
            if number == at:
                raise KeyboardInterrupt

        with patch.object(snapshots, "_commit", broken), self.assertRaises(KeyboardInterrupt):
            self.land()

    def test_the_next_run_removes_it_and_says_how_much(self) -> None:
        self.interrupted(2)
        left = self.files() - self.mentioned()
        self.assertGreater(len(left), 0)
        self.assertEqual(self.land().removed, len(left))
        self.assertEqual(self.files(), self.mentioned())
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_it_stays_if_it_was_committed_after_all(self) -> None:
        self.interrupted(2, after=True)
        self.assertEqual(self.files(), self.mentioned())
        self.assertEqual(self.land().removed, 0)
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_it_stays_if_only_the_snapshots_say_that_it_was_committed(self) -> None:
        """Numbers say where to look; what a snapshot mentions outranks them."""
        with patch.object(fileids.FileIds, "note", {}):
            self.land()
        self.store.append(10)
        self.assertEqual(self.land().removed, 0)
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_files_of_others_and_of_other_snapshots_stay(self) -> None:
        self.land()
        data = next(iter(self.files()))
        foreign = Path(data).with_name(f"00000-0-{uuid.uuid4()}.parquet")
        foreign.write_bytes(b"somebody is writing this")
        history = self.table.history()
        with self.table.manage_snapshots() as change:
            change.rollback_to_snapshot(history[1].snapshot_id)
        before = self.files()
        self.assertEqual(self.land().removed, 0)
        self.assertLess(before, self.files())
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_a_run_that_another_one_has_ended_leaves_nothing(self) -> None:
        commit, rivals = snapshots._commit, [self.land]

        def late(*given: Any) -> None:
            if given[1] and rivals:
                rivals.pop()()
            commit(*given)

        with patch.object(snapshots, "_commit", late), self.assertRaises(Fenced):
            self.land()
        self.assertEqual(self.files(), self.mentioned())
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_where_nothing_was_left_no_manifest_is_read(self) -> None:
        self.land()
        with patch("pyiceberg.manifest.ManifestFile.fetch_manifest_entry", side_effect=AssertionError):
            self.assertEqual(self.land().rows, 0)


class ExpiredTests(OrphanCase):
    """What only expired snapshots mentioned."""

    records = 160
    root: Path
    """Of all tests: a table that was landed and compacted knows its place, and is made once."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def setUp(self) -> None:
        super().setUp()
        kept = self.root / "kept"
        if not kept.exists():
            self.land(max_bytes_per_trigger=self.store.end // COMMITS)
            self.land(compact_below=1 << 20)
            shutil.copytree(self.folder, kept)
        shutil.copytree(kept, self.folder, dirs_exist_ok=True)

    def make_folder(self) -> Path:
        folder = self.root / "test"
        folder.mkdir()
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def expire(self) -> int:
        return upkeep.expire(self.table, NAME, datetime.now(UTC) + timedelta(days=6))

    def test_it_goes_with_them_and_nothing_else(self) -> None:
        before = self.files()
        self.store.append(5)
        self.land()
        self.assertGreater(self.expire(), COMMITS)
        self.assertLess(len(self.files() & before), len(before))
        self.assertEqual(self.files(), self.mentioned())
        self.assertEqual(self.offsets(), self.store.offsets)
        self.assertEqual(len(self.files("snap-*.avro")), 1)
        manifests = {
            each.removeprefix("file://") for each in self.table.inspect.all_manifests()["path"].to_pylist()
        }
        self.assertEqual(self.files("*-m*.avro"), manifests)
        self.store.append(5)
        self.land()
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_readers_of_snapshots_that_are_kept_go_on(self) -> None:
        kept = len(self.table.snapshots()) - 3  # of before the compaction, too
        with self.table.transaction() as change:
            change.set_properties({upkeep.KEPT: str(kept)})
        self.assertEqual(self.expire(), 3)
        for snapshot in self.table.snapshots():
            scan = self.table.scan(snapshot_id=snapshot.snapshot_id, selected_fields=("physical_offset",))
            rows = scan.to_arrow().num_rows
            said = snapshot.summary and snapshot.summary.additional_properties["total-records"]
            self.assertEqual(rows, int(said or 0))

    def test_a_tag_a_word_of_the_table_s_or_a_rollback_keeps_all_files(self) -> None:
        before = self.files()
        for keep in (
            lambda: (
                self.table.manage_snapshots()
                .create_tag(self.table.history()[COMMITS // 2].snapshot_id, "t")
                .commit()
            ),
            lambda: self.table.transaction().set_properties({"gc.enabled": "false"}).commit_transaction(),
        ):
            keep()
            self.assertGreater(self.expire(), 0)
            self.assertEqual(self.files(), before)
            self.store.append(5)
            self.land()
            before = self.files()

    def test_a_rollback_keeps_all_files(self) -> None:
        with self.table.manage_snapshots() as change:
            change.rollback_to_snapshot(self.table.history()[-2].snapshot_id)
        before = self.files()
        self.land()
        self.assertGreater(self.expire(), 0)
        self.assertLessEqual(before, self.files())
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_files_elsewhere_stay(self) -> None:
        rows = self.table.scan("topic == 'logs'").to_arrow().slice(0, 1)
        path = self.folder / "elsewhere.parquet"
        pq.write_table(rows, path)
        self.table.add_files([f"file://{path}"])
        self.table.delete(f"physical_offset == {rows['physical_offset'][0].as_py()}")
        self.assertGreater(self.expire(), 0)
        self.assertTrue(path.exists())
