"""A landed table as one more copy of the log: which of its files hold which offsets of one broker.

What the table says of its files is all that's read here; a task then opens only the files and row groups that its
part of the log can be in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os.path import isdir
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.decode.arrowschema import COLUMNS, arrow_schema
from hatwisted.pipeline.decode.storebytes import is_remote
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.landedrows import STORE_DATE, landed_schema
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.errors import NotAStore, PipelineError, WrongSchema, said
from hatwisted.pipeline.iceberg.catalogs import is_iceberg
from hatwisted.pipeline.jobs.audit.tablefiles import REQUIRED, TableFile, delta_files, parquet_files

FILE: Final = "(file)"
"""Column of a row's file, by its number."""


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
        """The present version of a Delta or Iceberg table, or Parquet files in a folder. NotAStore, WrongSchema,
        WrongTable, PipelineError.

        - path: a folder, here or at an object store, or `iceberg:CATALOG.NAMESPACE.TABLE`
        - broker: whose rows; needn't be given if the table has those of one broker
        """
        try:
            files = _files(path)
        except (OSError, pa.ArrowException) as error:
            raise WrongTable(f"{path}: a file of it can't be read: {said(error)}") from error
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


def _files(path: str) -> tuple[TableFile, ...]:
    if is_iceberg(path):
        from hatwisted.pipeline.jobs.audit.icebergfiles import iceberg_files

        return tuple(iceberg_files(path))
    from hatwisted.pipeline.delta.deltatable import is_table

    root = table_path(path)
    if not is_remote(root) and not isdir(root):
        raise NotAStore(f"{path}: no such folder")
    return tuple(delta_files(root) if is_table(root) else parquet_files(root))


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
    if broker is not None:
        return broker
    names = set[str | None]()
    for file in files:
        # Bounds of texts may be cut: Spark's Delta keeps 32 characters of a name, Iceberg 16.
        names |= {file.low} if file.low == file.high is not None else _brokers(file)
        if len(names) > 1:
            break
    if len(names) == 1 and None not in names:
        return names.pop()
    known = ", ".join(sorted(name for name in names if name is not None))
    raise PipelineError(f"{path}: holds more than one broker's rows ({known}, ...); say whose to compare")


def _brokers(file: TableFile) -> set[str | None]:
    """Those that a file has rows of."""
    rows = _rows(file, 0, 1 << 62, ["broker"])
    return set(rows["broker"].unique().to_pylist()) if rows.column_names else {None}


def _rows(file: TableFile, begin: int, end: int, columns: Sequence[str]) -> pa.Table:
    try:
        return file.rows.read(begin, end, columns)
    except FileNotFoundError:
        raise WrongTable(f"{file.path}: is gone since the audit began: start it again") from None


def _read(file: TableFile, begin: int, end: int, schema: pa.Schema, broker: str | None) -> pa.Table:
    """A file's rows of a broker in [begin, end), with the schema's columns and types."""
    with_broker = schema.append(pa.field("broker", pa.string())) if "broker" not in schema.names else schema
    rows = _rows(file, begin, end, with_broker.names)
    try:
        # Other writers (delta-rs rewriting a file) have texts as views, which few of Arrow's functions take.
        columns = [
            rows[field.name].cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(len(rows), field.type)
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
