"""A keyed Delta table: rows are merged by delta-rs, with one commit right after the version that was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from hatwisted.pipeline.delta.commits import against_others
from hatwisted.pipeline.delta.compaction import FAILURES, Version, compact
from hatwisted.pipeline.delta.deltatable import ATTEMPTS, is_table, open_table, prepare_table
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.notes import NOTE, Notes
from hatwisted.pipeline.delta.orphans import remove_orphans
from hatwisted.pipeline.errors import said
from hatwisted.pipeline.jobs.latest.deltachange import DeltaChange
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

        def attempt(notes: Notes) -> pa.Schema:
            if not self._check(notes.table):
                notes.table.alter.set_table_properties(
                    {PROPERTY: property_text(self.what)},
                    raise_if_not_exists=False,
                    commit_properties=CommitProperties(max_commit_retries=0),  # nobody has put rows into it
                )
            return types

        return against_others(self.path, attempt, "can't be made")

    def _check(self, table: DeltaTable) -> bool:
        found = table.metadata().configuration.get(PROPERTY)
        return check_property(self.path, found, self.what, not table.file_uris())

    def merged(self) -> Merged | None:
        """See KeyedRows."""
        notes = Notes(self.path)
        self._seen = notes.table.version()
        for note in notes:
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
                raise WrongTable(f"{self.path}: can't be merged into: {said(error)}") from error
        raise WrongTable(
            f"{self.path}: no merge after {ATTEMPTS} attempts; try again when fewer writers are active"
        )

    def _merge(self, rows: pa.Table, reached: Merged | None) -> tuple[int, int]:
        version = Version(self.path, open_table(self.path))
        self._check_line(version.table)
        change = DeltaChange(version, rows)
        try:
            change.write()
            if change.new or reached is not None:
                note = {} if reached is None else {MERGED: reached.as_json()}
                self._seen = change.commit({NOTE: note})
        except CommitFailedError:
            change.remove()
            raise
        return change.matches.inserted, change.matches.updated

    def _check_line(self, table: DeltaTable) -> None:
        """Raises WrongTable if it was restored since this run has seen it: rows that were merged may be gone, and
        what is noted with later ones has to be true of all."""
        since = table.version() - self._seen
        if since < 0 or (
            since and any(entry.get("operation") == "RESTORE" for entry in table.history(since))
        ):
            raise WrongTable(f"{self.path}: was restored to an earlier version meanwhile; try again")

    def tidy(self) -> None:
        """See KeyedRows."""
        compact(self.path, FILE_BYTES)
        with suppress(*FAILURES):  # the next one tries again
            remove_orphans(self.path)
