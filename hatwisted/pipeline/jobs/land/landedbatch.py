"""What both runs of the engine `local` ask of a table, whatever they land there: stores (locallanding.py) or
topics of a cluster (clusterlanding.py)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import pyarrow as pa

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.queuetails import QueueTails


class Batch(Protocol):
    """Rows of one commit to be, in files that nobody mentions yet."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Rows with their date; of one broker or queue, which follow those before them there."""

    def commit(self, queues: QueueTails | None = None) -> bool:
        """The rows into the table, all of them or none; False without rows: nothing happened.

        - queues: where the rows' queues end, if a cluster is landed
        """

    def drop(self) -> None:
        """It failed, or its commit did: remove its files, but for those that the table may have."""


class ClaimedTable(Protocol):
    """A table, and the claim of the brokers that are landed there."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the log that are read for it."""

    @property
    def brokers(self) -> Collection[str]:
        """Those that are claimed."""

    def batch(self) -> Batch:
        """A new one, after all that is committed."""

    def upkeep(self) -> Compaction:
        """Merge small files."""
