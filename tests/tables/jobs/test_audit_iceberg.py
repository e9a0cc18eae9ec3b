"""Audits of Iceberg tables: as of Delta's, by what the present snapshot has."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any
from unittest import TestCase

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.icebergfiles import data_files
from hatwisted.pipeline.jobs.audit.auditing import AuditOptions, audit
from hatwisted.pipeline.jobs.audit.auditresult import AuditResult
from hatwisted.pipeline.jobs.audit.tablecopy import TableCopy
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.rangecompare import Kind
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from tests.support.golden import GOLDEN
from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_catalog

NAME = "iceberg:lake.rocketmq.messages"


class OtherProcess(InlineTasks):
    """Work goes to whoever does it as bytes."""

    def run(self, work: Any, function: Any, progress: Any = None, total: int = 0) -> Any:
        return super().run(pickle.loads(pickle.dumps(work)), function, progress, total)


class IcebergAuditTests(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(iceberg_catalog(self.folder))
        self.store = GrowingStore(self.folder / "broker-a")
        self.store.append(80)

    @property
    def table(self) -> Table:
        return load_catalog("lake").load_table(("rocketmq", "messages"))

    def land(self, *stores: Path) -> None:
        how = LandOptions(compact_below=None, max_bytes_per_trigger=10_000)
        land([str(store) for store in stores or (self.store.root,)], NAME, how)

    def audit(self, store: Path | None = None, **options: Any) -> AuditResult:
        how = AuditOptions(split_bytes=5_000, **options)
        return audit(OtherProcess(), [str(store or self.store.root)], [NAME], how)

    def rows(self, begin: int, count: int) -> pa.Table:
        """Of the log, as the table has them."""
        batches = [with_store_date(batch) for batch in read_arrow([str(self.store.root)])]
        return pa.Table.from_batches(batches).slice(begin, count)

    def test_a_landed_store_is_identical(self) -> None:
        self.land(GOLDEN / "master")
        result = self.audit(GOLDEN / "master")
        self.assertTrue(result.identical)
        self.assertEqual([copy.kind for copy in result.copies], ["store", "table"])
        self.assertEqual(len({copy.end for copy in result.copies}), 1)
        self.assertEqual(result.notes, ())

    def test_rows_that_are_missing_changed_or_there_twice_are_named(self) -> None:
        self.land()
        self.table.delete(f"physical_offset == {self.store.offsets[20]}")
        changed = self.rows(40, 1)
        at = changed.column_names.index("body")
        changed = changed.set_column(at, "body", pa.array([b"another"], pa.binary()))
        self.table.overwrite(changed, f"physical_offset == {self.store.offsets[40]}")
        self.table.append(self.rows(60, 2))
        found = [(each.kind, each.field, each.begin) for each in self.audit().differences]
        offsets = self.store.offsets
        self.assertEqual(
            found,
            [
                (Kind.MISSING, "", offsets[20]),
                (Kind.CHANGED, "body", offsets[40]),
                (Kind.REPEATED, "", offsets[60]),
            ],
        )

    def test_one_broker_of_several_is_compared(self) -> None:
        other = GrowingStore(self.folder / "broker-with-a-name-longer-than-bounds", seed=1)
        other.append(30)
        self.land(self.store.root, other.root)
        with self.assertRaisesRegex(PipelineError, "more than one broker's rows"):
            self.audit()
        for store in (self.store, other):
            self.assertTrue(self.audit(store.root, table_broker=store.root.name).identical)

    def test_a_broker_with_a_long_name_needs_not_be_named(self) -> None:
        other = GrowingStore(self.folder / "broker-with-a-name-longer-than-bounds", seed=1)
        other.append(30)
        self.land(other.root)
        self.assertTrue(self.audit(other.root).identical)

    def test_what_was_renamed_is_found_by_its_number_and_foreign_files_by_their_names(self) -> None:
        self.land()
        with self.table.update_schema() as change:
            change.rename_column("body", "payload")
        with self.table.update_schema() as change:
            change.rename_column("tags", "tags_of_old")
        with self.table.update_schema() as change:
            change.rename_column("tags_of_old", "tags")
        self.store.append(4)
        rest = self.rows(80, 4)
        for number in range(4):  # a file is of one partition
            path = self.folder / f"foreign-{number}.parquet"
            pq.write_table(rest.slice(number, 1).drop_columns(["body"]), path)
            self.table.add_files([f"file://{path}"])
        result = self.audit()
        self.assertTrue(result.identical)
        self.assertTrue(any("has no column body" in note for note in result.notes))

    def test_what_a_manifest_says_and_the_file_does_not_is_found(self) -> None:
        self.store.append(4)
        self.land()
        self.store.append(4)
        table = self.table
        (file, *more) = data_files(table, NAME, self.rows(84, 4), FileIds("0" * 12))
        file.lower_bounds[table.schema().find_field("queue_offset").field_id] = (1 << 40).to_bytes(
            8, "little"
        )
        with table.transaction() as change, change.update_snapshot().fast_append() as adding:
            for each in (file, *more):
                adding.append_data_file(each)
        result = self.audit()
        self.assertFalse(result.identical)
        self.assertIn("its manifest says queue_offset is from", result.damaged[0].reason)
        self.assertEqual(result.differences, ())

    def test_a_table_without_history_is_what_tasks_get(self) -> None:
        self.land()
        copy = TableCopy.open(NAME)
        self.assertLess(len(pickle.dumps(copy)), 6_000 * len(copy.files))
        self.assertGreater(len(self.table.snapshots()), 2)
        self.assertNotIn(b"hatwisted.tail", pickle.dumps(copy))

    def test_what_is_not_there_is_told_in_a_line(self) -> None:
        with self.assertRaisesRegex(
            PipelineError, "^iceberg:lake.rocketmq.messages: .*does not exist"
        ) as told:
            self.audit()
        self.assertNotIn("\n", str(told.exception))
        self.land()
        next((self.folder / "warehouse").rglob("*.parquet")).unlink()
        with self.assertRaisesRegex(PipelineError, "parquet") as told:
            self.audit()
        self.assertNotIn("\n", str(told.exception))
