"""Comparing a landed table's rows with the records of the log, a part at a time.

The log's records are decoded to exactly the columns the table has; both are in order of physical offsets
then, so a merge of two integer arrays shows what is missing, extra or there twice, and whole columns of the
rest are compared at once. Only a column that isn't equal is looked at row by row. A column is compared in the
files that have it: older ones of a table that was widened haven't.

Rows that stand for damage are compared with those that a permissive read of the log has, once the part is
read: a body that can't be decompressed is found after the records behind it. Which mode filled the table isn't
known, so it needn't have a row for all damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.decode.logreader import DAMAGE_COLUMNS, Damage, read_split
from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.delta.landedrows import STORE_DATE, with_store_date
from hatwisted.pipeline.jobs.audit.tablecopy import FILE, TableCopy, row_schema
from hatwisted.pipeline.jobs.rangecompare import DamageRow, Difference, Kind, RecordPlace
from hatwisted.pipeline.jobs.storecopy import StoreCopy

PIECE_BYTES: Final = 512 << 20
"""Of rows that are held at a time, of the log and of the table: a part of 128 MiB, unless its bodies grow fourfold
as they are decompressed. Rows of damage come on top."""
NOT_COMPARED = ("broker",)
"""What a table calls a broker is the landing's choice."""


_PLACE = ("physical_offset", "size", "topic", "queue_id", "queue_offset")


class RowComparison:
    """A part of a log against the same part of a table.

    - reference: number of the log's copy
    - copy: number of the table's
    - table: what it is read from

    damage_rows, without_row: once the part is compared, the rows that stand for the log's damage, and how many
    damaged ranges the table has no row for.
    """

    def __init__(self, reference: int, copy: int, table: TableCopy) -> None:
        self._reference = reference
        self._copy = copy
        self._table = table
        self._columns = [name for name in table.columns if name not in NOT_COMPARED]
        self._damage: list[pa.RecordBatch] = []
        """Of the log, as the table may have them; in order of offsets."""
        self._kept: list[pa.Table] = []
        """The table's, where the log has no record."""
        self.damage_rows: list[DamageRow] = []
        self.without_row = 0

    def of_part(self, store: StoreCopy | None, begin: int, end: int) -> Iterator[Difference]:
        """What differs in a part, in no particular order.

        - store: the log; None: every row is one too many
        - begin: first physical offset
        - end: the first after it
        """
        for records, low, high in self._pieces(store, begin, end):
            yield from self._of_piece(records, low, high)
        yield from self._of_damage()

    def _of_piece(self, records: pa.Table, begin: int, end: int) -> Iterator[Difference]:
        rows = self._table.rows(begin, end, self._columns)
        ours, theirs = _offsets(records), _offsets(rows)
        distinct, firsts = np.unique(theirs, return_index=True)
        repeated = np.setdiff1d(np.arange(len(theirs)), firsts)
        yield from self._ranges(Kind.MISSING, records, np.flatnonzero(~np.isin(ours, distinct)))
        extra = firsts[~np.isin(distinct, ours)]
        damage = _is_damage(rows, extra)
        self._kept.append(rows.take(pa.array(extra[damage])))
        yield from self._ranges(Kind.EXTRA, rows, extra[~damage])
        yield from self._ranges(Kind.REPEATED, rows, repeated)
        common = np.intersect1d(ours, distinct)
        records = records.take(pa.array(np.searchsorted(ours, common)))
        wrong = self._wrong(records, rows.take(pa.array(firsts[np.searchsorted(distinct, common)])))
        yield from self._named(Kind.CHANGED, records, wrong)

    def _pieces(self, store: StoreCopy | None, begin: int, end: int) -> Iterator[tuple[pa.Table, int, int]]:
        """(records, as the table should have them, from where, up to where), which follow one another. A part is
        one piece, unless its bodies grow."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in () if store is None else self._records(store, begin, end):
            if held and size + batch.nbytes > PIECE_BYTES:
                high = batch.column("physical_offset")[0].as_py()
                yield pa.Table.from_batches(held), begin, high
                held, size, begin = [], 0, high
            held.append(batch)
            size += batch.nbytes
        yield pa.Table.from_batches(held, row_schema(self._columns)), begin, end

    def _records(self, store: StoreCopy, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """The log's; rows of damage are put aside."""
        dated = STORE_DATE in self._columns
        wanted = [name for name in self._columns if name != STORE_DATE]
        read = [*wanted, "store_timestamp"] if dated and "store_timestamp" not in wanted else wanted
        told: list[Damage] = []
        for split in splits(store, begin, end):
            for batch in read_split(split, read, mode="permissive", damages=told.append):
                rows = (with_store_date(batch) if dated else batch).select(self._columns)
                if told:
                    # The reader tells of damage right before it yields its row.
                    told.clear()
                    self._damage.append(rows)
                else:
                    yield rows

    def _of_damage(self) -> Iterator[Difference]:
        """The table's rows of damage against the log's."""
        damage = _without_null_topics(pa.Table.from_batches(self._damage, row_schema(self._columns)))
        rows = _without_null_topics(pa.concat_tables(self._kept))
        ours, theirs = _offsets(damage), _offsets(rows)
        common = np.isin(theirs, ours)
        self.without_row = int((~np.isin(ours, theirs)).sum())
        for row in np.flatnonzero(~common):
            # Those beside it here may be far from it in the table.
            yield from self._ranges(Kind.EXTRA, rows, np.array([row]))
        damage = damage.take(pa.array(np.searchsorted(ours, theirs[common])))
        wrong = self._wrong(damage, rows.filter(pa.array(common)))
        yield from self._named(Kind.DEBRIS, damage, wrong)
        for number in range(len(damage)):
            if number not in wrong:
                place = _place(damage, number)
                self.damage_rows.append(DamageRow(self._copy, place.offset, place.offset + place.size))

    def _wrong(self, records: pa.Table, rows: pa.Table) -> dict[int, str]:
        """Numbers of the rows that have other values than the records beside them, and the first column that
        differs."""
        wrong: dict[int, str] = {}
        files = rows[FILE].to_numpy()
        for name in self._columns:
            having = np.array([name in file.columns for file in self._table.files], bool)[files]
            ours, theirs, numbers = records[name], rows[name], np.flatnonzero(having)
            if not having.all():
                ours, theirs = ours.filter(pa.array(having)), theirs.filter(pa.array(having))
            for row in unequal(ours, theirs, 0):
                wrong.setdefault(int(numbers[row]), name)
        return wrong

    def _named(self, kind: Kind, records: pa.Table, wrong: dict[int, str]) -> Iterator[Difference]:
        for row in sorted(wrong):
            for found in self._ranges(kind, records, np.array([row])):
                yield replace(found, field=wrong[row])

    def _ranges(self, kind: Kind, rows: pa.Table, indices: npt.NDArray[Any]) -> Iterator[Difference]:
        """One difference for every run of neighbouring rows."""
        for run in np.split(indices, np.flatnonzero(np.diff(indices) != 1) + 1):
            if len(run):
                first, last = (_place(rows, int(index)) for index in (run[0], run[-1]))
                yield Difference(
                    *(self._reference, self._copy, kind, first.offset, last.offset + last.size),
                    *(len(run), first.offset, first),
                )


