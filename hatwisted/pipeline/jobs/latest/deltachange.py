"""One merge into a keyed Delta table: which files change, their new ones, and the commit.

Small files that are written again become one, up to `FILE_BYTES`, so that a table that is merged into often has
few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError, DeltaError

from hatwisted.pipeline.delta.compaction import Version, grouped
from hatwisted.pipeline.delta.datafiles import DataFile, DataFiles
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.fileswap import OldFile, swap_files
from hatwisted.pipeline.delta.names import BY_VERSION
from hatwisted.pipeline.delta.orphans import remove_unmentioned
from hatwisted.pipeline.jobs.latest.keymatches import KeyMatches
from hatwisted.pipeline.jobs.latest.lastrows import KEY
from hatwisted.pipeline.jobs.latest.mergednotes import BATCH_ROWS, FILE_BYTES


class DeltaChange:
    """`write`, then `commit`, or `remove`.

    - version: of the table, as it was opened
    - rows: the last ones of their keys
    """

    def __init__(self, version: Version, rows: pa.Table) -> None:
        self._version = version
        self._rows = rows
        self._schema = pa.schema(version.table.schema().to_arrow())
        self._old: list[dict[str, Any]] = []
        self.matches = KeyMatches(rows)
        self.new: list[DataFile] = []

    def write(self) -> None:
        """The new files, whole, which no version mentions yet. What goes wrong leaves none. If one is gone, which
        happens only once another commit has come, raises CommitFailedError."""
        self._find()
        try:
            self._write()
        except BaseException:
            self.remove()
            raise

    def commit(self, note: Mapping[str, Any]) -> int:
        """Right after the version that was looked at: the table's new one. Raises CommitFailedError if another
        commit came between.

        - note: what the commit says of itself
        """
        table = self._version.table
        old = [OldFile(unquote(file["path"]), file["size_bytes"], file["partition"]) for file in self._old]
        swap_files(table, self.new, old, data_change=True, note=note)
        return table.version()

    def remove(self) -> None:
        """The new files, unless a version mentions them."""
        with suppress(DeltaError, OSError, WrongTable):  # else they stay: who knows what became of the commit
            remove_unmentioned(self._version.path, [file.path for file in self.new])

    # ---- which

    def _find(self) -> None:
        if not len(self._rows):
            return
        for file in self._candidates():
            if sum(self.matches.look(rows) for rows in self._read(file, self.matches.columns)):
                self._old.append(file)

    def _candidates(self) -> Iterator[dict[str, Any]]:
        """The files that may have the rows' keys."""
        topics = set(pc.unique(self._rows.column("topic").cast(pa.string())).to_pylist())
        keys = pc.min_max(self._rows.column(KEY).cast(pa.string())).as_py()
        for file in self._version.files:
            low, high = ((file.get(name) or {}).get(KEY) for name in ("min", "max"))
            outside = (low is not None and low > keys["max"]) or (high is not None and high < keys["min"])
            if file["partition"]["topic"] in topics and not outside:
                yield file

    def _read(self, file: Mapping[str, Any], columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        part, schema = self._version.parts[unquote(file["path"])], self._version.rows.schema
        more: dict[str, Any] = {} if columns is None else {"columns": list(columns)}
        try:
            # No batch is read ahead: sixteen are by default.
            batches = part.to_batches(schema=schema, batch_size=BATCH_ROWS, batch_readahead=1, **more)
            for batch in batches:
                yield pa.Table.from_batches([batch])
        except FileNotFoundError as error:
            raise WrongTable(
                f"{self._version.path}: its file {part.path} has just been removed, as by a vacuum; try again"
            ) from error

    # ---- new ones

    def _write(self) -> None:
        groups = list(grouped(self._old, FILE_BYTES))
        for group in groups[:-1]:
            self.new += self._written(group, [])
        news = self.matches.news
        if groups or len(news):
            self.new += self._written(groups[-1] if groups else [], [self._whole(news)])

    def _written(self, group: Sequence[Mapping[str, Any]], more: Sequence[pa.Table]) -> list[DataFile]:
        columns, number = self._version.table.metadata().partition_columns, self._version.table.version()
        files = DataFiles(self._version.path, self._schema, columns, writer=BY_VERSION, epoch=number)
        try:
            for rows in chain(chain.from_iterable(map(self._kept, group)), more):
                for batch in rows.to_batches():
                    files.write(batch)
            return files.close()
        except (
            FileNotFoundError
        ) as error:  # whoever has committed since took it for what a killed run has left
            files.abandon()
            raise CommitFailedError(f"{error.filename} is gone: another commit has come meanwhile") from error
        except BaseException:
            files.abandon()
            raise

    def _kept(self, file: Mapping[str, Any]) -> Iterator[pa.Table]:
        for rows in self._read(file):
            yield rows.filter(pa.array(~self.matches.replaced(rows)))

    def _whole(self, rows: pa.Table) -> pa.Table:
        """With null for the table's columns that they lack."""
        for item in self._schema:
            if item.name not in rows.column_names:
                rows = rows.append_column(item.name, pa.nulls(len(rows), item.type))
        return rows
