"""Audits of landed tables: rows that are missing, too many, there twice or changed are found and named."""

from __future__ import annotations

import json
import shutil
import tempfile
import zlib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from hatwisted.pipeline.decode import bodies
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.delta.deletions import deleted_rows
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.errors import NotAStore, PipelineError, WrongSchema
from hatwisted.pipeline.jobs.audit import tablecompare
from hatwisted.pipeline.jobs.audit.auditing import AuditOptions, Span, audit
from hatwisted.pipeline.jobs.audit.auditresult import AuditResult
from hatwisted.pipeline.jobs.audit.tablecopy import TableCopy
from hatwisted.pipeline.jobs.rangecompare import Kind
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.wire.storedrecord import Record
from tests.support.copies import end_of, write_store
from tests.support.deletionvectors import delete_rows, paths
from tests.support.golden import GOLDEN
from tests.support.logdrafts import lay_out, plain

COUNT = 80
GROWN = 100_000
"""Bytes of a decompressed body."""
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


def of_broker(name: str) -> Change:
    def changed(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("broker")
        return rows.set_column(at, "broker", pa.repeat(pa.scalar(name, pa.string()), len(rows)))

    return changed


def with_bounds(table: Path, least: str, most: str) -> None:
    """Delta's log says this of the brokers of all files."""
    for commit in table.glob("_delta_log/*.json"):
        actions = list(map(json.loads, commit.read_text().splitlines()))
        for added in (action["add"] for action in actions if "add" in action):
            stats = json.loads(added["stats"])
            stats["minValues"]["broker"], stats["maxValues"]["broker"] = least, most
            added["stats"] = json.dumps(stats)
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions))


class DeletedTests(TableCase):
    def test_rows_of_deletion_vectors_dont_count(self) -> None:
        """Spark's Delta marks them, and leaves the files as they are."""
        self.land()
        gone, table = [], str(self.table)
        for path in paths(table):
            file = pq.ParquetFile(self.table / unquote(path)).read(["physical_offset"]).column(0)
            numbers = {0, len(file) - 1}
            delete_rows(table, path, numbers)
            gone += file.take(sorted(numbers)).to_pylist()
        self.assertGreater(len(gone), 5)
        found = self.audit()
        self.assertEqual({each.kind for each in found.differences}, {Kind.MISSING})
        places = [(each.begin, each.end) for each in found.differences]
        told = [at for at in gone if any(begin <= at < end for begin, end in places)]
        self.assertEqual((sorted(told), found.identical), (sorted(gone), False))

    def test_a_vector_of_another_file_is_told(self) -> None:
        self.land()
        delete_rows(str(self.table), paths(str(self.table))[0], [0])
        table = DeltaTable(self.table)
        with (
            patch.object(DeltaTable, "get_add_actions", lambda self: pa.table({"path": ["a"]})),
            self.assertRaisesRegex(WrongTable, "deleted rows of file:.*, which isn't one of its files"),
        ):
            deleted_rows(table, str(self.table))


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

    def test_a_table_that_ends_earlier_lags(self) -> None:
        self.land(lambda rows: rows.slice(0, COUNT - 20))
        begin, end = self.places(*self.records[COUNT - 20 :])
        (found,) = self.audit().differences
        self.assertEqual((found.kind, found.lag, found.begin, found.end), (Kind.MISSING, True, begin, end))
        self.assertTrue(self.audit(allow_lag=True).identical)

    def test_a_table_may_be_compared_from_where_its_landing_began(self) -> None:
        self.land(lambda rows: rows.slice(10))
        result = self.audit(split_bytes=1 << 20)
        (found,) = result.differences
        self.assertEqual((found.kind, found.lag), (Kind.MISSING, False))
        self.assertEqual((found.begin, found.end), self.places(*self.records[:10]))
        self.assertTrue(self.audit(span=Span(self.records[10].physical_offset)).identical)

    def test_what_the_table_has_not_is_named(self) -> None:
        self.land(columns=["topic", "physical_offset", "size", "tags"])
        (note,) = self.audit().notes
        self.assertRegex(note, "has no column queue_id, .*store_date")

    def test_an_empty_topic_is_compared_by_what_delta_makes_of_it(self) -> None:
        def nameless(rows: pa.Table) -> pa.Table:
            return rows.set_column(0, "topic", pa.array([""] * len(rows)))

        self.land(nameless)
        self.assertTrue(all(found.field == "topic" for found in self.audit().differences))
        self.assertEqual({None}, set(DeltaTable(str(self.table)).to_pyarrow_table()["topic"].to_pylist()))
        (copy,) = [TableCopy.open(str(self.table))]
        self.assertEqual(set(copy.rows(0, self.end)["topic"].to_pylist()), {""})

    def test_a_table_that_delta_rs_has_rewritten(self) -> None:
        self.land()
        deleted = self.records[7]
        DeltaTable(str(self.table)).delete(f"physical_offset = {deleted.physical_offset}")
        (found,) = self.audit().differences
        self.assertEqual((found.kind, found.begin), (Kind.MISSING, deleted.physical_offset))
        DeltaTable(str(self.table)).optimize.compact()
        self.assertEqual(len(self.audit().differences), 1)

    def test_bounds_of_names_that_are_cut(self) -> None:
        """Spark's Delta says the first 32 characters of a text, and of the largest one a character more."""
        broker = "broker-of-a-name-that-is-longer-than-Spark-takes"
        self.land(of_broker(broker))
        with_bounds(self.table, broker[:32], broker[:32] + "\x7f")
        self.assertTrue(self.audit().identical)
        self.land(of_broker("broker-b"))
        with self.assertRaisesRegex(PipelineError, f"more than one broker's rows .broker-b, {broker}, "):
            self.audit()
        self.assertTrue(self.audit(table_broker=broker).identical)


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

    def test_a_column_that_some_files_lack_is_compared_in_the_others(self) -> None:
        """A table is widened by a landing of more columns: files of before haven't got them."""
        rows = read_arrow([str(self.store)]).read_all()
        few = rows.slice(0, 30).select(["topic", "physical_offset", "size", "broker"])
        at = rows.column_names.index("body")
        wrong = rows.slice(30).set_column(at, "body", pa.array([b"WRONG"] * (COUNT - 30), pa.binary()))
        for part in (few, wrong):
            write_deltalake(str(self.table), part, mode="append", partition_by=["topic"], schema_mode="merge")
        result = self.audit(split_bytes=1 << 20)
        found = result.differences
        self.assertEqual({(each.kind, each.field) for each in found}, {(Kind.CHANGED, "body")})
        self.assertEqual(sum(each.records for each in found), COUNT - 30)
        lacking = [note for note in result.notes if "have no column body" in note]
        self.assertRegex(lacking[0], "[0-9]+ of [0-9]+ files")

    def test_a_wrong_day_is_found(self) -> None:
        rows = read_arrow([str(self.store)]).read_all()
        for day in (None, date(2020, 1, 1)):
            self.table = self.folder / f"table-{day}"
            batches = [with_store_date(batch) for batch in rows.to_batches()]
            dated = pa.Table.from_batches(batches)
            if day is not None:
                at = dated.column_names.index("store_date")
                dated = dated.set_column(at, "store_date", pa.array([day] * len(dated), pa.date32()))
            write_deltalake(str(self.table), dated, partition_by=["topic", "store_date"])
            result = self.audit()
            self.assertEqual(result.identical, day is None)
            self.assertEqual(
                {found.field for found in result.differences}, set() if day is None else {"store_date"}
            )

    def test_statistics_that_make_readers_leave_rows_out_are_found(self) -> None:
        self.land()
        self.assertTrue(self.audit().identical)
        (first, *_) = sorted((self.table / "_delta_log").glob("*.json"))
        text = first.read_text()

        def more_rows(stats: dict[str, Any]) -> None:
            stats["numRecords"] += 1

        def lower_bound(stats: dict[str, Any]) -> None:
            stats["maxValues"]["physical_offset"] -= 1

        for change, words in ((more_rows, "rows, the file has"), (lower_bound, "physical_offset is from")):
            actions = [json.loads(line) for line in text.splitlines()]
            add = next(action["add"] for action in actions if "add" in action)
            stats = json.loads(add["stats"])
            change(stats)
            add["stats"] = json.dumps(stats)
            first.write_text("\n".join(map(json.dumps, actions)))
            result = self.audit()
            self.assertFalse(result.identical)
            self.assertIn(words, result.damaged[0].reason)


