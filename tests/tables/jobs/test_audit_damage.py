"""Audits of tables that have rows for the log's damage, as a permissive landing makes them: those that stand for
what the log has are told, and are no difference; others are."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from hatwisted.cli.pipeline.pipelinetext import audit_lines
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.jobs import rangecompare
from hatwisted.pipeline.jobs.audit import auditing, tablecompare
from hatwisted.pipeline.jobs.audit.auditing import AuditOptions, audit
from hatwisted.pipeline.jobs.audit.auditreport import audit_page
from hatwisted.pipeline.jobs.audit.auditresult import AuditResult
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.rangecompare import Kind
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.wire.record import encode_record
from tests.support import copies
from tests.support.copies import end_of, flip, write_store
from tests.support.icebergcatalog import iceberg_catalog

COUNT = 80
ICEBERG = "iceberg:lake.rocketmq.messages"
Change = Callable[[pa.Table], pa.Table]
Place = tuple[int, int]


def same(rows: pa.Table) -> pa.Table:
    return rows


class DamageCase(TestCase):
    """A store with some records whose bodies can't be decompressed; their checksums are right."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store, self.table = self.folder / "broker-a", str(self.folder / "table")
        self.records = write_store(self.store, COUNT)
        long = [number for number, record in enumerate(self.records) if len(record.body) >= 300]
        self.unreadable = [long[0], long[1], long[len(long) // 2], long[-1]]
        self.sound = next(number for number in long[2:] if number not in self.unreadable)

    def spoil(self) -> None:
        """Let them say that they're compressed."""
        for number in self.unreadable:
            record = self.records[number]
            copies.patch(
                self.store,
                record.physical_offset,
                encode_record(msgspec.structs.replace(record, sys_flag=record.sys_flag | 1)),
            )

    def place(self, number: int) -> Place:
        record = self.records[number]
        return record.physical_offset, record.physical_offset + record.total_size

    @property
    def places(self) -> list[Place]:
        return list(map(self.place, self.unreadable))

    def rows(self, columns: Any = None) -> pa.Table:
        """Of the log, as a permissive landing has them."""
        return read_arrow([str(self.store)], columns, mode="permissive").read_all()

    def land(self, change: Change = same, columns: Any = None) -> None:
        """A Delta table, after a change of its rows."""
        write_deltalake(self.table, change(self.rows(columns)), partition_by=["topic"])

    def audit(self, split_bytes: int = 5000, **options: Any) -> AuditResult:
        how = AuditOptions(split_bytes=split_bytes, **options)
        return audit(InlineTasks(), [str(self.store)], [self.table], how)


def told(result: AuditResult) -> list[Place]:
    return [(row.begin, row.end) for row in result.damage_rows]


def found(result: AuditResult) -> list[tuple[Kind, str, int, int]]:
    return [(each.kind, each.field, each.begin, each.end) for each in result.differences]


def at(rows: pa.Table, begin: int) -> int:
    """Number of the row of this offset."""
    number: int = rows["physical_offset"].to_pylist().index(begin)
    return number


def with_value(rows: pa.Table, begin: int, **values: Any) -> pa.Table:
    """The row of this offset has other values."""
    number, plain = at(rows, begin), rows.slice(at(rows, begin), 1).to_pylist()[0]
    other = pa.Table.from_pylist([plain | values], schema=rows.schema)
    return pa.concat_tables([rows.slice(0, number), other, rows.slice(number + 1)])


def without(begins: Iterable[int]) -> Change:
    values = pa.array(list(begins), pa.int64())
    return lambda rows: rows.filter(pc.invert(pc.is_in(rows["physical_offset"], values)))


class SameTests(DamageCase):
    def test_rows_of_bodies_that_cant_be_decompressed_are_no_difference(self) -> None:
        self.spoil()
        self.land()
        for split_bytes in (700, 5000, 1 << 20):
            result = self.audit(split_bytes)
            self.assertEqual((result.verdict, result.identical, result.notes[1:]), (result.verdict, True, ()))
            self.assertEqual(
                (told(result), {row.copy for row in result.damage_rows}), (self.places, {self.table})
            )

    def test_nor_are_those_of_ranges_without_records_and_the_log_stays_damaged(self) -> None:
        numbers = [
            5,
            6,
            40,
            next(n for n in range(41, COUNT) if self.records[n].physical_offset % copies.FILE_SIZE == 0),
        ]
        for number in numbers:
            flip(self.store, self.records[number].physical_offset + 4)
        self.land()
        for split_bytes in (700, 5000, 1 << 20):
            result = self.audit(split_bytes)
            self.assertEqual((result.identical, result.differences), (False, ()))
            self.assertEqual(
                told(result), [(self.place(5)[0], self.place(6)[1]), *map(self.place, numbers[2:])]
            )
            self.assertEqual([bad.begin for bad in result.damaged], [begin for begin, _ in told(result)])
            self.assertTrue(all(bad.everywhere for bad in result.damaged))

    def test_damage_as_a_table_first_and_last_row(self) -> None:
        flip(self.store, self.records[30].physical_offset + 4)
        flip(self.store, self.records[60].physical_offset + 4)
        begin, end = self.place(30)[0], self.records[61].physical_offset
        self.assertEqual(end % copies.FILE_SIZE, 0, "with the blank behind it")
        offsets = [each.physical_offset for each in self.records]
        self.land(without(each for each in offsets if not begin <= each < end))
        result = self.audit()
        self.assertEqual((result.copies[1].min_offset, result.copies[1].end), (begin, end))
        self.assertEqual(told(result), [self.place(30), (self.place(60)[0], end)])
        self.assertEqual({each.kind for each in result.differences}, {Kind.MISSING})

    def test_in_hive_folders_whose_null_has_a_name(self) -> None:
        self.spoil()
        pq.write_to_dataset(self.rows(), self.table, partition_cols=["topic"])
        result = self.audit()
        self.assertEqual((result.identical, told(result)), (True, self.places))

    def test_only_the_columns_of_a_table_are_compared(self) -> None:
        self.spoil()
        for number, columns in enumerate(
            (
                ("topic", "physical_offset", "size", "body"),
                ("topic", "queue_id", "physical_offset", "size", "store_timestamp", "body", "broker", "file"),
            )
        ):
            self.table = str(self.folder / f"table-{number}")
            self.land(columns=list(columns))
            result = self.audit()
            self.assertEqual((result.identical, told(result)), (True, self.places), columns)

    def test_where_bodies_arent_read_nothing_is_damaged(self) -> None:
        self.spoil()
        self.land(columns=["topic", "queue_id", "physical_offset", "size", "tags"])
        result = self.audit()
        self.assertEqual((result.identical, told(result)), (True, []))

    def test_in_pieces_as_well(self) -> None:
        self.spoil()
        self.land()
        with patch.object(tablecompare, "PIECE_BYTES", 1):
            result = self.audit(1 << 20)
        self.assertEqual((result.identical, told(result)), (True, self.places))

    def test_a_table_without_such_rows_stays_the_same_and_that_is_noted(self) -> None:
        self.spoil()
        begins = [begin for begin, _ in self.places]
        for number, (gone, words) in enumerate(
            (
                (begins, "no row of damage for 4 damaged ranges of the log"),
                (begins[:1], "no row of damage for 1 damaged range of the log"),
            )
        ):
            self.table = str(self.folder / f"table-{number}")
            self.land(without(gone))
            result = self.audit()
            self.assertEqual((result.identical, told(result)), (True, self.places[len(gone) :]))
            self.assertEqual(result.notes[1:], (f"{self.table} has {words}",))


class DifferentTests(DamageCase):
    def setUp(self) -> None:
        super().setUp()
        self.spoil()
        self.begin, self.end = self.places[2]

    def changed(self, change: Change) -> AuditResult:
        self.land(change)
        result = self.audit()
        self.assertFalse(result.identical)
        return result

    def test_a_row_of_other_bytes_size_or_file_is_debris(self) -> None:
        for number, (name, value) in enumerate(
            (("body", b"other"), ("size", 77), ("file", "0" * 20), ("body", None))
        ):
            with self.subTest(name, value=value):
                self.table = str(self.folder / f"table-{number}")
                other: dict[str, Any] = {name: value}
                result = self.changed(partial(with_value, begin=self.begin, **other))
                self.assertEqual(found(result), [(Kind.DEBRIS, name, self.begin, self.end)])
                self.assertEqual(told(result), [*self.places[:2], self.places[3]])

    def test_a_row_where_the_log_has_no_damage_is_extra(self) -> None:
        result = self.changed(lambda rows: with_value(rows, self.begin, physical_offset=self.begin + 1))
        self.assertEqual(found(result), [(Kind.EXTRA, "", self.begin + 1, self.end + 1)])
        (difference,) = result.differences
        self.assertTrue(str(difference).endswith(f"1 record; first at {self.begin + 1}"))
        self.assertEqual(told(result), [*self.places[:2], self.places[3]])

    def test_those_apart_are_ranges_of_their_own(self) -> None:
        def moved(rows: pa.Table) -> pa.Table:
            for begin, _ in self.places:
                rows = with_value(rows, begin, physical_offset=begin + 1)
            return rows

        self.land(moved)
        for split_bytes in (700, 1 << 20):
            result = self.audit(split_bytes)
            places = [(begin + 1, end + 1) for begin, end in self.places]
            self.assertEqual(found(result), [(Kind.EXTRA, "", *place) for place in places])
            self.assertEqual(
                (told(result), result.notes[1:]),
                ([], (f"{self.table} has no row of damage for 4 damaged ranges of the log",)),
            )

    def test_a_row_of_damage_where_the_log_is_sound_is_changed(self) -> None:
        """The table was landed when the log was damaged there, or isn't this log's."""
        begin, end = self.place(self.sound)

        def damage(rows: pa.Table) -> pa.Table:
            empty = dict.fromkeys(set(rows.column_names) - {"broker", "file", "physical_offset", "size"})
            return with_value(rows, begin, **empty | {"body": b"damage"})

        result = self.changed(damage)
        ((kind, field, *place),) = found(result)
        self.assertEqual((kind, place, told(result)), (Kind.CHANGED, [begin, end], self.places))
        self.assertEqual(field, "topic")

    def test_a_row_that_has_more_than_damage_has_is_extra(self) -> None:
        more: list[dict[str, Any]] = [{"queue_id": 0}, {"topic": "Orders"}, {"sys_flag": 1}, {"keys": []}]
        for number, values in enumerate(more):
            with self.subTest(values=values):
                self.table = str(self.folder / f"table-{number}")
                result = self.changed(partial(with_value, begin=self.begin, **values))
                self.assertEqual(found(result), [(Kind.EXTRA, "", self.begin, self.end)])

    def test_a_row_that_landed_twice_is_repeated(self) -> None:
        result = self.changed(lambda rows: pa.concat_tables([rows, rows.slice(at(rows, self.begin), 1)]))
        self.assertEqual(found(result), [(Kind.REPEATED, "", self.begin, self.end)])
        self.assertEqual(told(result), self.places)

    def test_a_row_behind_the_logs_end_is_extra(self) -> None:
        end = end_of(self.records)
        result = self.changed(lambda rows: with_value(rows, self.begin, physical_offset=end + 10))
        self.assertEqual(found(result)[-1][:3], (Kind.EXTRA, "", end + 10))
        self.assertEqual(told(result), [*self.places[:2], self.places[3]])


class ToldTests(DamageCase):
    def test_they_are_counted_and_named(self) -> None:
        self.spoil()
        self.land()
        result = self.audit()
        lines = list(audit_lines(result))
        first = lines.index("4 rows stand for damage that the log has as well")
        listed = [f"  row of damage: {self.table}: [{begin}, {end})" for begin, end in self.places]
        self.assertEqual(lines[first + 1 : first + 5], listed)
        plain = [{"copy": self.table, "begin": begin, "end": end} for begin, end in self.places]
        self.assertEqual(list(result.as_json()["damage_rows"]), plain)
        self.assertIn("Rows of damage", audit_page(result))
        one = replace(result, damage_rows=result.damage_rows[:1])
        self.assertIn("1 row stands for damage that the log has as well", list(audit_lines(one)))

    def test_of_many_the_rest_is_counted(self) -> None:
        self.spoil()
        self.land()
        for module, name in ((auditing, "MAX_LISTED"), (rangecompare, "MAX_RANGES")):
            for split_bytes in (700, 1 << 20):
                with patch.object(module, name, 3):
                    result = self.audit(split_bytes)
                self.assertEqual((told(result), result.unlisted_damage_rows), (self.places[:3], 1), name)
                self.assertEqual((result.damage_row_count, result.identical), (4, True))
        self.assertEqual(list(audit_lines(result))[-2], "  and 1 more")
        self.assertIn("And 1 further row", audit_page(result))

    def test_where_there_are_none_nothing_is_said(self) -> None:
        self.land()
        result = self.audit()
        self.assertEqual((result.identical, result.damage_row_count), (True, 0))
        self.assertFalse([line for line in audit_lines(result) if "damage" in line])
        self.assertNotIn("Rows of damage", audit_page(result))


class IcebergTests(DamageCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(iceberg_catalog(self.folder))
        self.table = ICEBERG

    def land(self, change: Change = same, columns: Any = None) -> None:
        """Of a landing the table, with the rows of a permissive one."""
        self.assertIsNone(columns)
        sound = self.folder / "sound" / "broker-a"
        write_store(sound, COUNT)
        land([str(sound)], ICEBERG, LandOptions(compact_below=None))
        batches = [with_store_date(batch) for batch in change(self.rows()).combine_chunks().to_batches()]
        load_catalog("lake").load_table("rocketmq.messages").overwrite(pa.Table.from_batches(batches))

    def test_rows_are_told_as_those_of_delta(self) -> None:
        self.spoil()
        self.land()
        result = self.audit()
        self.assertEqual((result.identical, result.notes, told(result)), (True, (), self.places))

    def test_and_differ_as_those_of_delta(self) -> None:
        self.spoil()
        begin, end = self.places[2]
        self.land(lambda rows: with_value(rows, begin, body=b"other"))
        self.assertEqual(found(self.audit()), [(Kind.DEBRIS, "body", begin, end)])
