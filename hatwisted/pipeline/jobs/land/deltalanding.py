"""A Delta table as the engine `local` lands into it: decoder, files and commits are those of the engine
`spark`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from hatwisted.pipeline.delta.commits import Claim, note_queues, widened
from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.deltatable import open_table
from hatwisted.pipeline.delta.landedfiles import (
    LandedFiles,
    Shape,
    WrittenFiles,
    columns_to_read,
    commit_next,
    compact_landed,
    landed_files,
    landed_shape,
    remove_files,
)
from hatwisted.pipeline.delta.queuetails import QueueTails, commit_notes
from hatwisted.pipeline.delta.tails import Tail, landed_tails
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.land.landingstate import LandingState
from hatwisted.pipeline.jobs.land.landoptions import LandOptions


@dataclass
class _ClaimedDelta:
    """See ClaimedTable.

    - path: of the table
    - state: what the landing is called in the table
    - held: the claim of the brokers
    - how: options
    """

    path: str
    state: LandingState
    held: Claim
    how: LandOptions

    @property
    def columns(self) -> tuple[str, ...]:
        """See ClaimedTable."""
        return columns_to_read(self.how.columns, self.how.schemas)

    @property
    def brokers(self) -> Collection[str]:
        """See ClaimedTable."""
        return self.held.writer.brokers

    def widen(self, brokers: Collection[str]) -> bool:
        """Claim these brokers as well; False if they all are."""
        before, self.held = self.held, widened(self.path, self.held, brokers)
        return before != self.held

    def batch(self) -> DeltaBatch:
        """See ClaimedTable."""
        return DeltaBatch(self, landed_files(self.path, self.held, self.how.columns, self.how.schemas))

    def upkeep(self) -> Compaction:
        """See ClaimedTable."""
        return compact_landed(self.path, self.how.compact_below, self.held, self.how.vacuum)


@dataclass
class DeltaBatch:
    """See Batch.

    - landing: which
    - files: new ones
    """

    landing: _ClaimedDelta
    files: LandedFiles

    def write(self, rows: pa.RecordBatch) -> None:
        """See Batch."""
        self.files.write(rows)

    def commit(self, queues: QueueTails | None = None) -> bool:
        """See Batch."""
        written, into = self.files.close(), self.landing
        if not written.files:
            return False
        application = into.state.application
        commit_next(into.path, written, application=application, held=into.held, queues=queues)
        return True

    def drop(self) -> None:
        """See Batch: the table's log says which those are, whatever became of the answer."""
        remove_files(self.landing.path, *self.files.drop())


@dataclass
class DeltaLanding(_ClaimedDelta):
    """See LandedTable. source: the stores."""

    source: Stores

    def shape(self) -> Shape:
        """What a task writes; the tables are made or widened for it."""
        return landed_shape(self.path, self.how.columns, self.how.schemas)

    def commit(self, written: WrittenFiles) -> None:
        """Files of tasks, all of them or none."""
        commit_next(self.path, written, application=self.state.application, held=self.held)

    def tails(self) -> dict[str, Tail]:
        """See LandedTable."""
        self.widen(self.source.writer().brokers)
        return landed_tails(self.path, self.held.writer.brokers)


@dataclass
class DeltaQueues(_ClaimedDelta):
    """See QueueTable."""

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
