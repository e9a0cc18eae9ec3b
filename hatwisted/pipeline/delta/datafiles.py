"""Record batches to Parquet files, one open file per partition of the table.

Each batch is ordered by partition with one stable sort and gathered once, while it is in the cache. The slices
wait until there are `FLUSH_BYTES` of them all; then each partition gets a row group of what it has. So memory
stays flat however many topics there are, and rows of a topic keep their order in the log. Writing a partition as
soon as its own slices suffice was rejected: a topic with a row in every batch would pin every batch.

A file appears when it is whole (tablefolder.py). It becomes part of the table only by a commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hatwisted.pipeline.delta.names import new_file_name, partition_folder
from hatwisted.pipeline.delta.partitionrows import grouped
from hatwisted.pipeline.delta.tablefolder import TableFolder

FLUSH_BYTES: Final = 64 << 20
"""Arrow bytes a task holds before it writes row groups; its process then had 270 to 420 MB with 3 GiB of log."""
MAX_OPEN_FILES: Final = 256
"""Partitions a task keeps open; beyond that, the least recently used is finished, and a later row begins
another."""
COMPRESSION_LEVEL: Final = 1
"""Of zstd; a core wrote 450 MB/s of 1 KiB JSON messages with it, to a fifth of their size."""
FEW_VALUES: Final = ("queue_id", "flag", "sys_flag", "reconsume_times", "store_host", "born_host", "tags",
                     "transaction", "broker", "file", "size", "body_crc_ok")  # fmt: skip
"""Columns worth a dictionary; trying it on bodies and keys only costs time."""
NAMES: Final = ("broker", "key")
"""Texts by which files are left out: whose log a row is from, and in a table of last messages their key."""
LONG: Final = 64
"""Letters; the smallest and largest of longer names isn't told, as they stay in Delta's log."""
RISING: Final = ("queue_offset", "physical_offset", "store_timestamp", "born_timestamp")
"""Columns whose neighbours differ by little."""


@dataclass(frozen=True)
class DataFile:
    """A whole Parquet file of the table that no commit mentions yet.

    `path` is relative to the table, `modified` in ms since the epoch, `log_bytes` the sum of its column `size`.
    """

    path: str
    partition: Mapping[str, str | None]
    rows: int
    size: int
    modified: int
    log_bytes: int
    stats: str


class DataFiles:
    """Writes the files of one task: `write` batches, then `close` for the finished files, or `abandon`.

    - root: folder of the table
    - schema: columns of the batches, which may have them in any order, with the table's types, which may be
      wider
    - partition_by: columns that become folders
    - writer: digest of who writes, for the files' names
    - epoch: of the run, for the files' names
    """

    def __init__(
        self, root: str, schema: pa.Schema, partition_by: Sequence[str], *, writer: str, epoch: int
    ) -> None:
        self._folder = TableFolder(root)
        self._schema = schema
        self._partition_by = tuple(partition_by)
        self._writer = writer
        self._epoch = epoch
        self._waiting: dict[tuple[str | None, ...], list[pa.RecordBatch]] = {}
        self._waiting_bytes = 0
        self._open: dict[tuple[str | None, ...], _OpenFile] = {}
        self._finished: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        for values, rows in split_by_partition(_typed(batch, self._schema), self._partition_by):
            self._waiting.setdefault(values, []).append(rows)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= FLUSH_BYTES:
            self._flush()

    def close(self) -> list[DataFile]:
        """Finish every file; they are whole, on the disk and under their names."""
        self._flush()
        while self._open:
            self._finish(next(iter(self._open)))
        return self._finished

    def abandon(self) -> None:
        """Remove what was written; for a task that failed."""
        for path in self.drop():
            self._folder.delete(path)

    def drop(self) -> list[str]:
        """Remove what isn't finished; the paths of what is, which a commit may mention."""
        self._waiting.clear()
        for file in self._open.values():
            file.abandon()
        self._open.clear()
        return [file.path for file in self._finished]

    def _flush(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        for values, batches in waiting.items():
            self._file(values).write(pa.Table.from_batches(batches))

    def _file(self, values: tuple[str | None, ...]) -> _OpenFile:
        file = self._open.pop(values, None)
        if file is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._finish(next(iter(self._open)))
            file = self._new_file(values)
        self._open[values] = file  # the last used comes last
        return file

    def _new_file(self, values: tuple[str | None, ...]) -> _OpenFile:
        partition = dict(zip(self._partition_by, values, strict=True))
        path = f"{partition_folder(partition)}/{new_file_name(self._writer, self._epoch)}"
        fields = [item for item in self._schema if item.name not in partition]
        return _OpenFile(self._folder, path, partition, pa.schema(fields))

    def _finish(self, values: tuple[str | None, ...]) -> None:
        self._finished.append(self._open[values].finish())
        del self._open[values]


@dataclass
class _OpenFile:
    """One Parquet file that isn't finished."""

    folder: TableFolder
    path: str
    partition: Mapping[str, str | None]
    schema: pa.Schema
    rows: int = 0
    log_bytes: int = 0
    _ranges: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._new = self.folder.new_file(self.path)
        try:
            self._writer = self._parquet()
        except OSError:
            self._new.abandon()
            raise

    def _parquet(self) -> pq.ParquetWriter:
        names = set(self.schema.names)
        return pq.ParquetWriter(
            self._new.sink,
            self.schema,
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
            use_dictionary=[name for name in FEW_VALUES if name in names],
            column_encoding={
                item.name: "DELTA_BINARY_PACKED"
                for item in self.schema
                if item.name in RISING and _is_whole(item.type)
            },
            write_statistics=[item.name for item in self.schema if _has_range(item)],
        )

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self.rows += rows.num_rows
        if "size" in rows.schema.names and pa.types.is_integer(rows.schema.field("size").type):
            self.log_bytes += pc.sum(rows.column("size")).as_py() or 0
        for item in rows.schema:
            if _has_range(item):
                self._widen(item.name, pc.min_max(_plain(rows.column(item.name))).as_py())

    def _widen(self, name: str, found: dict[str, Any]) -> None:
        if found["min"] is None:
            return
        low, high = self._ranges.get(name, (found["min"], found["max"]))
        self._ranges[name] = (min(low, found["min"]), max(high, found["max"]))

    def finish(self) -> DataFile:
        self._writer.close()
        size, modified = self._new.finish()
        return DataFile(self.path, self.partition, self.rows, size, modified, self.log_bytes, self._stats())

    def abandon(self) -> None:
        try:
            self._writer.close()
        except OSError:
            # The disk is full, perhaps: all the more has the file to go. Nor may the writer try again later.
            self._writer.is_open = False
        self._new.abandon()

    def _stats(self) -> str:
        """Delta's per-file statistics, by which readers leave files out; `nullCount` only where it's known."""
        low, high = {}, {}
        for name, (least, most) in self._ranges.items():
            kind = self.schema.field(name).type
            low[name], high[name] = _stat(least, kind), _stat(most, kind, up=True)
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {name: value for name, value in low.items() if value is not None},
                "maxValues": {name: value for name, value in high.items() if value is not None},
                "nullCount": {},
            }
        )


