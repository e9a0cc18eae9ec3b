"""A table's files as an audit knows them: what each can hold, and how its rows are read.

What Delta's log says of its files, or the footers of plain Parquet files, in a folder or at an object store. Those
of an Iceberg table are `icebergfiles`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.decode.storebytes import arrow_filesystem, is_remote
from hatwisted.pipeline.delta.landedrows import STORE_DATE
from hatwisted.pipeline.errors import WrongSchema

REQUIRED: Final = ("physical_offset", "size")
"""Columns without which rows can't be compared with records."""
CHECKED: Final[tuple[str, ...]] = ("physical_offset", "queue_offset", "queue_id", "broker")
"""Columns whose bounds readers leave files out by."""
NOT_SAID: Final = (None, None)
"""Bounds of a column that has none."""
FOOTERS: Final = 16
"""Files whose footers are read at a time."""
Item = TypeVar("Item")
_BOUNDS: Final = ("min.physical_offset", "max.physical_offset", "min.broker", "max.broker")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


class Rows(Protocol):
    """How the rows of a file are read; picklable."""

    def read(self, begin: int, end: int, columns: Sequence[str]) -> pa.Table:
        """At least the rows with an offset in [begin, end), with those of the columns that the file has.

        - begin: first physical offset
        - end: the first after it
        - columns: which
        """


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table. first, last: its smallest and largest physical offset; low, high: of its brokers' names.
    None: not known, so it may hold anything. columns: those of a landed table that it has, in itself or by its
    partition. flaw: what the table says of it that isn't so."""

    path: str
    rows: Rows
    first: int | None
    last: int | None
    low: str | None
    high: str | None
    columns: frozenset[str] = frozenset()
    flaw: str | None = None

    def may_hold(self, begin: int, end: int) -> bool:
        """Can it have a row with an offset in [begin, end)?"""
        return (self.first is None or self.first < end) and (self.last is None or self.last >= begin)


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Of one file. root: the table's folder; path: within it; partition: columns that needn't be in the file, with
    their values; deleted: numbers of rows that the table says don't count any more."""

    root: str
    path: str
    partition: tuple[tuple[str, str | None], ...] = ()
    deleted: tuple[int, ...] = ()

    def read(self, begin: int, end: int, columns: Sequence[str]) -> pa.Table:
        """See Rows."""
        with open_file(self.root, self.path) as file:
            opened = pq.ParquetFile(file)
            there = set(opened.schema_arrow.names)
            groups = [i for i in range(opened.num_row_groups) if _group_may_hold(opened, i, begin, end)]
            rows = opened.read_row_groups(groups, columns=[name for name in columns if name in there])
            if self.deleted:
                rows = rows.filter(pa.array(~np.isin(_numbers(opened.metadata, groups), self.deleted)))
        for name, value in self.partition:
            if name in columns and name not in there:
                # In Delta's partitions null stands for the empty text, too, and no topic is null.
                value = "" if value is None and name == "topic" else value
                rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), len(rows)))
        return rows


def open_file(root: str, path: str) -> Any:
    """A file to read from; raises OSError.

    - root: the table's folder
    - path: within it
    """
    files, folder = _place(root)
    return files.open_input_file(f"{folder}/{path}")


def delta_files(root: str) -> Iterator[TableFile]:
    """Those of a Delta table's present version. root: its folder."""
    from hatwisted.pipeline.delta.deletions import deleted_rows
    from hatwisted.pipeline.delta.deltatable import open_table

    table = open_table(root)
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    yield from in_parallel(partial(_delta_file, root, deleted_rows(table, root)), actions)


def _delta_file(root: str, deleted: Mapping[str, tuple[int, ...]], action: Mapping[str, Any]) -> TableFile:
    partition = {
        name.removeprefix("partition."): None if value is None else str(value)
        for name, value in action.items()
        if name.startswith("partition.")
    }
    path = _there(root, action["path"])
    footer = _footer(root, path)
    held = {name: bounds(footer, name) for name in CHECKED}
    flaw = flaw_of(footer.num_rows, action, held, "Delta's log")
    first, last, low, high = (action.get(name) for name in _BOUNDS)
    if flaw is not None:
        (first, last), (low, high) = held["physical_offset"], held["broker"]
    columns = landed_columns(path, {*footer.schema.to_arrow_schema().names, *partition})
    rows = ParquetRows(root, path, tuple(partition.items()), deleted.get(action["path"], ()))
    return TableFile(f"{root}/{path}", rows, first, last, low, high, columns, flaw)


