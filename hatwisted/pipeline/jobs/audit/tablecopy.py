"""A landed table as one more copy of the log: which of its files hold which offsets of one broker.

What Delta's log says of its files, or the footers of plain Parquet files, is all that's read here; a task then
opens only the files and row groups that its part of the log can be in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os.path import exists, isdir, join
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hatwisted.pipeline.decode.arrowschema import COLUMNS, arrow_schema
from hatwisted.pipeline.delta.landedrows import STORE_DATE, landed_schema
from hatwisted.pipeline.errors import NotAStore, PipelineError, WrongSchema

REQUIRED: Final = ("physical_offset", "size")
"""Columns without which rows can't be compared with records."""
FILE: Final = "(file)"
"""Column of a row's file, by its number."""
DELTA_LOG: Final = "_delta_log"
_BOUNDS: Final = ("min.physical_offset", "max.physical_offset", "min.broker", "max.broker")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A Parquet file. first, last: its smallest and largest physical offset; low, high: of its brokers' names.
    None: not known, so it may hold anything. partition: columns that aren't in the file, with their values.
    columns: those of a landed table that it has, in itself or by its partition. flaw: what Delta's log says of it
    that isn't so."""

    path: str
    first: int | None
    last: int | None
    low: str | None
    high: str | None
    partition: tuple[tuple[str, str | None], ...] = ()
    columns: frozenset[str] = frozenset()
    flaw: str | None = None

    def may_hold(self, begin: int, end: int) -> bool:
        """Can it have a row with an offset in [begin, end)?"""
        return (self.first is None or self.first < end) and (self.last is None or self.last >= begin)


@dataclass(frozen=True, slots=True)
class TableCopy:
    """One broker's rows in a table. broker: None if the table has no such column. columns: those of a landed table
    that any of its files has. min_offset, end: from the first row's offset to after the last one."""

    name: str
    broker: str | None
    columns: tuple[str, ...]
    files: tuple[TableFile, ...]
    min_offset: int
    end: int

    @classmethod
    def open(cls, path: str, broker: str | None = None) -> TableCopy:
        """The table in a folder: Delta's present version, or Parquet files. broker: whose rows; needn't be
        given if the table has those of one broker. NotAStore, WrongSchema, PipelineError."""
        if not isdir(path):
            raise NotAStore(f"{path}: no such folder")
        found = _delta_files(path) if isdir(join(path, DELTA_LOG)) else _parquet_files(path)
        files = tuple(found)
        if not files:
            raise NotAStore(f"{path}: a table without rows")
        columns = _columns(files)
        whose = _broker(path, files, columns, broker)
        copy = cls(path, whose, columns, files, 0, 0)
        begin, end = copy._extent()
        return cls(path, whose, columns, files, begin, end)

    def rows(self, begin: int, end: int, columns: Iterable[str] | None = None) -> pa.Table:
        """The broker's rows, ordered by offset, in the log's types; what a row's file doesn't have is null. The
        column FILE numbers its file.

        - begin: first physical offset
        - end: the first after it
        - columns: which
        """
        wanted = [name for name in self.columns if columns is None or name in columns]
        schema = row_schema(wanted)
        pieces = []
        for number, file in enumerate(self.files):
            if file.may_hold(begin, end):
                found = _read(file, begin, end, schema, self.broker)
                pieces.append(found.append_column(FILE, pa.repeat(pa.scalar(number, pa.int32()), len(found))))
        table = pa.concat_tables([schema.append(pa.field(FILE, pa.int32())).empty_table(), *pieces])
        return table.take(pc.sort_indices(table, [("physical_offset", "ascending")]))

    def lacking(self) -> Iterator[str]:
        """What can't be compared, in words."""
        for name in self.columns:
            without = sum(name not in file.columns for file in self.files)
            if without:
                yield f"{self.name}: {without} of {len(self.files)} files have no column {name}"
        none = [name for name in (*COLUMNS, STORE_DATE) if name not in self.columns and name != "broker"]
        if none:
            yield f"{self.name} has no column {', '.join(none)}"

    def _extent(self) -> tuple[int, int]:
        """(offset of the first row, end of the last one)."""
        firsts = [file.first for file in self.files if file.first is not None]
        lasts = [file.last for file in self.files if file.last is not None]
        whole = len(firsts) == len(self.files) == len(lasts)
        edges = (min(firsts), max(lasts)) if whole else (0, 1 << 62)
        first = self.rows(edges[0], edges[0] + 1, REQUIRED) if whole else self.rows(*edges, REQUIRED)
        last = self.rows(edges[1], edges[1] + 1, REQUIRED) if whole else first
        if not (len(first) and len(last)):
            # Other brokers' rows are at the edges.
            first = last = self.rows(0, 1 << 62, REQUIRED)
        if not len(first):
            raise PipelineError(f"{self.name}: no rows of broker {self.broker}")
        end = last.slice(len(last) - 1).to_pylist()[0]
        return first["physical_offset"][0].as_py(), end["physical_offset"] + end["size"]


