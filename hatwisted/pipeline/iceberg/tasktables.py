"""A landing's tables as tasks of other processes write into them: without their catalog, which is the driver's.

A task needs a table's columns, partitioning and properties, and where its files are and what opens them. So it is
given the table's metadata without its snapshots. Keys that a catalog has lent for the files travel with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.table import Table

from hatwisted.pipeline.iceberg.catalogs import IcebergName, plainly
from hatwisted.pipeline.iceberg.fileids import TaskIds
from hatwisted.pipeline.iceberg.landedfiles import LandedTables, RowFiles, WrittenFiles
from hatwisted.pipeline.schemas.topicschemas import TopicSchema

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

FORGOTTEN: Final[Mapping[str, Any]] = {
    "current_snapshot_id": None,
    **dict.fromkeys(("snapshots", "snapshot_log", "metadata_log", "statistics", "partition_statistics"), []),
    "refs": {},
}
"""What becomes of a table's metadata: the more it has, the more each task would be sent."""
SIGNER: Final = "s3.signer"
"""Property by which requests are signed at the catalog's address."""


@dataclass(frozen=True)
class _TaskTable:
    """One of them."""

    identifier: tuple[str, ...]
    metadata: TableMetadata
    properties: Mapping[str, str]

    @classmethod
    def of(cls, table: Table) -> _TaskTable:
        """As it was loaded. What is said of the catalog stays here: its address may have a password."""
        withheld = {"credential"} | (set() if SIGNER in table.io.properties else {"uri"})
        properties = {name: value for name, value in table.io.properties.items() if name not in withheld}
        return cls(table.name(), table.metadata.model_copy(update=dict(FORGOTTEN)), properties)

    def open(self) -> Table:
        files = load_file_io(dict(self.properties), self.metadata.location)
        return Table(self.identifier, self.metadata, "", files, NoopCatalog("task"))


@dataclass(frozen=True)
class TaskTables:
    """Both tables; picklable."""

    name: IcebergName
    rows: pa.Schema
    schemas: tuple[TopicSchema, ...]
    table: _TaskTable
    beside: _TaskTable | None

    @classmethod
    def refreshed(cls, tables: LandedTables) -> TaskTables:
        """As they are now; what a catalog lends for their files is lent anew."""
        for table in (tables.table, tables.beside):
            if table is not None:
                with plainly(str(tables.name)):
                    table.refresh()
        beside = None if tables.beside is None else _TaskTable.of(tables.beside)
        return cls(tables.name, tables.rows, tuple(tables.schemas), _TaskTable.of(tables.table), beside)

    def write(self, run: str, batches: Iterable[pa.RecordBatch]) -> WrittenFiles:
        """In a task: rows as whole files of their own, or an error and none.

        - run: its name
        - batches: the rows, as RowFiles wants them
        """
        files = RowFiles(self._open(), TaskIds(run))
        try:
            for rows in batches:
                files.write(rows)
            return files.close()
        except BaseException:
            files.drop()
            raise

    def _open(self) -> LandedTables:
        beside = None if self.beside is None else self.beside.open()
        return LandedTables(self.name, self.table.open(), self.rows, self.schemas, beside)
