"""A change of an Iceberg table that is committed on top of the snapshot it was made for, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Transaction

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate


class OnceTransaction(Transaction):
    """A transaction that is committed on top of the snapshot it was made for, or not at all."""

    _copied: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table as it will be. pyiceberg asks for it fifteen times a commit, and would copy all snapshots and
        schemas each time: one copy is enough until something is changed."""
        if (
            self._copied is None
            or self._copied[0] is not self._table.metadata
            or self._copied[1] is not self._updates
        ):
            self._copied = self._table.metadata, self._updates, super().table_metadata
        return self._copied[2]

    def _rebuild_snapshot_updates(self) -> None:
        raise CommitFailedException("another commit came between")
