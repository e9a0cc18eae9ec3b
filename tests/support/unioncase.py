"""What a union of a landed table and its log holds, of whichever kind the table is."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest import TestCase
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable

from hatwisted.pipeline import union_arrow
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.errors import LostRange, PipelineError
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.land.landingsources import WrongStore
from hatwisted.pipeline.jobs.union import unionread
from tests.support.golden import GOLDEN
from tests.support.growing import GrowingStore

LOCAL = LandOptions(engine="local", compact_below=None)


class UnionCase(TestCase):
    """Two stores, and where they land: in a Delta table, if a test doesn't say otherwise."""

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

    def halve(self) -> None:
        """The table lacks rows of the log's end that it had."""
        table = DeltaTable(self.table)
        table.restore(table.version() - 1)

    def assert_loss_is_told(self) -> None:
        """Of a file that was deleted before its rows were landed."""
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        self.store.append(12_000)
        first, *_ = sorted((self.store.root / "commitlog").iterdir())
        first.unlink()
        with self.assertRaisesRegex(LostRange, "were deleted before they were landed: set failOnDataLoss"):
            self.offsets(str(self.store.root))

    def assert_another_log_is_refused(self) -> None:
        """One that has the name of the one that was landed."""
        shutil.rmtree(self.store.root)
        GrowingStore(self.store.root, seed=5).append(60)
        with self.assertRaises(WrongStore):
            self.offsets(str(self.store.root))


class AnyUnionCase(UnionCase):
    """What holds of every kind of table. Test modules don't import it by its own name: it would run there."""

    meanwhile = LOCAL
    """How rows land that a union finds landed when it has the end of the log already."""

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
        land([path], self.table, replace(LOCAL, max_bytes_per_trigger=20_000))
        whole = union_arrow(self.table, path).read_all()
        order = [("physical_offset", "ascending")]
        log = read_arrow(path).read_all()
        self.assertTrue(
            whole.sort_by(order).select(log.column_names).cast(log.schema).equals(log.sort_by(order))
        )
        self.halve()
        halved = union_arrow(self.table, path).read_all()
        self.assertEqual(halved.schema, whole.schema)
        self.assertTrue(halved.sort_by(order).equals(whole.sort_by(order)))
        self.assertEqual(halved.num_rows, log.num_rows)

    def test_a_landing_that_commits_in_between_changes_nothing(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        self.store.append(30)
        find = unionread.log_tail

        def landing_meanwhile(*given: object) -> object:
            land([str(self.store.root)], self.table, LOCAL)
            self.store.append(5)
            found = find(*given)  # type: ignore[arg-type]
            land([str(self.store.root)], self.table, self.meanwhile)
            return found

        with patch.object(unionread, "log_tail", landing_meanwhile):
            found = self.offsets(str(self.store.root))
        self.assertEqual(found, self.store.offsets)
        self.assertEqual(self.offsets(str(self.store.root)), self.store.offsets)

    def test_an_empty_table_has_no_topics_to_ask_a_cluster_for(self) -> None:
        land([str(self.store.root)], self.table, LOCAL)
        for cluster in ("127.0.0.1:9876", "127.0.0.1:9876;127.0.0.1:9877"):
            with self.assertRaisesRegex(PipelineError, "no rows: which topics"):
                union_arrow(self.table, cluster)
        self.assertIsInstance(union_arrow(self.table, str(self.store.root)), pa.RecordBatchReader)
