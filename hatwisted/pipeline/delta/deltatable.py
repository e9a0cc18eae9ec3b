"""The table's schema: created, widened, or refused with the name of the column that doesn't fit.

An older table with fewer columns, or fewer fields in a column of records (nestedtypes.py), gets the missing
ones, empty in its old rows. Columns of the user's own stay and are empty in new rows. A table type that holds
every value of ours (long for integer) stays, and files are written in it. Every other difference is refused before
a row is read: a cast could change data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.features import MAPPING, check_features, has_mapping
from hatwisted.pipeline.delta.nestedtypes import grown
from hatwisted.pipeline.delta.tablefolder import TableFolder
from hatwisted.pipeline.errors import WrongSchema, said

if TYPE_CHECKING:
    # It takes pandas along, where that is installed: a third of a second that a landing needn't wait for.
    import pyarrow.dataset as pads

ATTEMPTS: Final = 10
"""Tries against other writers; each loses only if another one's commit came between read and write."""


def open_table(path: str) -> DeltaTable:
    """The newest version of the table; WrongTable if the folder isn't one."""
    try:
        return DeltaTable(path)
    except (DeltaError, OSError) as error:
        raise WrongTable(f"{path}: can't be read as a Delta table: {said(error)}") from error


def table_rows(version: DeltaTable, path: str) -> pads.Dataset:
    """The rows of a version as Arrow reads them, through Arrow's own file systems. delta-rs would give it one in
    Python, and a process that ends while Arrow's threads still hold its files is aborted by the interpreter.

    - version: as `open_table` found it
    - path: of the table

    Raises WrongTable if it has what delta-rs doesn't give Arrow, as deletion vectors, or gives it wrongly.
    """
    if has_mapping(version):
        # Columns that were renamed would be null in each row (seen with 1.6.6).
        raise WrongTable(
            f"{path}: can't be read: its columns are mapped ({MAPPING}), which Arrow doesn't know"
        )
    try:
        return version.to_pyarrow_dataset(filesystem=TableFolder(path).files)
    except DeltaError as error:
        raise WrongTable(f"{path}: can't be read: {said(error)}") from error


def is_table(path: str) -> bool:
    """Is there a Delta table in the folder? Raises WrongTable if the object store doesn't answer."""
    try:
        return DeltaTable.is_deltatable(path)
    except (DeltaError, OSError) as error:
        raise WrongTable(f"{path}: can't be read: {said(error)}") from error


def prepare_table(path: str, schema: pa.Schema, partition_by: Sequence[str]) -> pa.Schema:
    """Create the table, or widen it so that the rows fit; returns the rows' columns with the table's types.
    Raises WrongSchema naming a column whose type doesn't fit, WrongTable for a folder that is something else.

    - path: of the table
    - schema: of the rows
    - partition_by: columns that become folders
    """
    _make(path, schema, partition_by)
    for _ in range(ATTEMPTS):
        table = open_table(path)
        _check_table(table, path, partition_by)
        there = pa.schema(table.schema().to_arrow())
        types, missing = fit(path, there, schema)
        if not missing:
            return types
        try:
            if any(item.name in there.names for item in missing):
                # delta-rs adds fields within a column by a write only, which may be one without rows.
                needed = pa.schema([*missing, *(there.field(name) for name in partition_by)])
                write_deltalake(table, needed.empty_table(), mode="append", schema_mode="merge")
            else:
                table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
        except (CommitFailedError, DeltaError) as error:
            refusal = error
    raise WrongTable(f"{path}: columns couldn't be added: {said(refusal)}")


def _make(path: str, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    if is_table(path):
        return
    if TableFolder(path).has_others():
        raise WrongTable(f"{path}: exists and isn't a Delta table; give a new or an empty folder")
    try:
        DeltaTable.create(path, Schema.from_arrow(schema), mode="ignore", partition_by=list(partition_by))
    except (DeltaError, OSError) as error:
        if not DeltaTable.is_deltatable(path):  # else another run has just created it
            raise WrongTable(f"{path}: the table can't be created: {said(error)}") from error


def _check_table(table: DeltaTable, path: str, partition_by: Sequence[str]) -> None:
    found = table.metadata()
    if list(found.partition_columns) != list(partition_by):
        raise WrongTable(
            f"{path}: is partitioned by {', '.join(found.partition_columns) or 'nothing'},"
            f" not by {', '.join(partition_by)}; land into another table"
        )
    check_features(table, path)


def fit(path: str, table: pa.Schema, rows: pa.Schema) -> tuple[pa.Schema, list[pa.Field]]:
    """(the rows' columns with the table's types, those that the table lacks or that lack fields there). Raises
    WrongSchema naming what doesn't fit.

    - path: of the table, for errors
    - table: its schema
    - rows: theirs
    """
    fields, missing = [], []
    for item in rows:
        if item.name not in table.names:
            fields.append(item)
            missing.append(item.with_nullable(True))
            continue
        there = table.field(item.name)
        kind = grown(there.type, item.type, f"{path}: column {item.name}")
        fields.append(item.with_type(kind))
        if not kind.equals(there.type):
            missing.append(item.with_type(kind).with_nullable(True))
    for there in table:
        if not there.nullable and there.name not in rows.names:
            raise WrongSchema(f"{path}: column {there.name} may not be null, and the log has nothing for it")
    return pa.schema(fields), missing
