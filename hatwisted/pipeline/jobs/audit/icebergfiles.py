"""The files of an Iceberg table's present snapshot, and their rows as the table has them.

pyiceberg reads them: columns are known by their numbers, and rows that deletions name are left out. What the
manifests say of a file is compared with its footer, as what Delta's log says is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType

from hatwisted.pipeline.iceberg.catalogs import IcebergName, plainly
from hatwisted.pipeline.jobs.audit.tablefiles import (
    CHECKED,
    NOT_SAID,
    TableFile,
    bounds,
    flaw_of,
    in_parallel,
    landed_columns,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.table.metadata import TableMetadata

FIELD_ID: Final = b"PARQUET:field_id"
"""Within what a Parquet file says of a column: its number."""


@dataclass(frozen=True, slots=True)
class IcebergRows:
    """Of one file. table: its metadata, without what came before; task: the file, and its deletions."""

    name: str
    table: TableMetadata
    io: FileIO
    task: FileScanTask

    def read(self, begin: int, end: int, columns: Sequence[str]) -> pa.Table:
        """See Rows."""
        schema = self.table.schema()
        wanted = schema.select(*(name for name in columns if name in schema.column_names))
        within: Any = And(
            GreaterThanOrEqual("physical_offset", begin),  # type: ignore[call-arg, arg-type]
            LessThan("physical_offset", end),  # type: ignore[call-arg, arg-type]
        )
        with plainly(self.name, but=(FileNotFoundError,)):
            return ArrowScan(self.table, self.io, wanted, within).to_table([self.task])


def iceberg_files(table: str) -> Iterator[TableFile]:
    """Those of the present snapshot. table: its name. Raises WrongTable, WrongSchema."""
    opened = IcebergName.parse(table).load()
    # Tasks are given this, and a table's history may be long.
    past: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}}
    slim = opened.metadata.model_copy(update=past)
    with plainly(table):
        tasks = list(opened.scan().plan_files())
        yield from in_parallel(lambda task: _file(IcebergRows(table, slim, opened.io, task)), tasks)


def _file(rows: IcebergRows) -> TableFile:
    file, schema = rows.task.file, rows.table.schema()
    with rows.io.new_input(file.file_path).open() as opened:
        footer = pq.read_metadata(opened)
    names = _names(footer, schema)
    held = {column: bounds(footer, names[column]) for column in CHECKED if column in names}
    flaw = flaw_of(footer.num_rows, _said(file, schema), held, "its manifest")
    there = landed_columns(file.file_path, {*names, *_by_partition(rows.table, file)})
    edges = *held.get("physical_offset", NOT_SAID), *held.get("broker", NOT_SAID)
    return TableFile(file.file_path, rows, *edges, there, flaw)


def _names(footer: pq.FileMetaData, schema: Schema) -> dict[str, str]:
    """What a file calls the table's columns that it has. Files that were added as they are know no numbers."""
    found = {}
    for field in footer.schema.to_arrow_schema():
        number = (field.metadata or {}).get(FIELD_ID)
        name = field.name if number is None else schema.find_column_name(int(number))
        if name is not None and name in schema.column_names:
            found[name] = field.name
    return found


def _by_partition(table: TableMetadata, file: DataFile) -> Iterator[str]:
    """Columns that a file needn't have, as its partition says their value."""
    for field in table.specs()[file.spec_id].fields:
        name = table.schema().find_column_name(field.source_id)
        if name is not None and isinstance(field.transform, IdentityTransform):
            yield name


def _said(file: DataFile, schema: Schema) -> dict[str, Any]:
    """What a manifest says of a file. Bounds of texts may be cut, and are then wider than the file's."""
    found: dict[str, Any] = {"num_records": file.record_count}
    for column in CHECKED:
        if column in schema.column_names:
            item = schema.find_field(column)
            assert isinstance(item.field_type, PrimitiveType)
            for kind, bound in (("min", file.lower_bounds), ("max", file.upper_bounds)):
                value = (bound or {}).get(item.field_id)
                if value is not None:
                    found[f"{kind}.{column}"] = from_bytes(item.field_type, value)
    return found
