"""Small files of a partition into one, whatever others do with the table at that moment."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from unittest import TestCase
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from hatwisted.pipeline.delta import compaction, datafiles
from hatwisted.pipeline.delta.commits import Claim, claim
from hatwisted.pipeline.delta.compaction import compact
from hatwisted.pipeline.delta.names import BY_VERSION, Writer, written_by
from hatwisted.pipeline.delta.orphans import remove_orphans
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from tests.support.deletionvectors import delete_rows, paths
from tests.support.growing import GrowingStore

BELOW = 1 << 20


class CompactionTests(TestCase):
    landed_table: ClassVar[Path]
    landed_offsets: ClassVar[list[int]]

    @classmethod
    def setUpClass(cls) -> None:
        """Ten landings of 40 records, which most tests begin with."""
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        store, cls.landed_table = GrowingStore(folder / "broker-a"), folder / "table"
        for _ in range(10):
            store.append(40)
            land([str(store.root)], str(cls.landed_table), LandOptions(engine="local", compact_below=None))
        cls.landed_offsets = list(store.offsets)

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.table = str(self.folder / "table")

    def landed(self) -> list[int]:
        """A copy of that table is there now; the records' offsets."""
        shutil.copytree(self.landed_table, self.table)
        return self.landed_offsets

    def offsets(self) -> list[int]:
        rows = DeltaTable(self.table).to_pyarrow_table(columns=["physical_offset"])
        return sorted(rows["physical_offset"].to_pylist())

    def files(self) -> set[str]:
        found = Path(self.table).rglob("part-*.parquet")
        return {path.name for path in found}

    def between(self, act: Callable[[], object]) -> Any:
        """`act` between the writing of a compaction's first file and its commit."""
        written, acts = compaction._written, [act]

        def and_then(*arguments: Any) -> Any:
            file = written(*arguments)
            if acts:
                acts.pop()()
            return file

        return patch.object(compaction, "_written", and_then)

    def test_each_row_once_before_and_after(self) -> None:
        offsets = self.landed()
        before = len(DeltaTable(self.table).file_uris())
        done = compact(self.table, BELOW)
        self.assertEqual(done.put_off, ())
        self.assertEqual(len(DeltaTable(self.table).file_uris()), before - done.removed + done.added)
        self.assertGreater(done.removed, 4 * done.added)
        self.assertEqual(self.offsets(), offsets)

    def test_a_table_with_deletion_vectors_is_left_in_a_line(self) -> None:
        self.landed()
        first, *_ = paths(self.table)
        delete_rows(self.table, first, [0])
        before = DeltaTable(self.table).version()
        (reason,) = compact(self.table, BELOW).put_off
        self.assertRegex(reason, "table: may have deletion vectors, .* OPTIMIZE of Spark's Delta merges them")
        self.assertEqual(DeltaTable(self.table).version(), before)

    def test_of_two_at_once_the_later_one_changes_nothing(self) -> None:
        offsets = self.landed()
        first = []
        with self.between(lambda: first.append(compact(self.table, BELOW))):
            done = compact(self.table, BELOW)
        self.assertGreater(first[0].removed, 0)
        self.assertIn("another writer has replaced files meanwhile", done.put_off[0])
        self.assertEqual(self.offsets(), offsets)
        self.assertEqual(compact(self.table, BELOW), compaction.Compaction())

    def test_one_of_delta_rs_wins_as_well(self) -> None:
        offsets = self.landed()
        with self.between(lambda: DeltaTable(self.table).optimize.compact()):
            self.assertTrue(compact(self.table, BELOW).put_off)
        self.assertEqual(self.offsets(), offsets)

    def test_what_has_come_to_nothing_leaves_no_file(self) -> None:
        self.landed()
        whole = self.files()
        with patch.object(compaction, "_swap", side_effect=OSError("the disk is gone")) as swap:
            done = compact(self.table, BELOW)
        swap.assert_called()
        self.assertIn("the disk is gone", done.put_off[0])
        self.assertEqual(self.files(), whole)

    def test_what_a_killed_one_leaves_goes_with_the_next_landing(self) -> None:
        offsets = self.landed()
        for where, name in ((compaction, "_swap"), (datafiles._OpenFile, "finish")):
            held = self.claimed()
            with (
                patch.object(where, name, side_effect=KeyboardInterrupt),
                patch.object(datafiles.DataFiles, "abandon"),  # a killed one doesn't come to that
                self.assertRaises(KeyboardInterrupt),
            ):
                compact(self.table, BELOW, held=held)
            left = self.all_files()
            removed = remove_orphans(self.table, self.claimed())
            self.assertEqual(left - {Path(path).name for path in removed}, self.all_files())
            self.assertEqual(len(removed), 1)
        self.assertEqual(self.offsets(), offsets)
        self.assertEqual(self.all_files(), {Path(path).name for path in DeltaTable(self.table).file_uris()})

    def test_what_one_without_a_claim_leaves_goes_once_the_table_is_a_version_later(self) -> None:
        """Until then it could still be committed."""
        self.write("T", range(8))
        for where, name in ((compaction, "_swap"), (datafiles._OpenFile, "finish")):
            with (
                patch.object(where, name, side_effect=KeyboardInterrupt),
                patch.object(datafiles.DataFiles, "abandon"),
                self.assertRaises(KeyboardInterrupt),
            ):
                compact(self.table, BELOW)
            self.assertEqual(remove_orphans(self.table), [])
            self.write("T", [99])
            self.assertEqual(len(remove_orphans(self.table)), 1)
        self.assertEqual(self.rows("T"), [*range(8), 99, 99])

    def test_its_file_is_for_the_version_that_it_comes_right_after(self) -> None:
        self.write("T", range(8))
        tidied: list[str] = []

        def written() -> None:
            self.write("T", [99])
            tidied.extend(remove_orphans(self.table))

        with self.between(written):
            self.assertEqual(compact(self.table, BELOW).removed, 8)
        self.assertEqual(len(tidied), 1)
        (merged,) = (path for path in DeltaTable(self.table).file_uris() if written_by(Path(path).name))
        self.assertEqual(written_by(Path(merged).name), (BY_VERSION, DeltaTable(self.table).version() - 1))
        self.assertEqual(remove_orphans(self.table), [])
        self.assertEqual(self.rows("T"), [*range(8), 99])

    def test_one_of_a_landing_that_another_took_over_from_changes_nothing(self) -> None:
        offsets = self.landed()
        held = self.claimed()
        with self.between(lambda: remove_orphans(self.table, self.claimed())):
            done = compact(self.table, BELOW, held=held)
        self.assertEqual(done.removed, 0)
        self.assertIn("took over", done.put_off[0])
        self.assertEqual(self.offsets(), offsets)

    def claimed(self) -> Claim:
        return claim(self.table, Writer(("broker-a",)))

    def all_files(self) -> set[str]:
        """Those that readers of bare folders don't see, too."""
        return {path.name for path in Path(self.table).glob("topic=*/**/*.parquet")}

    def test_rows_that_come_meanwhile_stay(self) -> None:
        self.write("T", range(8))
        with self.between(lambda: self.write("T", [99])):
            done = compact(self.table, BELOW)
        self.assertEqual((done.removed, done.added), (8, 1))
        self.assertEqual(self.rows("T"), [*range(8), 99])

    def test_partitions_of_any_name_and_none(self) -> None:
        for topic in ("%RETRY%a group", "Bestellungen/ü", None):
            self.write(topic, range(8))
        done = compact(self.table, BELOW)
        self.assertEqual((done.removed, done.added, done.put_off), (24, 3, ()))
        for topic in ("%RETRY%a group", "Bestellungen/ü", None):
            self.assertEqual(self.rows(topic), list(range(8)))

    def test_files_of_before_a_column_came(self) -> None:
        self.write("T", range(4))
        for number in range(4, 8):
            wider = pa.table({"topic": ["T"], "row": [number], "more": ["new"]})
            write_deltalake(self.table, wider, mode="append", schema_mode="merge", partition_by=["topic"])
        self.assertEqual(compact(self.table, BELOW).removed, 8)
        found = DeltaTable(self.table).to_pyarrow_table().sort_by("row")
        self.assertEqual(found["more"].to_pylist(), [None] * 4 + ["new"] * 4)

    def write(self, topic: str | None, numbers: Any) -> None:
        """A commit for each row."""
        for number in numbers:
            rows = pa.table({"topic": pa.array([topic], pa.string()), "row": [number]})
            write_deltalake(self.table, rows, mode="append", partition_by=["topic"])

    def rows(self, topic: str | None) -> list[int]:
        rows = DeltaTable(self.table).to_pyarrow_table().to_pylist()
        return sorted(row["row"] for row in rows if row["topic"] == topic)
