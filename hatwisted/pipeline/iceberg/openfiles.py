"""Data files of an Iceberg table while they are written: one open for each partition.

pyiceberg writes a table of rows at once, and each table into files of its own. What lands comes in many, so each
partition had a small file of each, which compaction wrote once more as soon as the landing was over: that took
longer than the landing. Here a file stays open, and gets a row group with each `flush`. The parts are pyiceberg's:
names, schema, writer, statistics. Rows are told apart by one sort of each batch while it's in the cache, where
pyiceberg filters all of them once for each partition.

A file is part of the table only by a snapshot. Until it's closed it may be there with a beginning, or not at all:
that's for whoever provides the files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import _get_field_from_arrow_table, _to_requested_schema, pyarrow_to_schema
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.schema import sanitize_column_names
from pyiceberg.table import TableProperties, WriteTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record
from pyiceberg.utils.properties import property_as_int

from hatwisted.pipeline.delta.datafiles import MAX_OPEN_FILES
from hatwisted.pipeline.delta.errors import GoneFile
from hatwisted.pipeline.delta.landedrows import END_TIME, FIRST_TIME
from hatwisted.pipeline.delta.partitionrows import grouped
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.nulls import keep_nulls

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

keep_nulls()

METRICS: Final = "write.metadata.metrics.column."
"""Properties of a table: what is told of a column of each file."""
FORMAT: Final = FileFormat.PARQUET
Values = tuple[Any, ...]
"""Of a partition, one for each of its fields."""


class OpenFiles:
    """Files of one table: `add` batches, `flush` now and then, then `close` for the finished files, or `drop`.

    - table: which; as it is now
    - ids: names of the run's files
    """

    def __init__(self, table: Table, ids: FileIds) -> None:
        self._io = table.io
        self._metadata: TableMetadata = table.metadata
        self._ids = ids
        self._target = _target_size(self._metadata)
        self._waiting: dict[Values, list[pa.RecordBatch]] = {}
        self._open: dict[Values, _OpenFile] = {}
        self._finished: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows of any partitions: they wait."""
        for values, rows in grouped(batch, self._partition_values(batch)):
            self._waiting.setdefault(values, []).append(rows)

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, {}
        for values, batches in waiting.items():
            rows = pa.Table.from_batches(batches).combine_chunks()
            self._allow_odd_times(rows)
            file = self._file(values)
            file.write(rows)
            if file.written >= self._target:
                self._finish(values)

    def finish(self) -> None:
        """Make every file whole. Raises GoneFile; `drop` removes all of them still."""
        self.flush()
        while self._open:
            self._finish(next(iter(self._open)))

    def close(self) -> list[DataFile]:
        """Every file, whole; they are the caller's from now on."""
        self.finish()
        finished, self._finished = self._finished, []
        return finished

    def drop(self) -> None:
        """Remove what was written and isn't the caller's: no snapshot mentions it."""
        self._waiting = {}
        opened, self._open = self._open, {}
        for file in opened.values():
            file.abandon()
        finished, self._finished = self._finished, []
        for done in finished:
            with contextlib.suppress(FileNotFoundError):  # a later run has removed it
                self._io.delete(done.file_path)

    def _partition_values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """What the fields of the table's partitions are for each row."""
        schema, found = self._metadata.schema(), []
        rows = pa.Table.from_batches([batch])
        for item in self._metadata.spec().fields:
            source, name = schema.find_field(item.source_id), schema.find_column_name(item.source_id)
            assert name is not None, item
            try:
                given = _get_field_from_arrow_table(rows, name)
            except KeyError:
                raise ValueError(f"rows have no {name}, by which they're filed: was it renamed?") from None
            values = item.transform.pyarrow_transform(source.field_type)(given)
            found.append(values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values)
        return found

    def _file(self, values: Values) -> _OpenFile:
        file = self._open.pop(values, None)
        if file is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._finish(next(iter(self._open)))
            file = _OpenFile(self._metadata, self._io, values, self._ids)
        self._open[values] = file  # the last used comes last
        return file

    def _finish(self, values: Values) -> None:
        self._finished.append(self._open[values].finish())
        del self._open[values]

    def _allow_odd_times(self, rows: pa.Table) -> None:
        """Of a column with times that pyiceberg can't tell the least and the greatest of, neither is told from now
        on: files that are open would have them told."""
        properties = self._metadata.properties
        odd = {f"{METRICS}{column}": "counts" for column in _odd_times(rows)}
        if odd.items() <= properties.items():
            return
        while self._open:
            self._finish(next(iter(self._open)))
        self._metadata = self._metadata.model_copy(update={"properties": properties | odd})


