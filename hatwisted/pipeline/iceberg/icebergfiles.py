"""Rows of logs into data files of an Iceberg table, and where each broker's rows end in them.

pyiceberg writes a file for each partition of the rows it is given, so they wait until there are `FLUSH_BYTES`. A
file is part of the table only by a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from hatwisted.pipeline.delta.landedrows import END_TIME, FIRST_TIME
from hatwisted.pipeline.delta.tails import COLUMNS, Tail, plain_rows
from hatwisted.pipeline.iceberg.catalogs import plainly

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

METRICS: Final = "write.metadata.metrics.column."
"""Properties of a table: what is told of a column of each file."""
FLUSH_BYTES: Final = 128 << 20
"""Arrow bytes that wait before they are written."""


class IcebergFiles:
    """`write` batches, then `close` for the finished files, or `drop`.

    - table: which
    - name: of the table, for errors
    """

    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self._name = name
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._finished: list[DataFile] = []
        self.rows = 0
        self.log_bytes = 0
        self.tails: dict[str, Tail] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Rows of one broker, which follow those before them in its log."""
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        self.log_bytes += pc.sum(batch["size"]).as_py() or 0
        last = pa.Table.from_batches([batch.slice(batch.num_rows - 1).select(COLUMNS)])
        tail = Tail(**plain_rows(last).to_pylist()[0])
        self.tails[tail.broker] = tail
        if self._waiting_bytes >= FLUSH_BYTES:
            self._flush()

    def close(self) -> list[DataFile]:
        """Every file, whole; they are the caller's from now on."""
        self._flush()
        finished, self._finished = self._finished, []
        return finished

    def drop(self) -> None:
        """Remove what was written and isn't the caller's: no snapshot mentions it."""
        self._waiting.clear()
        for file in self._finished:
            self._table.io.delete(file.file_path)
        self._finished = []

    def _flush(self) -> None:
        if self._waiting:
            rows = pa.Table.from_batches(self._waiting)
            self._waiting, self._waiting_bytes = [], 0
            self._finished += data_files(self._table, self._name, rows)


def data_files(table: Table, name: str, rows: pa.Table) -> list[DataFile]:
    """Rows as files of their partitions, which no snapshot mentions yet.

    - table: which
    - name: of the table, for errors
    - rows: of any partitions
    """
    # What `Transaction.append` does, too, but that one writes the files anew if it has to be tried again.
    with plainly(name):
        metadata = table.metadata
        odd = {f"{METRICS}{column}": "counts" for column in _odd_times(rows)}
        if odd:
            metadata = metadata.model_copy(update={"properties": metadata.properties | odd})
        return list(_dataframe_to_data_files(metadata, rows, table.io))


def _odd_times(rows: pa.Table) -> Iterator[str]:
    """The columns with times outside the years 1 to 9999, whose least and greatest pyiceberg can't tell."""
    for item in rows.schema:
        if pa.types.is_timestamp(item.type):
            found = pc.min_max(rows[item.name].cast(pa.int64())).as_py()
            if found["min"] is not None and not FIRST_TIME <= found["min"] <= found["max"] < END_TIME:
                yield item.name
