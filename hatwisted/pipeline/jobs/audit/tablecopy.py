"""A landed table as one more copy of the log: which of its files hold which offsets of one broker.

What Delta's log says of its files, or the footers of plain Parquet files, is all that's read here; a task then
opens only the files and row groups that its part of the log can be in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os.path import exists, isdir, join
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hatwisted.pipeline.decode.arrowschema import COLUMNS, arrow_schema
from hatwisted.pipeline.errors import NotAStore, PipelineError, WrongSchema

REQUIRED: Final = ("physical_offset", "size")
"""Columns without which rows can't be compared with records."""
DELTA_LOG: Final = "_delta_log"
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A Parquet file. first, last: its smallest and largest physical offset; low, high: of its brokers' names.
    None: not known, so it may hold anything. partition: columns that aren't in the file, with their values."""

    path: str
    first: int | None
    last: int | None
    low: str | None
    high: str | None
    partition: tuple[tuple[str, str | None], ...] = ()

    def may_hold(self, begin: int, end: int) -> bool:
        """Can it have a row with an offset in [begin, end)?"""
        return (self.first is None or self.first < end) and (self.last is None or self.last >= begin)


@dataclass(frozen=True, slots=True)
class TableCopy:
    """One broker's rows in a table. broker: None if the table has no such column. columns: those of the log that
    the table has. min_offset, end: from the first row's offset to after the last one."""

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
        """The broker's rows, ordered by offset, in the log's types.

        - begin: first physical offset
        - end: the first after it
        - columns: which
        """
        wanted = [name for name in self.columns if columns is None or name in columns]
        schema = arrow_schema(wanted)
        pieces = [
            _read(file, begin, end, schema, self.broker) for file in self.files if file.may_hold(begin, end)
        ]
        table = pa.concat_tables([schema.empty_table(), *pieces])
        return table.take(pc.sort_indices(table, [("physical_offset", "ascending")]))

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
        yield TableFile(
            _on_disk(path, action["path"]),
            *(action.get("min.physical_offset"), action.get("max.physical_offset")),
            *(action.get("min.broker"), action.get("max.broker")),
            tuple(partition.items()),
        )


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
                yield TableFile(file, *_bounds(file, "physical_offset"), *_bounds(file, "broker"), partition)


def _bounds(path: str, column: str) -> tuple[Any, Any]:
    """(smallest, largest) value of a column by the footer's statistics; None if they don't say."""
    metadata = pq.read_metadata(path)
    names = metadata.schema.to_arrow_schema().names
    if column not in names:
        return None, None
    index = [metadata.schema.column(i).path for i in range(metadata.num_columns)].index(column)
    groups = [metadata.row_group(i).column(index).statistics for i in range(metadata.num_row_groups)]
    if not groups or any(group is None or not group.has_min_max for group in groups):
        return None, None
    return min(group.min for group in groups), max(group.max for group in groups)


def _columns(files: tuple[TableFile, ...]) -> tuple[str, ...]:
    """The log's columns that all files have."""
    common = set(COLUMNS)
    for file in files:
        common &= {*pq.read_schema(file.path).names, *(name for name, _ in file.partition)}
    for name in REQUIRED:
        if name not in common:
            raise WrongSchema(f"{files[0].path}: without the column {name} rows can't be distinguished")
    return tuple(name for name in COLUMNS if name in common)


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
    wanted = [*schema.names, *(["broker"] if broker is not None and "broker" not in schema.names else [])]
    groups = [i for i in range(opened.num_row_groups) if _group_may_hold(opened, i, begin, end)]
    rows = opened.read_row_groups(groups, columns=[name for name in wanted if name in there])
    for name, value in file.partition:
        if name in schema.names and name not in there:
            rows = rows.append_column(name, pa.array([value] * len(rows), pa.string()))
    offsets = rows["physical_offset"]
    mask = pc.and_(pc.greater_equal(offsets, begin), pc.less(offsets, end))
    if broker is not None:
        mask = pc.and_(mask, pc.equal(rows["broker"], broker))
    try:
        return rows.filter(mask).select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise WrongSchema(f"{file.path}: columns of other types than a log's: {error}") from None


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
