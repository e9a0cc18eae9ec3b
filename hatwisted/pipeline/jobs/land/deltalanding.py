"""A Delta table as the engine `local` lands into it: decoder, files and commits are those of the engine
`spark`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.delta.commits import Claim, note_queues, widened
from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.deltatable import open_table
from hatwisted.pipeline.delta.landedfiles import (
    LandedFiles,
    columns_to_read,
    commit_next,
    compact_landed,
    landed_files,
    remove_files,
)
from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.delta.queuetails import QueueTails, commit_notes, last_of_queues
from hatwisted.pipeline.delta.tails import Tail, landed_tails
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.land.landingstate import LandingState
from hatwisted.pipeline.jobs.land.landoptions import LandOptions


@dataclass
class DeltaLanding:
    """See LandedTable.

    - path: of the table
    - source: the stores
    - state: what the landing is called in the table
    - held: the claim of their brokers
    - how: options
    """

    path: str
    source: Stores
    state: LandingState
    held: Claim
    how: LandOptions

    @property
    def columns(self) -> tuple[str, ...]:
        """See LandedTable."""
        return columns_to_read(self.how.columns, self.how.schemas)

    @property
    def brokers(self) -> Collection[str]:
        """See LandedTable."""
        return self.held.writer.brokers

    def tails(self) -> dict[str, Tail]:
        """See LandedTable."""
        self.held = widened(self.path, self.held, self.source.writer().brokers)
        return landed_tails(self.path, self.held.writer.brokers)

    def batch(self) -> DeltaBatch:
        """See LandedTable."""
        return DeltaBatch(self, landed_files(self.path, self.held, self.how.columns, self.how.schemas))

    def upkeep(self) -> Compaction:
        """See LandedTable."""
        return compact_landed(self.path, self.how.compact_below, self.held)


@dataclass
class DeltaBatch:
    """See Batch.

    - landing: which
    - files: new ones
    """

    landing: DeltaLanding
    files: LandedFiles

    def write(self, rows: pa.RecordBatch) -> None:
        """See Batch."""
        self.files.write(rows)

    def commit(self) -> None:
        """See Batch."""
        landing = self.landing
        commit_next(
            landing.path, self.files.close(), application=landing.state.application, held=landing.held
        )

    def drop(self) -> None:
        """See Batch: the table's log says which those are, whatever became of the answer."""
        remove_files(self.landing.path, *self.files.drop())


@dataclass
class DeltaQueues:
    """See QueueTable.

    - path: of the table
    - state: what the landing is called in the table
    - held: the claim of the brokers, by queue
    - how: options
    """

    path: str
    state: LandingState
    held: Claim
    how: LandOptions

    @property
    def columns(self) -> tuple[str, ...]:
        """See QueueTable."""
        return columns_to_read(self.how.columns, self.how.schemas)

    @property
    def brokers(self) -> Collection[str]:
        """See QueueTable."""
        return self.held.writer.brokers

    def widen(self, brokers: Collection[str]) -> bool:
        """See QueueTable."""
        before, self.held = self.held, widened(self.path, self.held, brokers)
        return before != self.held

    def tails(self) -> QueueTails:
        """See QueueTable."""
        return note_queues(self.path, self.held)

    def former(self) -> Collection[str]:
        """See QueueTable."""
        table, ours = open_table(self.path), self.state.application
        if table.transaction_version(ours) is None:
            return ()
        notes = (note for note in commit_notes(table) if note.get("application") == ours)
        brokers: list[str] = next(notes, {}).get("brokers", [])
        return brokers

    def batch(self) -> DeltaQueueBatch:
        """See QueueTable."""
        return DeltaQueueBatch(self, landed_files(self.path, self.held, self.how.columns, self.how.schemas))

    def upkeep(self) -> Compaction:
        """See QueueTable."""
        return compact_landed(self.path, self.how.compact_below, self.held)


@dataclass
class DeltaQueueBatch:
    """See QueueBatch.

    - landing: which
    - files: new ones
    """

    landing: DeltaQueues
    files: LandedFiles
    size: int = 0
    tails: QueueTails = field(default_factory=dict)

    def write(self, rows: pa.RecordBatch) -> int:
        """See QueueBatch."""
        self.files.write(with_store_date(rows))
        self.tails |= last_of_queues(rows)
        size: int = pc.sum(rows.column("size")).as_py() or 0
        self.size += size
        return size

    def commit(self) -> bool:
        """See QueueBatch."""
        written, into = self.files.close(), self.landing
        if not written.files:
            return False
        application = into.state.application
        commit_next(into.path, written, application=application, held=into.held, queues=self.tails)
        return True

    def drop(self) -> None:
        """See QueueBatch: what a commit mentions stays, whatever became of the answer."""
        remove_files(self.landing.path, *self.files.drop())