def _delta_files(path: str) -> Iterator[TableFile]:
    from hatwisted.pipeline.delta.deltatable import open_table

    table = open_table(path)
    for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        partition = {
            name.removeprefix("partition."): None if value is None else str(value)
            for name, value in action.items()
            if name.startswith("partition.")
        }
        file = _on_disk(path, action["path"])
        footer = pq.read_metadata(file)
        flaw = _flaw(footer, action)
        first, last, low, high = (action.get(name) for name in _BOUNDS)
        if flaw is not None:
            (first, last), (low, high) = _bounds(footer, "physical_offset"), _bounds(footer, "broker")
        columns = _columns_of(file, footer, partition)
        yield TableFile(file, first, last, low, high, tuple(partition.items()), columns, flaw)


def _flaw(footer: pq.FileMetaData, action: Mapping[str, Any]) -> str | None:
    """What Delta's log says of a file that its footer contradicts; by such words readers leave rows out."""
    rows = footer.num_rows
    if action.get("num_records") not in (None, rows):
        return f"Delta's log says {action['num_records']} rows, the file has {rows}"
    for name in ("physical_offset", "queue_offset", "queue_id", "broker"):
        low, high = _bounds(footer, name)
        least, most = action.get(f"min.{name}"), action.get(f"max.{name}")
        if low is not None and ((least is not None and low < least) or (most is not None and high > most)):
            return f"Delta's log says {name} is from {least} to {most}, in the file it's from {low} to {high}"
    return None


def _on_disk(table: str, path: str) -> str:
    """A file by the path in Delta's log, which is encoded as a URL is; not every writer does that."""
    decoded = join(table, unquote(path))
    return decoded if exists(decoded) else join(table, path)


def _parquet_files(path: str) -> Iterator[TableFile]:
    """All Parquet files of a folder with hive partitions, but for hidden ones."""
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for name in sorted(names):
            if name.endswith(".parquet") and not name.startswith(("_", ".")):
                steps = [step.partition("=") for step in folder[len(path) :].split(os.sep) if "=" in step]
                partition = tuple(
                    (key, None if value == _NULL else unquote(value)) for key, _, value in steps
                )
                file = join(folder, name)
                footer = pq.read_metadata(file)
                bounds = *_bounds(footer, "physical_offset"), *_bounds(footer, "broker")
                columns = _columns_of(file, footer, dict(partition))
                yield TableFile(file, *bounds, partition, columns)


def _bounds(footer: pq.FileMetaData, column: str) -> tuple[Any, Any]:
    """(smallest, largest) value of a column by the footer's statistics; None if they don't say."""
    if column not in footer.schema.to_arrow_schema().names:
        return None, None
    index = [footer.schema.column(i).path for i in range(footer.num_columns)].index(column)
    groups = [footer.row_group(i).column(index).statistics for i in range(footer.num_row_groups)]
    if not groups or any(group is None or not group.has_min_max for group in groups):
        return None, None
    return min(group.min for group in groups), max(group.max for group in groups)


