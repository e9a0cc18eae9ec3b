"""The table that has a key's last messages: what it's of, and up to where it is merged.

What it's of (which landed table, key and topics) is a property of the table, so it outlives every commit's text.
Up to where it is merged stands in the text of the commit that merged the last rows: both happen, or neither.
Once that text has expired, all is merged again, which changes nothing.

The landed table's version alone wouldn't say what was merged: put back from a backup, a table comes to the same
number again with other files. So the note has a digest of the files' names, too, which are never used twice.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
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

PARTITION_BY: Final = ("topic",)
PROPERTY: Final = "hatwisted.latest"
"""The table's property that says what it's of, in JSON."""
MERGED: Final = "latest"
"""Within a commit's note: up to where the table is merged."""
FILE_BYTES: Final = 64 << 20
"""Small files are merged into files of this size; a merge writes a file again for one key that has changed."""
GROUP_ROWS: Final = 65_536
"""Rows that Parquet's writer holds until they are written."""


@dataclass(frozen=True)
class Merged:
    """A version of the landed table, all of which is merged. files: digest of its files' names."""

    version: int
    files: str

    @classmethod
    def of(cls, version: int, files: Collection[str]) -> Merged:
        return cls(version, sha256("\n".join(sorted(files)).encode()).hexdigest())


@dataclass
class KeyedTable:
    """One keyed table. path: its; what: it's of."""

    path: str
    what: Mapping[str, Any]
    _seen: int = -1
    """The version that this run knows it by."""

    def prepare(self, columns: pa.Schema) -> pa.Schema:
        """Make the table, or widen it so that the rows fit; returns the rows' columns with its types. Raises
        WrongTable if it's of something else, or no keyed table at all.

        - columns: of the rows
        """
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
                    {PROPERTY: json.dumps(self.what, sort_keys=True)}, raise_if_not_exists=False
                )
            except CommitFailedError as error:
                refusal = error
        raise WrongTable(f"{self.path}: can't be made: {refusal}; try again when fewer writers are active")

    def _check(self, table: DeltaTable) -> bool:
        """Does it say what it's of? An empty one needn't."""
        found = table.metadata().configuration.get(PROPERTY)
        if found is None:
            if table.file_uris():
                raise WrongTable(
                    f"{self.path}: holds rows that aren't the last messages of a table; give a new folder"
                )
            return False
        there = _parsed(found)
        if there != self.what:
            raise WrongTable(
                f"{self.path}: has the last messages of another table, or by another key or of other topics"
                f" (key {there.get('key')}, topics {', '.join(there.get('topics') or ()) or 'all'});"
                " give the same, or a new folder"
            )
        return True

    def merged(self) -> Merged | None:
        """Up to where it is; None: its commits don't say."""
        table = open_table(self.path)
        self._seen = table.version()
        for note in commit_notes(table):
            if MERGED in note:
                return Merged(**note[MERGED])
        return None

    def merge(self, rows: pa.Table, reached: Merged | None) -> tuple[int, int]:
        """Keys that are new, and that have another message now.

        - rows: the last of each key
        - reached: what is merged with them; None: there's more to come
        """
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
        note = {} if reached is None else {MERGED: {"version": reached.version, "files": reached.files}}
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
        """Its small files into bigger ones, where that pays."""
        compact(self.path, FILE_BYTES)


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