def parquet_files(root: str) -> Iterator[TableFile]:
    """All Parquet files of a folder with hive partitions, but for hidden ones. root: the folder."""
    files, folder = _place(root)
    start = len(folder.rstrip("/")) + 1
    found = files.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    paths = sorted(item.path[start:] for item in found if item.type is fs.FileType.File)
    shown = [path for path in paths if not any(step.startswith(("_", ".")) for step in path.split("/"))]
    yield from in_parallel(
        partial(_parquet_file, root), [path for path in shown if path.endswith(".parquet")]
    )


def _parquet_file(root: str, path: str) -> TableFile:
    steps = [step.partition("=") for step in path.split("/")[:-1] if "=" in step]
    partition = tuple((key, None if value == _NULL else unquote(value)) for key, _, value in steps)
    footer = _footer(root, path)
    edges = *bounds(footer, "physical_offset"), *bounds(footer, "broker")
    columns = landed_columns(path, {*footer.schema.to_arrow_schema().names, *dict(partition)})
    return TableFile(f"{root}/{path}", ParquetRows(root, path, partition), *edges, columns)


def in_parallel(read: Callable[[Item], TableFile], items: Sequence[Item]) -> Iterator[TableFile]:
    """Files, `FOOTERS` at a time: an object store takes a while for each answer.

    - read: makes one
    - items: of what
    """
    with ThreadPoolExecutor(min(FOOTERS, max(1, len(items)))) as pool:
        yield from pool.map(read, items)


def _footer(root: str, path: str) -> pq.FileMetaData:
    with open_file(root, path) as file:
        return pq.read_metadata(file)


def landed_columns(path: str, there: set[str]) -> frozenset[str]:
    """Those of a landed table that a file has. WrongSchema if it lacks what rows are known by.

    - path: of the file
    - there: its columns
    """
    for name in REQUIRED:
        if name not in there:
            raise WrongSchema(f"{path}: without the column {name} rows can't be distinguished")
    return frozenset(there.intersection((*COLUMNS, STORE_DATE)))


def flaw_of(rows: int, said: Mapping[str, Any], held: Mapping[str, tuple[Any, Any]], who: str) -> str | None:
    """What a table says of a file that its footer contradicts; by such words readers leave rows out.

    - rows: that the file has
    - said: `num_records`, and `min.` and `max.` of columns
    - held: smallest and largest value of columns, by the footer
    - who: says so
    """
    if said.get("num_records") not in (None, rows):
        return f"{who} says {said['num_records']} rows, the file has {rows}"
    for name in CHECKED:
        low, high = held.get(name, NOT_SAID)
        least, most = said.get(f"min.{name}"), said.get(f"max.{name}")
        if low is not None and ((least is not None and low < least) or (most is not None and high > most)):
            return f"{who} says {name} is from {least} to {most}, in the file it's from {low} to {high}"
    return None


def bounds(footer: pq.FileMetaData, column: str) -> tuple[Any, Any]:
    """(smallest, largest) value of a column by the footer's statistics; None if they don't say.

    - footer: of the file
    - column: its name there
    """
    if column not in footer.schema.to_arrow_schema().names:
        return None, None
    index = [footer.schema.column(i).path for i in range(footer.num_columns)].index(column)
    groups = [footer.row_group(i).column(index).statistics for i in range(footer.num_row_groups)]
    if not groups or any(group is None or not group.has_min_max for group in groups):
        return None, None
    return min(group.min for group in groups), max(group.max for group in groups)


def _there(root: str, path: str) -> str:
    """A file by the path in Delta's log, which is encoded as a URL is; not every writer does that."""
    files, folder = _place(root)
    decoded = unquote(path)
    there = decoded == path or files.get_file_info(f"{folder}/{decoded}").type is fs.FileType.File
    return decoded if there else path


def _place(root: str) -> tuple[Any, str]:
    """The file system of a table, and its folder there."""
    return arrow_filesystem(root) if is_remote(root) else (fs.LocalFileSystem(), root)


def _numbers(footer: pq.FileMetaData, groups: Sequence[int]) -> Any:
    """The numbers of the rows of these groups within their file, as an array."""
    counts = [footer.row_group(each).num_rows for each in range(footer.num_row_groups)]
    begins = np.cumsum([0, *counts])
    return np.concatenate([np.arange(begins[each], begins[each + 1]) for each in groups] or [begins[:0]])


def _group_may_hold(file: pq.ParquetFile, group: int, begin: int, end: int) -> bool:
    metadata = file.metadata.row_group(group)
    for i in range(metadata.num_columns):
        column = metadata.column(i)
        if column.path_in_schema == "physical_offset":
            found = column.statistics
            if found is None or not found.has_min_max:
                return True
            return bool(found.min < end and found.max >= begin)
    return True