def _columns_of(path: str, footer: pq.FileMetaData, partition: Mapping[str, str | None]) -> frozenset[str]:
    """Those of a landed table that a file has. WrongSchema if it lacks what rows are known by."""
    there = {*footer.schema.to_arrow_schema().names, *partition}
    for name in REQUIRED:
        if name not in there:
            raise WrongSchema(f"{path}: without the column {name} rows can't be distinguished")
    return frozenset(there.intersection((*COLUMNS, STORE_DATE)))


def _columns(files: tuple[TableFile, ...]) -> tuple[str, ...]:
    """Those of a landed table that any file has, in its order."""
    there = frozenset[str]().union(*(file.columns for file in files))
    return tuple(name for name in (*COLUMNS, STORE_DATE) if name in there)


def row_schema(columns: Iterable[str]) -> pa.Schema:
    """Of columns of a landed table."""
    names = list(columns)
    schema = arrow_schema([name for name in names if name != STORE_DATE])
    return schema.append(landed_schema().field(STORE_DATE)) if STORE_DATE in names else schema


def _broker(path: str, files: Iterable[TableFile], columns: Iterable[str], broker: str | None) -> str | None:
    if "broker" not in columns:
        return None
    names = {name for file in files for name in (file.low, file.high)}
    if broker is not None:
        return broker
    if len(names) == 1 and None not in names:
        return names.pop()
    known = ", ".join(sorted(name for name in names if name is not None))
    raise PipelineError(f"{path}: holds more than one broker's rows ({known}, ...); say whose to compare")


def _read(file: TableFile, begin: int, end: int, schema: pa.Schema, broker: str | None) -> pa.Table:
    """A file's rows of a broker in [begin, end), with the schema's columns and types."""
    opened = pq.ParquetFile(file.path)
    there = set(opened.schema_arrow.names)
    with_broker = schema.append(pa.field("broker", pa.string())) if "broker" not in schema.names else schema
    groups = [i for i in range(opened.num_row_groups) if _group_may_hold(opened, i, begin, end)]
    rows = opened.read_row_groups(groups, columns=[name for name in with_broker.names if name in there])
    values = dict(file.partition)
    try:
        # Other writers (delta-rs rewriting a file) have texts as views, which few of Arrow's functions take.
        columns = [
            rows[field.name].cast(field.type)
            if field.name in there
            else pa.repeat(_of_partition(field, values), len(rows))
            for field in with_broker
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise WrongSchema(f"{file.path}: columns of other types than a log's: {error}") from None
    rows = pa.table(columns, schema=with_broker)
    offsets = rows["physical_offset"]
    mask = pc.and_(pc.greater_equal(offsets, begin), pc.less(offsets, end))
    if broker is not None:
        mask = pc.and_(mask, pc.equal(rows["broker"], broker))
    return rows.filter(mask).select(schema.names)


def _of_partition(field: pa.Field, values: Mapping[str, str | None]) -> pa.Scalar:
    """A column's value by the partition; null if it isn't in that either. In Delta's partitions null stands for
    the empty text, too, and no topic is null."""
    value = values.get(field.name)
    if value is None:
        return pa.scalar("" if field.name == "topic" and "topic" in values else None, field.type)
    return pa.scalar(value, pa.string()).cast(field.type)


def _group_may_hold(file: pq.ParquetFile, group: int, begin: int, end: int) -> bool:
    metadata = file.metadata.row_group(group)
    for i in range(metadata.num_columns):
        column = metadata.column(i)
        if column.path_in_schema == "physical_offset":
            bounds = column.statistics
            if bounds is None or not bounds.has_min_max:
                return True
            return bool(bounds.min < end and bounds.max >= begin)
    return True
