"""Replaced files of landings: gone once the table lets them go, and no others."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from unittest import TestCase

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.names import written_by
from hatwisted.pipeline.delta.vacuuming import remove_replaced
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land.landing import land
from hatwisted.pipeline.jobs.land.landoptions import LandOptions, LandResult
from tests.support.deletionvectors import delete_rows, paths
from tests.support.growing import GrowingStore

AT_ONCE = timedelta(seconds=0)
LANDINGS = 9
TOPICS = 4


class VacuumTests(TestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store, self.table = GrowingStore(folder / "broker-a"), str(folder / "table")

    def land(self, count: int, vacuum: timedelta | None = None, below: int | None = 1 << 20) -> LandResult:
        self.store.append(count)
        options = LandOptions(engine="local", compact_below=below, vacuum=vacuum)
        return land([str(self.store.root)], self.table, options)

    def compacted(self) -> None:
        """A table whose small files were merged."""
        for _ in range(LANDINGS - 1):
            self.land(40, below=None)
        self.assertEqual(self.land(40).compacted, LANDINGS * TOPICS)

    def let_go(self) -> None:
        """The table lets replaced files go at once."""
        properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
        DeltaTable(self.table).alter.set_table_properties(properties)

    def files(self) -> set[str]:
        return {path.name for path in Path(self.table).glob("topic=*/*/*.parquet")}

    def mentioned(self) -> set[str]:
        return {Path(uri).name for uri in DeltaTable(self.table).file_uris()}

    def test_they_stay_for_as_long_as_the_table_says(self) -> None:
        self.compacted()
        self.assertEqual(remove_replaced(self.table, timedelta(days=7)), [])
        with self.assertRaisesRegex(WrongTable, "table: .*greater than 168 hours, got 2 hours") as told:
            remove_replaced(self.table, timedelta(hours=1, seconds=1))
        self.assertNotIn("\n", str(told.exception))
        self.assertEqual(len(self.files() - self.mentioned()), LANDINGS * TOPICS)

    def test_a_landing_removes_its_own_and_leaves_others_alone(self) -> None:
        self.compacted()
        rows = DeltaTable(self.table).to_pyarrow_table().slice(0, 1)
        rows = rows.set_column(rows.column_names.index("broker"), "broker", pa.array(["another"]))
        write_deltalake(self.table, rows, mode="append")
        theirs = {name for name in self.mentioned() if written_by(name) is None}
        DeltaTable(self.table).delete("broker = 'another'")
        self.let_go()
        self.assertEqual(self.land(0, AT_ONCE).vacuumed, LANDINGS * TOPICS)
        self.assertEqual(self.files(), self.mentioned() | theirs)
        self.assertEqual(self.land(0, AT_ONCE).vacuumed, 0)
        found = DeltaTable(self.table).to_pyarrow_table(columns=["physical_offset"]).column(0).to_pylist()
        self.assertEqual(sorted(found), self.store.offsets)

    def test_files_that_got_a_deletion_vector_are_still_the_tables(self) -> None:
        """Delta's log says of them that they were removed, and added again."""
        self.compacted()
        self.let_go()
        for path in paths(self.table):
            delete_rows(self.table, path, [0])
        self.assertEqual(len(remove_replaced(self.table, AT_ONCE)), LANDINGS * TOPICS)
        self.assertEqual(self.files(), self.mentioned())

    def test_a_time_that_is_too_short_ends_no_landing(self) -> None:
        found = self.land(40, timedelta(hours=1))
        self.assertEqual((found.rows, found.vacuumed), (40, 0))
        (reason,) = found.put_off
        self.assertRegex(reason, "^vacuum: .*table: .*168 hours, got 1 hours")

    def test_iceberg_s_snapshots_expire_by_themselves(self) -> None:
        with self.assertRaisesRegex(PipelineError, "expire as its own properties say: leave vacuum out"):
            land([str(self.store.root)], "iceberg:lake.a.b", LandOptions(vacuum=AT_ONCE))
