"""Audits of landed tables: rows that are missing, too many, there twice or changed are found and named."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import TestCase

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.errors import NotAStore, PipelineError, WrongSchema
from hatwisted.pipeline.jobs.audit.auditing import AuditOptions, audit
from hatwisted.pipeline.jobs.audit.auditresult import AuditResult
from hatwisted.pipeline.jobs.rangecompare import Kind
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.wire.storedrecord import Record
from tests.support.copies import end_of, write_store
from tests.support.golden import GOLDEN

COUNT = 80
Change = Callable[[pa.Table], pa.Table]


class TableCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store, self.table = self.folder / "broker-a", self.folder / "table"
        self.records = write_store(self.store, COUNT)
        self.end = end_of(self.records)

    def land(
        self, change: Change = lambda rows: rows, store: Path | None = None, columns: Any = None
    ) -> None:
        """A Delta table of the store's rows, in two commits, after a change."""
        rows = change(read_arrow([str(store or self.store)], columns).read_all())
        for part in (rows.slice(0, 30), rows.slice(30)):
            write_deltalake(str(self.table), part, mode="append", partition_by=["topic"])

    def audit(self, **options: Any) -> AuditResult:
        options.setdefault("split_bytes", 5000)
        store = str(options.pop("store", self.store))
        return audit(InlineTasks(), [store], [str(self.table)], AuditOptions(**options))

    def places(self, *records: Record) -> tuple[int, int]:
        return records[0].physical_offset, records[-1].physical_offset + records[-1].total_size


def without(*numbers: int) -> Change:
    return lambda rows: rows.take([number for number in range(len(rows)) if number not in numbers])


class SameTests(TableCase):
    def test_a_landed_store_is_identical(self) -> None:
        self.land()
        result = self.audit()
        self.assertTrue(result.identical)
        self.assertEqual(result.records, COUNT)
        self.assertEqual(
            [(copy.kind, copy.end) for copy in result.copies], [("store", self.end), ("table", self.end)]
        )

    def test_the_golden_store_of_all_kinds_of_messages_is_identical(self) -> None:
        self.land(store=GOLDEN / "master")
        self.assertTrue(self.audit(store=GOLDEN / "master").identical)

    def test_a_table_of_some_columns_is_compared_by_those(self) -> None:
        self.land(columns=["topic", "physical_offset", "size", "tags"])
        self.assertTrue(self.audit().identical)

    def test_plain_parquet_files_in_hive_folders_are_a_table_too(self) -> None:
        rows = read_arrow([str(self.store)]).read_all()
        for topic in rows["topic"].unique().to_pylist():
            folder = self.table / f"topic={topic.replace('%', '%25')}"
            folder.mkdir(parents=True)
            some = rows.filter(pc.equal(rows["topic"], topic)).drop_columns(["topic"])
            pq.write_table(some, folder / "part.parquet", row_group_size=5)
        self.assertTrue(self.audit().identical)

    def test_a_table_that_begins_later_is_reported_and_one_that_ends_earlier_lags(self) -> None:
        self.land(lambda rows: rows.slice(10, COUNT - 30))
        result = self.audit()
        begin, end = self.places(*self.records[COUNT - 20 :])
        (found,) = result.differences
        self.assertEqual((found.kind, found.lag, found.begin, found.end), (Kind.MISSING, True, begin, end))
        self.assertIn(f"begins at {self.records[10].physical_offset}", result.notes[0])
        self.assertTrue(self.audit(allow_lag=True).identical)


class DifferentTests(TableCase):
    def test_rows_that_are_missing_are_ranges(self) -> None:
        self.land(without(20, 21, 50))
        found = self.audit(split_bytes=1 << 20).differences
        self.assertEqual(
            [(each.kind, each.records) for each in found], [(Kind.MISSING, 2), (Kind.MISSING, 1)]
        )
        self.assertEqual((found[0].begin, found[0].end), self.places(*self.records[20:22]))
        assert found[1].record is not None
        self.assertEqual(found[1].record.queue_offset, self.records[50].queue_offset)

    def test_a_row_that_landed_twice_is_found(self) -> None:
        self.land(lambda rows: pa.concat_tables([rows, rows.slice(33, 1)]))
        (found,) = self.audit().differences
        self.assertEqual((found.kind, found.begin), (Kind.REPEATED, self.records[33].physical_offset))

    def test_a_row_that_no_record_has_is_extra(self) -> None:
        def more(rows: pa.Table) -> pa.Table:
            offsets = pc.add(rows.slice(5, 1)["physical_offset"], 1)
            at = rows.column_names.index("physical_offset")
            return pa.concat_tables([rows, rows.slice(5, 1).set_column(at, "physical_offset", offsets)])

        self.land(more)
        (found,) = self.audit().differences
        self.assertEqual((found.kind, found.begin), (Kind.EXTRA, self.records[5].physical_offset + 1))

    def test_rows_after_the_stores_end_are_extra(self) -> None:
        more = self.folder / "more" / "broker-a"
        records = write_store(more, COUNT + 10)
        self.land(store=more)
        found = self.audit().differences
        self.assertEqual({each.kind for each in found}, {Kind.EXTRA})
        self.assertEqual((found[0].begin, found[-1].end), (self.end, end_of(records)))

    def test_a_changed_value_of_any_column_is_named(self) -> None:
        for number, name in enumerate(("body", "queue_id", "keys", "properties", "store_timestamp", "tags")):
            with self.subTest(name):

                def swap(rows: pa.Table, name: str = name) -> pa.Table:
                    order = list(range(COUNT))
                    order[40] = next(i for i in range(41, COUNT) if rows[name][i] != rows[name][40])
                    return rows.set_column(rows.column_names.index(name), name, rows[name].take(order))

                self.table = self.folder / f"table-{number}"
                self.land(swap)
                (found,) = self.audit().differences
                self.assertEqual((found.kind, found.field), (Kind.CHANGED, name))
                self.assertEqual((found.begin, found.end), self.places(self.records[40]))


class WrongInputTests(TableCase):
    def test_a_folder_that_is_no_table_is_refused(self) -> None:
        with self.assertRaises(NotAStore):
            self.audit()
        self.table.mkdir()
        with self.assertRaises(NotAStore):
            self.audit()

    def test_a_table_without_offsets_is_refused(self) -> None:
        self.land(columns=["topic", "size"])
        with self.assertRaisesRegex(WrongSchema, "physical_offset"):
            self.audit()

    def test_of_several_brokers_one_must_be_named(self) -> None:
        other = self.folder / "broker-b"
        write_store(other, 20, seed=5)
        self.land()
        self.land(store=other)
        with self.assertRaisesRegex(PipelineError, "broker-a, broker-b"):
            self.audit()
        self.assertTrue(self.audit(table_broker="broker-a").identical)
        with self.assertRaisesRegex(PipelineError, "no rows of broker nobody"):
            self.audit(table_broker="nobody")
