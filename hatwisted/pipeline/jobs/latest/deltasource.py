"""A landed Delta table as rows to merge come from it: the files of its newest version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as pads
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hatwisted.pipeline.delta.deltatable import is_table, open_table, table_rows
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.jobs.latest.mergednotes import BATCH_ROWS, Merged


class DeltaSource:
    """Its newest version. path: of the table; topics: only these; none: all."""

    def __init__(self, path: str, topics: tuple[str, ...]) -> None:
        if not is_table(path):
            raise WrongTable(f"{path}: there's no table; give the folder of a landed one")
        self._path = path
        self._table = open_table(path)
        self._rows = table_rows(self._table, path)
        self._sizes = _sizes(self._table)
        self.topics = topics
        self.columns = self._rows.schema
        self.version: int = self._table.version()
        self.id = str(self._table.metadata().id)

    def reached(self) -> Merged:
        """See LandedSource."""
        return Merged.of(self.version, self._sizes)

    def files_since(self, merged: Merged | None) -> list[tuple[Any, int]]:
        """See LandedSource."""
        known = self._known(merged)
        chosen = pads.field("topic").cast(pa.string()).isin(pa.array(self.topics, pa.string()))
        fragments = self._rows.get_fragments(filter=chosen if self.topics else None)
        return [(each, self._sizes.get(each.path, 0)) for each in fragments if each.path not in known]

    def rows(self, file: Any) -> Iterator[pa.Table]:
        """See LandedSource."""
        try:
            # No batch is read ahead: sixteen are by default, each of as many bytes as a merge takes.
            for batch in file.to_batches(schema=self.columns, batch_size=BATCH_ROWS, batch_readahead=1):
                yield pa.Table.from_batches([batch])
        except FileNotFoundError:
            raise WrongTable(
                f"{self._path}: its file {file.path} has just been removed, as by a vacuum; try again"
            ) from None

    def _known(self, merged: Merged | None) -> dict[str, int]:
        if merged is None:
            return {}
        try:
            found = _sizes(DeltaTable(self._path, version=merged.version))
        except (DeltaError, OSError):
            return {}  # that version's log has expired: all again, which changes nothing of what is there
        return found if Merged.of(merged.version, found) == merged else {}


def _sizes(table: DeltaTable) -> dict[str, int]:
    """Bytes of a version's files by their paths."""
    found = pa.table(table.get_add_actions())
    paths = map(unquote, found.column("path").to_pylist())
    return dict(zip(paths, found.column("size_bytes").to_pylist(), strict=True))