class _OpenFile:
    """One, from its first row group on.

    - metadata: of the table
    - io: where its files are
    - values: of the partition
    - ids: gives it its name
    """

    def __init__(self, metadata: TableMetadata, io: Any, values: Values, ids: FileIds) -> None:
        self._metadata = metadata
        self._io = io
        self._key = _partition_key(metadata, values)
        model = FileFormatFactory.get(FORMAT)
        named = WriteTask(ids.next(), ids.attempt, metadata.schema(), [], partition_key=self._key)
        places = load_location_provider(metadata.location, metadata.properties)
        self._path = places.new_data_location(
            named.generate_data_file_filename(model.file_extension()), self._key
        )
        self._output = io.new_output(self._path)
        self._schema = sanitize_column_names(metadata.schema())
        self._writer = model.create_writer(self._output, self._schema, metadata.properties)
        self._model = model
        self.written = 0
        """Bytes of rows, as they are in memory."""

    def write(self, rows: pa.Table) -> None:
        """A row group, or some, in the table's own types."""
        metadata = self._metadata
        given = pyarrow_to_schema(
            rows.schema, name_mapping=metadata.schema().name_mapping, format_version=metadata.format_version
        )
        batches = [
            _to_requested_schema(self._schema, given, batch, include_field_ids=True, format_model=self._model)
            for batch in rows.to_batches()
        ]
        self._writer.write(pa.Table.from_batches(batches))
        self.written += rows.nbytes

    def finish(self) -> DataFile:
        """Close it. Raises GoneFile."""
        statistics = self._writer.close()
        try:
            size = len(self._output)
        except FileNotFoundError as error:
            raise GoneFile(f"{self._path} is gone before it was finished") from error
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._path,
            file_format=FORMAT,
            partition=Record() if self._key is None else self._key.partition,
            file_size_in_bytes=size,
            sort_order_id=None,
            spec_id=self._metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        file.spec_id = self._metadata.default_spec_id
        return file

    def abandon(self) -> None:
        """Remove it."""
        try:
            self._writer.close()
        except (OSError, ValueError):
            # The disk may be full, or nothing written yet: all the more has the file to go. Nor may Arrow's writer
            # try again later.
            if (writer := getattr(self._writer, "_writer", None)) is not None:
                writer.is_open = False
        with contextlib.suppress(FileNotFoundError):
            self._io.delete(self._path)


def _partition_key(metadata: TableMetadata, values: Values) -> PartitionKey | None:
    fields = metadata.spec().fields
    if not fields:
        return None
    pairs = [PartitionFieldValue(item, value) for item, value in zip(fields, values, strict=True)]
    return PartitionKey(pairs, metadata.spec(), metadata.schema())


def _target_size(metadata: TableMetadata) -> int:
    """Bytes of rows in memory from which on a file is closed."""
    name, usual = (
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )
    size = property_as_int(metadata.properties, name, usual)
    assert size is not None
    return size


def _odd_times(rows: pa.Table) -> Iterator[str]:
    """The columns with times outside the years 1 to 9999, whose least and greatest pyiceberg can't tell."""
    for item in rows.schema:
        if pa.types.is_timestamp(item.type):
            found = pc.min_max(rows[item.name].cast(pa.int64())).as_py()
            if found["min"] is not None and not FIRST_TIME <= found["min"] <= found["max"] < END_TIME:
                yield item.name