class PieceTests(TableCase):
    """Bodies that grow as they are decompressed: a part's rows aren't held all at once."""

    def taken(self, piece: int, **options: Any) -> tuple[AuditResult, list[tuple[int, int, int]]]:
        """With pieces of so many bytes; and which stretches were read of the table, with their bytes."""
        stretches: list[tuple[int, int, int]] = []
        rows = TableCopy.rows

        def noted(copy: TableCopy, begin: int, end: int, columns: Any = None) -> pa.Table:
            found = rows(copy, begin, end, columns)
            stretches.append((begin, end, found.nbytes))
            return found

        with patch.object(tablecompare, "PIECE_BYTES", piece), patch.object(TableCopy, "rows", noted):
            result = self.audit(split_bytes=1 << 20, **options)
        return result, stretches[2:]  # the first two are the table's first and last row

    def test_whatever_differs_is_found_in_pieces_as_well(self) -> None:
        def again(rows: pa.Table) -> pa.Table:
            return pa.concat_tables([rows, rows.slice(COUNT // 2, 1)])

        for change, differs in ((lambda rows: rows, 0), (without(0, 40, 41, COUNT - 1), 3), (again, 1)):
            shutil.rmtree(self.table, ignore_errors=True)
            self.land(change)
            whole = self.audit(split_bytes=1 << 20)
            result, compared = self.taken(1)
            self.assertEqual((result.differences, len(whole.differences)), (whole.differences, differs))
            self.assertGreater(len(compared), 3)
            self.assertEqual([end for _, end, _ in compared[:-1]], [begin for begin, _, _ in compared[1:]])
            self.assertEqual((compared[0][0], compared[-1][1]), (0, result.end))

    def test_what_is_held_is_bounded(self) -> None:
        store = inflated(self.folder / "large", 12)
        self.land(store=store)
        with patch.object(bodies, "BATCH_BYTES", GROWN):
            result, compared = self.taken(3 * GROWN, store=store)
        self.assertEqual((result.identical, result.records), (True, 12))
        self.assertLess(max(size for _, _, size in compared), 4 * GROWN)


def inflated(store: Path, count: int) -> Path:
    """A store of messages whose bodies are long when they are decompressed."""
    body = zlib.compress(bytes(GROWN))
    return lay_out([plain(body, sys_flag=0x1)] * count, 1 << 16).write(store)


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
