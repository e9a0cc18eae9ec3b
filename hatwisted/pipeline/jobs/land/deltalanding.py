"""A Delta table as the engine `local` lands into it: decoder, files and commits are those of the engine
`spark`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.delta.commits import Claim, claim, note_queues, widened
from hatwisted.pipeline.delta.compaction import FAILURES, Compaction
from hatwisted.pipeline.delta.deadletters import dead_letter_table
from hatwisted.pipeline.delta.deltatable import is_table
from hatwisted.pipeline.delta.landedfiles import (
    LandedFiles,
    WrittenFiles,
    columns_to_read,
    commit_next,
    compact_landed,
    landed_files,
    landed_shape,
    remove_files,
)
from hatwisted.pipeline.delta.notes import Notes
from hatwisted.pipeline.delta.orphans import remove_orphans
from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.delta.tails import Tail, landed_tails
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.land.landingstate import LandingState
from hatwisted.pipeline.jobs.land.landingtask import LandingTask
from hatwisted.pipeline.jobs.land.landoptions import LandOptions
from hatwisted.pipeline.jobs.land.logsplits import is_lossy


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

    def look(self) -> Notes:
        """Of the table as it is. If an earlier version was restored, the brokers are claimed once more: rows are
        read anew from there."""
        notes = Notes(self.path)
        if not notes.was_taken_back(self.state.application, self.held.note):
            return notes
        self.held = claim(self.path, self.held.writer, self.held.by_queue, held=self.held)
        return Notes(self.path)

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
    """See LandedTable and TaskedTable. source: the stores."""

    source: Stores

    @property
    def name(self) -> str:
        """See TaskedTable."""
        return self.path

    def task(self) -> Callable[[Split], WrittenFiles]:
        """See TaskedTable. The tables are made or widened for it."""
        shape, held = landed_shape(self.path, self.how.columns, self.how.schemas), self.held
        return LandingTask(shape, held.writer.digest, held.epoch, self.columns, is_lossy(self.source)).run

    def add(self, parts: Sequence[WrittenFiles]) -> None:
        """See TaskedTable."""
        whole = WrittenFiles()
        for part in parts:
            whole += part
        try:
            commit_next(self.path, whole, application=self.state.application, held=self.held)
        except BaseException:
            whole.remove(self.path)
            raise

    def clean(self) -> None:
        """See TaskedTable."""
        path, later = self.path, replace(self.held, epoch=self.held.epoch + 1)
        beside = dead_letter_table(path)
        with suppress(*FAILURES):  # the next landing does it, and why this one failed is what counts
            for table in (path, beside) if is_table(beside) else (path,):
                remove_orphans(table, later)

    def tails(self) -> dict[str, Tail]:
        """See LandedTable."""
        self.widen(self.source.writer().brokers)
        return landed_tails(self.path, self.held.writer.brokers, self.look())


@dataclass
class DeltaQueues(_ClaimedDelta):
    """See QueueTable."""

    def tails(self) -> QueueTails:
        """See QueueTable."""
        self.look()
        return note_queues(self.path, self.held)

    def former(self) -> Collection[str]:
        """See QueueTable."""
        notes, ours = Notes(self.path), self.state.application
        if notes.table.transaction_version(ours) is None:
            return ()
        mine = (note for note in notes if note.get("application") == ours)
        brokers: list[str] = next(mine, {}).get("brokers", [])
        return brokers
