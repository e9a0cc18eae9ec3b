"""Equality deletes in an Iceberg table, as Flink writes them when it upserts; neither pyiceberg nor Spark does."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriterV2,
)
from pyiceberg.table import Table


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_equal(table: Table, column: str, value: Any) -> None:
    """In the partition of the first file of a table, the rows that have this value.

    - table: as it was loaded
    - column: a top-level one
    - value: its
    """
    item = table.schema().find_field(column)
    file = next(iter(table.scan(selected_fields=(column,)).plan_files())).file
    path = f"{table.location()}/data/{uuid.uuid4()}.parquet"
    arrow = table.schema().select(column).as_arrow().field(0)
    field = arrow.with_metadata({"PARQUET:field_id": str(item.field_id)})
    pq.write_table(
        pa.table({column: pa.array([value], arrow.type)}, pa.schema([field])), path[len("file://") :]
    )
    deletes = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=file.partition,
        record_count=1,
        file_size_in_bytes=len(table.io.new_input(path)),
        equality_ids=[item.field_id],
    )
    deletes.spec_id = file.spec_id
    with table.transaction() as change, change.update_snapshot().fast_append() as adding:
        adding.new_manifest_writer = lambda spec: _DeleteManifest(  # type: ignore[method-assign]
            spec, table.schema(), adding.new_manifest_output(), adding.snapshot_id, adding._compression
        )
        adding.append_data_file(deletes)