def _is_damage(rows: pa.Table, indices: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which of these rows have nothing but what a row of damage has?"""
    found = np.ones(len(indices), np.bool_)
    for name in rows.column_names:
        if name not in (*DAMAGE_COLUMNS, FILE):
            values = rows[name].take(pa.array(indices))
            empty = pc.equal(pc.fill_null(values, ""), "") if name == "topic" else pc.is_null(values)
            found &= empty.to_numpy()
    return found


def _without_null_topics(rows: pa.Table) -> pa.Table:
    """Delta's partitions don't tell null from the empty text."""
    if "topic" not in rows.column_names:
        return rows
    at = rows.column_names.index("topic")
    return rows.set_column(at, rows.schema.field(at), pc.fill_null(rows["topic"], ""))


def _offsets(rows: pa.Table) -> npt.NDArray[Any]:
    offsets: npt.NDArray[Any] = rows["physical_offset"].to_numpy()
    return offsets


def _place(rows: pa.Table, index: int) -> RecordPlace:
    """Which record a row is; what the table doesn't have is empty."""
    found = rows.slice(index, 1).select([name for name in _PLACE if name in rows.column_names]).to_pylist()[0]
    return RecordPlace(
        found["physical_offset"],
        found["size"] or 0,
        found.get("topic") or "",
        _or(found.get("queue_id")),
        _or(found.get("queue_offset")),
    )


def _or(value: int | None) -> int:
    return -1 if value is None else value


def unequal(one: pa.ChunkedArray, other: pa.ChunkedArray, base: int) -> Iterator[int]:
    """Numbers of the rows whose values differ; of any type, by halving.

    - one: values of one side
    - other: of the other
    - base: number of the first row
    """
    if one.equals(other):
        return
    if len(one) == 1:
        yield base
        return
    half = len(one) // 2
    yield from unequal(one.slice(0, half), other.slice(0, half), base)
    yield from unequal(one.slice(half), other.slice(half), base + half)


def splits(store: StoreCopy, begin: int, end: int) -> Iterator[Split]:
    """A part of the log as splits, one per file.

    - store: the log
    - begin: first physical offset
    - end: the first after it
    """
    for file in store.files:
        file_end = file.base + file.size
        first, last = max(begin, file.base), min(end, file_end, store.end)
        if first < last:
            yield Split(
                *(store.name, store.broker, file.path, file.base, file.size, first, last),
                aligned=first == file.base,
                limit=store.end if store.end < file_end else None,
            )
