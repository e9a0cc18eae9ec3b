"""A landed table and what is only in the log of its stores: each row once, whatever a landing does meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, write_deltalake

from hatwisted.pipeline import union_arrow
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.delta import commits, landedfiles, tails
from hatwisted.pipeline.delta.deletions import counting_rows
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.errors import LostRange, PipelineError, WrongSchema
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster, Stores
from tests.support import unioncase
from tests.support.columnmapping import rename
from tests.support.deletionvectors import delete_rows, paths
from tests.support.growing import TOPICS
from tests.support.unioncase import LOCAL, UnionCase


class StoreUnionTests(unioncase.AnyUnionCase):
    def test_what_is_in_neither_is_told(self) -> None:
        self.assert_loss_is_told()
        left = Stores([str(self.store.root)], {"failOnDataLoss": "false"})
        found = self.offsets(left)
        self.assertEqual(found[:40], self.store.offsets[:40])
        self.assertEqual(found[40:], [at for at in self.store.offsets if at >= 1 << 20])

    def test_what_is_deleted_before_its_turn_comes_is_told(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        self.store.append(6000)
        first, *_ = sorted((self.store.root / "commitlog").iterdir())
        rows = union_arrow(self.table, str(self.store.root), ["physical_offset"])
        left = Stores([str(self.store.root)], {"failOnDataLoss": "false"})
        rest = union_arrow(self.table, left, ["physical_offset"])
        first.unlink()
        with self.assertRaisesRegex(LostRange, "to 1048576 were deleted before they were read: set failOn"):
            rows.read_all()
        with self.assertLogs("hatwisted.pipeline.jobs.union", "WARNING"):
            found = rest.read_all().num_rows
        self.assertEqual(found, 40 + sum(at >= 1 << 20 for at in self.store.offsets))

    def test_options_that_choose_rows_are_not_ignored(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        for option, value in (("topic", "T"), ("mode", "permissive")):
            with self.assertRaisesRegex(PipelineError, f"option {option}.*union_read"):
                self.offsets(Stores([str(self.store.root)], {option: value}))
        with self.assertRaisesRegex(PipelineError, "option tags.*union_read"):
            self.offsets(Cluster("127.0.0.1:1", ["T"], more={"tags": "paid"}))

    def test_another_log_of_the_same_name_is_refused(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        self.assert_another_log_is_refused()

    def test_columns_of_the_users_own_and_fewer_ones(self) -> None:
        self.store.append(10)
        land([str(self.store.root)], self.table, LandOptions(engine="local", columns=["tags"]))
        DeltaTable(self.table).alter.add_columns(Schema.from_arrow(pa.schema([("note", pa.string())])).fields)
        self.store.append(5)
        rows = union_arrow(self.table, str(self.store.root)).read_all()
        self.assertNotIn("body", rows.column_names)
        self.assertEqual((rows.num_rows, rows.column("note").null_count), (15, 15))
        with self.assertRaisesRegex(WrongSchema, "has no column body"):
            union_arrow(self.table, str(self.store.root), ["body"])

    def test_a_column_that_was_renamed_has_its_values(self) -> None:
        """What delta-rs gives Arrow of it is null in each row."""
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        rename(self.table, "tags", "labels")
        self.store.append(10)
        found = union_arrow(self.table, str(self.store.root), ["physical_offset", "labels"]).read_all()
        labels = [row["labels"] for row in found.sort_by("physical_offset").to_pylist()]
        self.assertEqual(labels, [f"t{number % 3}" for number in range(40)] + 10 * [None])

    def test_rows_of_deletion_vectors_dont_count(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        before = union_arrow(self.table, str(self.store.root)).read_all()
        gone = []
        for path in paths(self.table):
            file = pq.ParquetFile(Path(self.table, unquote(path))).read(["physical_offset"]).column(0)
            delete_rows(self.table, path, [0])
            gone.append(file[0].as_py())
        self.store.append(10)
        found = union_arrow(self.table, str(self.store.root)).read_all()
        self.assertEqual(found.schema, before.schema)
        self.assertEqual(
            sorted(found.column("physical_offset").to_pylist()),
            [at for at in self.store.offsets if at not in gone],
        )
        log = read_arrow(str(self.store.root)).read_all()
        log = log.filter(pc.invert(pc.is_in(log.column("physical_offset"), pa.array(gone, pa.int64()))))
        found = found.sort_by("physical_offset").select(log.column_names)
        self.assertTrue(found.cast(log.schema).equals(log.sort_by("physical_offset")))
        self.assertEqual(self.offsets(str(self.store.root)), sorted(log["physical_offset"].to_pylist()))

    def test_a_broken_file_beside_deletion_vectors_is_told_in_a_line(self) -> None:
        """delta-rs comes to it only as the rows are read."""
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        whole, broken, *_ = paths(self.table)
        delete_rows(self.table, whole, [0])
        file = Path(self.table, unquote(broken))
        file.write_bytes(file.read_bytes()[:100])
        rows = counting_rows(DeltaTable(self.table), self.table, ["physical_offset"])
        with self.assertRaisesRegex(
            WrongTable, f"{self.table}: can't be read by delta-rs: .*Parquet"
        ) as told:
            list(rows)
        self.assertNotIn("\n", str(told.exception))


class ChangedTableTests(UnionCase):
    """What landings have committed is where the log goes on, whatever users do with the rows."""

    def setUp(self) -> None:
        super().setUp()
        self.log = str(self.store.root)
        for _ in range(3):
            self.store.append(40)
            land([self.log], self.table, LOCAL)

    @property
    def landed(self) -> DeltaTable:
        return DeltaTable(self.table)

    def assert_goes_on(self, rows: list[int]) -> None:
        """rows: what the table has of what has landed"""
        expected = rows + self.store.offsets[120:]
        self.assertEqual(self.offsets(self.log), expected)
        new = self.store.offsets[-5:]
        self.assertEqual(land([self.log], self.table, LOCAL).rows, len(self.store.offsets) - 120)
        self.assertEqual(self.offsets(self.log), expected)
        self.assertEqual(new, expected[-5:])

    def test_rows_that_users_delete_at_the_end_stay_so(self) -> None:
        topic = TOPICS[119 % len(TOPICS)]
        self.landed.delete(f"physical_offset >= {self.store.offsets[110]}")
        self.landed.delete(f"topic = '{topic}'")
        self.landed.vacuum(0, dry_run=False, enforce_retention_duration=False)
        self.assertEqual(land([self.log], self.table, LOCAL).rows, 0)
        self.store.append(5)
        of_topic = self.store.offsets[TOPICS.index(topic) : 120 : len(TOPICS)]
        self.assert_goes_on([at for at in self.store.offsets[:110] if at not in of_topic])

    def test_an_empty_table_goes_on_after_what_was_there(self) -> None:
        self.landed.delete()
        self.store.append(5)
        self.assert_goes_on([])

    def test_the_last_row_may_be_changed(self) -> None:
        last = self.store.offsets[119]
        self.landed.update({"body_crc": "7", "tags": "'mine'"}, predicate=f"physical_offset = {last}")
        self.store.append(5)
        self.assert_goes_on(self.store.offsets[:120])

    def test_a_log_s_end_is_known_without_notes_and_from_further_rows(self) -> None:
        """Of a table that landings of before have written, and where others have put more of the log."""
        with patch.object(tails, "noted_tails", return_value={}):
            self.assertEqual(self.offsets(self.log), self.store.offsets)
        before = self.landed.to_pyarrow_table()
        self.landed.restore(self.landed.version() - 1)
        write_deltalake(self.table, before.sort_by("physical_offset").slice(80), mode="append")
        self.store.append(5)
        self.assert_goes_on(self.store.offsets[:120])

    def test_what_a_restored_version_lacks_is_landed_again_also_after_rows_were_deleted(self) -> None:
        version = self.landed.version()
        self.landed.delete(f"physical_offset >= {self.store.offsets[70]}")
        self.landed.restore(version - 2)  # the second landing
        self.assertEqual(self.offsets(self.log), self.store.offsets)
        self.assertEqual(land([self.log], self.table, LOCAL).rows, 40)
        self.assertEqual(self.offsets(self.log), self.store.offsets)

    def test_a_restore_while_rows_are_written_is_told_and_made_up_for(self) -> None:
        self.store.append(40)
        commit = commits.commit_files

        def after_a_restore(*given: Any, **more: Any) -> Any:
            self.landed.restore(self.landed.version() - 3)
            return commit(*given, **more)

        with (
            patch.object(landedfiles, "commit_files", after_a_restore),
            self.assertRaisesRegex(WrongTable, "was restored to an earlier version while rows were written"),
        ):
            land([self.log], self.table, LOCAL)
        self.assertEqual(self.offsets(self.log), self.store.offsets)
        self.assertEqual(land([self.log], self.table, LOCAL).rows, 80)
        self.assertEqual(self.offsets(self.log), self.store.offsets)