def _has_range(item: pa.Field) -> bool:
    """Are its smallest and largest value worth recording? Those of numbers, times, days and of `NAMES` are."""
    return _is_whole(item.type) or (item.name in NAMES and pa.types.is_string(item.type))


def _is_whole(kind: pa.DataType) -> bool:
    """Is it stored as a whole number? A user's own columns may have our names and other types."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as microseconds and days as numbers: Python has none before the year 1 and after 9999, a log may."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date(column.type) else column


def _stat(value: Any, kind: pa.DataType, *, up: bool = False) -> Any:
    """A bound as Delta's log has it; None where it has none: outside the years 1 to 9999.

    - value: as in `_plain`
    - kind: the column's type
    - up: round to whole milliseconds upwards
    """
    if isinstance(value, str):
        return value if len(value) <= LONG else None
    try:
        if pa.types.is_timestamp(kind):
            milliseconds = -(-value // 1000) if up else value // 1000
            time = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)
            return time.isoformat(timespec="milliseconds") + "Z"
        return (date(1970, 1, 1) + timedelta(value)).isoformat() if pa.types.is_date(kind) else value
    except OverflowError:
        return None


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The table's columns and types; a value too large for its type is an error, never cut."""
    batch = batch.select(schema.names)
    return batch if batch.schema == schema else batch.cast(schema)


def split_by_partition(
    batch: pa.RecordBatch, partition_by: Sequence[str]
) -> list[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Rows of each partition in their order, without the partition columns, with the partition's values."""
    columns = [batch.column(name) for name in partition_by]
    return [
        (tuple(None if value is None else str(value) for value in values), rows)
        for values, rows in grouped(batch.drop_columns(list(partition_by)), columns)
    ]
