"""One commit that swaps files for others, right after the version that was read: for compactions and merges."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from deltalake import DeltaTable
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from hatwisted.pipeline.delta.datafiles import DataFile


class OldFile(NamedTuple):
    """One that leaves the table. path: within it; size: bytes."""

    path: str
    size: int
    partition: Mapping[str, str | None]


def swap_files(
    table: DeltaTable,
    new: Iterable[DataFile],
    old: Iterable[OldFile],
    *,
    data_change: bool,
    note: Mapping[str, Any] | None = None,
) -> None:
    """Raises CommitFailedError if another commit has come since the table was opened. delta-rs would also take
    one on top of another swap of the same files, whose rows were there twice then.

    - table: open, with the old files
    - new, old: files
    - data_change: are there other rows afterwards?
    - note: what the commit says of itself
    """
    now = int(time.time() * 1000)
    added = [
        AddAction(file.path, file.size, dict(file.partition), file.modified, data_change, file.stats)
        for file in new
    ]
    removed = [RemoveAction(file.path, data_change, now, file.size, dict(file.partition)) for file in old]
    table.create_write_transaction(
        [*added, *removed],
        "append",
        table.schema(),
        table.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata=None if note is None else dict(note), max_commit_retries=0
        ),
    )
