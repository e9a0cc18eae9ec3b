"""A landed table and what is only in the log of its stores: each row once, whatever a landing does meanwhile."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from unittest import TestCase
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable, Schema

from hatwisted.pipeline import union_arrow
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.errors import LostRange, PipelineError, WrongSchema
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster, Stores, WrongStore
from hatwisted.pipeline.jobs.union import unionread
from tests.support.golden import GOLDEN
from tests.support.growing import GrowingStore

LOCAL = LandOptions(engine="local", compact_below=None)


class UnionCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store = GrowingStore(self.folder / "broker-a")
        self.other = GrowingStore(self.folder / "broker-b", seed=1)
        self.table = str(self.folder / "table")
        self.both = [str(self.store.root), str(self.other.root)]

    def offsets(self, log: unionread.Log) -> list[int]:
        rows = union_arrow(self.table, log, ["physical_offset"]).read_all()
        return sorted(rows.column(0).to_pylist())

    def expected(self) -> list[int]:
        return sorted(self.store.offsets + self.other.offsets)


class StoreUnionTests(UnionCase):
    def test_rows_landed_and_rows_only_in_the_log(self) -> None:
        for count in (40, 0, 30):
            self.store.append(count)
            land([str(self.store.root)], self.table, LOCAL)
            self.other.append(count)
            self.store.append(7)
            self.assertEqual(self.offsets(self.both), self.expected())
        self.assertEqual(self.offsets(str(self.folder / "broker-[ab]")), self.expected())

    def test_all_columns_are_those_of_the_log_and_of_the_table(self) -> None:
        shutil.copytree(GOLDEN / "master", self.folder / "master")
        path = str(self.folder / "master")
        land([path], self.table, LOCAL)
        whole = union_arrow(self.table, path).read_all()
        DeltaTable(self.table).delete("physical_offset >= 20000")
        halved = union_arrow(self.table, path).read_all()
        order = [("physical_offset", "ascending")]
        self.assertEqual(halved.schema, whole.schema)
        self.assertTrue(halved.sort_by(order).equals(whole.sort_by(order)))
        self.assertEqual(halved.num_rows, read_arrow(path, ["topic"]).read_all().num_rows)

    def test_a_landing_that_commits_in_between_changes_nothing(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        self.store.append(30)
        find = unionread.log_tail

        def landing_meanwhile(*given: object) -> object:
            land([str(self.store.root)], self.table, LOCAL)
            self.store.append(5)
            found = find(*given)  # type: ignore[arg-type]
            land([str(self.store.root)], self.table, LOCAL)
            return found

        with patch.object(unionread, "log_tail", landing_meanwhile):
            found = self.offsets(str(self.store.root))
        self.assertEqual(found, self.store.offsets)
        self.assertEqual(self.offsets(str(self.store.root)), self.store.offsets)

    def test_what_is_in_neither_is_told(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        self.store.append(12_000)
        first, *_ = sorted((self.store.root / "commitlog").iterdir())
        first.unlink()
        with self.assertRaisesRegex(LostRange, "were deleted before they were landed: set failOnDataLoss"):
            self.offsets(str(self.store.root))
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
        shutil.rmtree(self.store.root)
        GrowingStore(self.store.root, seed=5).append(60)
        with self.assertRaises(WrongStore):
            self.offsets(str(self.store.root))

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

    def test_an_empty_table_has_no_topics_to_ask_a_cluster_for(self) -> None:
        land([str(self.store.root)], self.table, LOCAL)
        with self.assertRaisesRegex(PipelineError, "no rows: which topics"):
            union_arrow(self.table, "127.0.0.1:9876;127.0.0.1:9877")
        self.assertIsInstance(union_arrow(self.table, str(self.store.root)), pa.RecordBatchReader)
