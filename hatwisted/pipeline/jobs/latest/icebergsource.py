"""A landed Iceberg table as rows to merge come from it: the files of its present snapshot.

A file is in memory as a whole while its rows are merged, as pyiceberg reads it so. Rows that a deletion names are
left out, but not taken back where their file was merged before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, In
from pyiceberg.io.pyarrow import ArrowScan

from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.iceberg.arrowtypes import plain_schema
from hatwisted.pipeline.iceberg.catalogs import IcebergName, plainly
from hatwisted.pipeline.jobs.latest.mergednotes import BATCH_ROWS, Merged

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask


class IcebergSource:
    """See LandedSource. name: of the table; topics: only these; none: all."""

    def __init__(self, name: str, topics: tuple[str, ...]) -> None:
        self._name = name
        self._table = IcebergName.parse(name).load()
        snapshot = self._table.current_snapshot()
        self.topics = topics
        self.columns = plain_schema(self._table.schema())
        self.version = 0 if snapshot is None else snapshot.snapshot_id
        self.id = str(self._table.metadata.table_uuid)
        self._wanted: Any = In("topic", topics) if topics else AlwaysTrue()  # type: ignore[call-arg, arg-type]

    def reached(self) -> Merged:
        """See LandedSource."""
        return Merged.of(self.version, self._paths(self.version))

    def files_since(self, merged: Merged | None) -> list[tuple[FileScanTask, int]]:
        """See LandedSource."""
        known = self._known(merged)
        with plainly(self._name):
            tasks = list(self._table.scan(self._wanted).plan_files())
        return [(each, each.file.file_size_in_bytes) for each in tasks if each.file.file_path not in known]

    def rows(self, file: FileScanTask) -> Iterator[pa.Table]:
        """See LandedSource."""
        try:
            with plainly(self._name, but=(FileNotFoundError,)):
                scan = ArrowScan(self._table.metadata, self._table.io, self._table.schema(), self._wanted)
                for batch in scan.to_record_batches([file]):
                    yield from self._pieces(batch)
        except FileNotFoundError:
            raise WrongTable(
                f"{self._name}: its file {file.file.file_path} has just been removed, as with an expired snapshot;"
                " try again"
            ) from None

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        for begin in range(0, batch.num_rows, BATCH_ROWS):
            piece = pa.Table.from_batches([batch.slice(begin, BATCH_ROWS)])
            yield piece.select(self.columns.names).cast(self.columns)

    def _known(self, merged: Merged | None) -> frozenset[str]:
        if merged is None or self._table.snapshot_by_id(merged.version) is None:
            return frozenset()  # that snapshot has expired: all again, which changes nothing of what is there
        try:
            found = self._paths(merged.version)
        except WrongTable:
            return frozenset()
        return frozenset(found) if Merged.of(merged.version, found) == merged else frozenset()

    def _paths(self, version: int) -> Sequence[str]:
        if not version:
            return []
        with plainly(self._name):
            return [task.file.file_path for task in self._table.scan(snapshot_id=version).plan_files()]
