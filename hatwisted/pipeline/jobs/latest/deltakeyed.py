"""A keyed Delta table: rows are merged by delta-rs, with one commit right after the version that was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from hatwisted.pipeline.delta.compaction import compact
from hatwisted.pipeline.delta.datafiles import COMPRESSION_LEVEL
from hatwisted.pipeline.delta.deltatable import ATTEMPTS, is_table, one_line, open_table, prepare_table
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.queuetails import NOTE, commit_notes
from hatwisted.pipeline.jobs.latest.lastrows import KEY, later
from hatwisted.pipeline.jobs.latest.mergednotes import (
    FILE_BYTES,
    PARTITION_BY,
    PROPERTY,
    Merged,
    check_property,
    property_text,
)

MERGED: Final = "latest"
"""Within a commit's note: up to where the table is merged."""
GROUP_ROWS: Final = 65_536
"""Rows that Parquet's writer holds until they are written."""


@dataclass
class DeltaKeyed:
    """See KeyedRows. path: its; what: it's of."""

    path: str
    what: Mapping[str, Any]
    _seen: int = -1
    """The version that this run knows it by."""

    def prepare(self, columns: pa.Schema) -> pa.Schema:
        """See KeyedRows."""
        if is_table(self.path):
            self._check(open_table(self.path))  # before it's widened
        types = prepare_table(self.path, columns, PARTITION_BY)
        refusal: Exception | None = None
        for _ in range(ATTEMPTS):
            table = open_table(self.path)
            if self._check(table):
                return types
            try:
                table.alter.set_table_properties(
                    {PROPERTY: property_text(self.what)}, raise_if_not_exists=False
                )
            except CommitFailedError as error:
                refusal = error
        raise WrongTable(f"{self.path}: can't be made: {refusal}; try again when fewer writers are active")

    def _check(self, table: DeltaTable) -> bool:
        found = table.metadata().configuration.get(PROPERTY)
        return check_property(self.path, found, self.what, not table.file_uris())

    def merged(self) -> Merged | None:
        """See KeyedRows."""
        table = open_table(self.path)
        self._seen = table.version()
        for note in commit_notes(table):
            if MERGED in note:
                return Merged.parse(note[MERGED])
        return None

    def merge(self, rows: pa.Table, reached: Merged | None) -> tuple[int, int]:
        """See KeyedRows."""
        for _ in range(ATTEMPTS):
            try:
                return self._merge(rows, reached)
            except CommitFailedError:
                continue
            except DeltaError as error:
                raise WrongTable(f"{self.path}: can't be merged into: {one_line(error)}") from error
        raise WrongTable(
            f"{self.path}: no merge after {ATTEMPTS} attempts; try again when fewer writers are active"
        )

    def _merge(self, rows: pa.Table, reached: Merged | None) -> tuple[int, int]:
        note = {} if reached is None else {MERGED: reached.as_json()}
        # Right after the version that is read here: what comes between is looked at first.
        properties = CommitProperties(custom_metadata={NOTE: note}, max_commit_retries=0)
        table = open_table(self.path)
        self._check_line(table)
        before = table.version()
        found = self._upserted(table, rows, properties) if len(rows) else (0, 0)
        if table.version() == before and reached is not None:  # rows that bring nothing make no commit
            columns = table.metadata().partition_columns
            table.create_write_transaction(
                [], "append", table.schema(), columns, commit_properties=properties
            )
        self._seen = before
        return found

    def _check_line(self, table: DeltaTable) -> None:
        """Raises WrongTable if it was restored since this run has seen it: rows that were merged may be gone, and
        what is noted with later ones has to be true of all."""
        since = table.version() - self._seen
        if since < 0 or (
            since and any(entry.get("operation") == "RESTORE" for entry in table.history(since))
        ):
            raise WrongTable(f"{self.path}: was restored to an earlier version meanwhile; try again")

    def _upserted(self, table: DeltaTable, rows: pa.Table, properties: CommitProperties) -> tuple[int, int]:
        merge = table.merge(
            rows,
            f"t.topic = s.topic AND t.{KEY} = s.{KEY} AND t.broker = s.broker",
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # else files of topics that the rows haven't are read, too
            writer_properties=WriterProperties(
                compression="ZSTD", compression_level=COMPRESSION_LEVEL, max_row_group_size=GROUP_ROWS
            ),
            commit_properties=properties,
        )
        did = merge.when_matched_update_all(later(rows.column_names)).when_not_matched_insert_all().execute()
        return did["num_target_rows_inserted"], did["num_target_rows_updated"]

    def compact(self) -> None:
        """See KeyedRows."""
        compact(self.path, FILE_BYTES)
