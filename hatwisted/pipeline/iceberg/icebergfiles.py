"""Rows of logs into data files of an Iceberg table, and where each broker's rows end in them.

Rows wait until there are `FLUSH_BYTES`; then each partition's open file gets a row group of what it has
(openfiles.py). A file is part of the table only by a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.delta.errors import GoneFile, taken_over
from hatwisted.pipeline.delta.reach import Reach
from hatwisted.pipeline.iceberg.catalogs import plainly
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.openfiles import OpenFiles

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

FLUSH_BYTES: Final = 128 << 20
"""Arrow bytes that wait before they are written."""


class IcebergFiles:
    """`write` batches, then `close` for the finished files, or `drop`.

    - table: which
    - name: of the table, for errors
    - ids: names of the run's files
    """

    def __init__(self, table: Table, name: str, ids: FileIds) -> None:
        self._files = OpenFiles(table, ids)
        self._name = name
        self._waiting_bytes = 0
        self.rows = 0
        self.log_bytes = 0
        self.reach = Reach()

    def write(self, batch: pa.RecordBatch) -> None:
        """Rows of any brokers."""
        if not batch.num_rows:
            return
        with plainly(self._name):
            self._files.add(batch)
        self._waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        self.log_bytes += pc.sum(batch["size"]).as_py() or 0
        self.reach.add(batch)
        if self._waiting_bytes >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        self._waiting_bytes = 0
        with plainly(self._name), _fenced(self._name):
            self._files.flush()

    def finish(self) -> None:
        """Make every file whole. Raises Fenced if one is gone; `drop` removes all of them still."""
        with plainly(self._name), _fenced(self._name):
            self._files.finish()

    def close(self) -> list[DataFile]:
        """Every file, whole; they are the caller's from now on. Raises Fenced if one is gone."""
        self.finish()
        return self._files.close()

    def drop(self) -> None:
        """Remove what was written and isn't the caller's: no snapshot mentions it."""
        self._files.drop()


@contextmanager
def _fenced(name: str) -> Iterator[None]:
    """A landing's file that is gone was one of a run that has ended, to whoever took over."""
    try:
        yield
    except GoneFile as error:
        raise taken_over(f"{name}: {error}") from error


def data_files(table: Table, name: str, rows: pa.Table, ids: FileIds) -> list[DataFile]:
    """Rows as files of their partitions, which no snapshot mentions yet.

    - table: which
    - name: of the table, for errors
    - rows: of any partitions
    - ids: names of the run's files
    """
    files = OpenFiles(table, ids)
    try:
        with plainly(name):
            for batch in rows.combine_chunks().to_batches():
                files.add(batch)
            return files.close()
    except BaseException:
        files.drop()
        raise
