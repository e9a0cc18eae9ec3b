"""The engine `spark` for stores: the rounds of the engine `local`, with a task for each piece of a log.

Tasks read, decode and write whole files; this process plans them and commits what they have written. Claim, order,
tails and commits are those of the engine `local` (locallanding.py): there is no checkpoint either, and the two
share what is kept beside the table. A streaming query was rejected where it isn't needed: its first trigger takes
Spark's planner and a dozen Python processes, 11 s where this takes 3, and a checkpoint is a second account of what
has landed. Transformations, clusters, and options that are a stream's take it (sparklanding.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.fulldisk import no_room
from hatwisted.pipeline.jobs.land.landingrounds import land_in_rounds
from hatwisted.pipeline.jobs.land.landingsources import LandingSource, Stores
from hatwisted.pipeline.jobs.land.landoptions import TASKS, LandOptions, Progress, tell
from hatwisted.pipeline.jobs.land.locallanding import LandedTable, unsupported
from hatwisted.pipeline.jobs.land.logsplits import batches, log_splits, size_of
from hatwisted.pipeline.jobs.workertasks import Tasks

NO_SPACE: Final = "No space left on device"
"""What Java says of a full disk."""
Written = TypeVar("Written")
"""What a task hands over: small, as it's pickled."""


def is_tasked(source: LandingSource, how: LandOptions) -> bool:
    """Does it need no stream?

    - source: what is landed
    - how: options
    """
    return isinstance(source, Stores) and unsupported(source, replace(how, partitions=None)) is None


class TaskedTable(LandedTable, Protocol[Written]):
    """A table into which tasks land stores: a Delta table (deltalanding.py) or an Iceberg table
    (icebergbatches.py)."""

    @property
    def name(self) -> str:
        """The table's, for errors."""

    def task(self) -> Callable[[Split], Written]:
        """What tasks of the next batch do with a piece of a log: whole files that nobody mentions yet, or an error
        and none."""

    def add(self, parts: Sequence[Written]) -> None:
        """What the tasks of a batch wrote into the table, all of it or none; nothing happens without rows."""

    def clean(self) -> None:
        """Remove the files of tasks that had ended before another one of their batch failed: nobody says which
        those are, but for their names."""


@dataclass
class TaskedLanding(Generic[Written]):
    """One run.

    - table: where it lands
    - source: the stores
    - how: options
    - tasks: makes what the tasks run in, once there's something to land
    - progress: called with (bytes done, bytes in all)
    - seconds: the clock
    """

    table: TaskedTable[Written]
    source: Stores
    how: LandOptions
    tasks: Callable[[], Tasks]
    progress: Progress
    seconds: Callable[[], float]

    def run(self, stop: threading.Event) -> tuple[Compaction, bool]:
        """(what was compacted, whether it was stopped before its end)."""
        return land_in_rounds(self.how, partial(self._land, stop), self.table.upkeep, stop, self.seconds)

    def _land(self, stop: threading.Event) -> None:
        """All that there is now, or what there's time for before the stop."""
        tails = self.table.tails()
        # Each time, every store has to be the log of which the table has rows: its folder may be another one's.
        self.source.check(tails)
        total, done = self.source.backlog(tails), 0
        if not total:
            return
        tasks, most = self.tasks(), self.how.max_bytes_per_trigger
        size = min(self.source.split_bytes(most, self.how.partitions, tasks.parallelism), most)
        begins = {broker: tail.end for broker, tail in tails.items()}
        for splits in batches(log_splits(self.source, self.table.brokers, begins, size), most):
            self._land_batch(tasks, splits, partial(self._tell, done, total))
            done += size_of(splits)
            if stop.is_set():
                return

    def _land_batch(self, tasks: Tasks, splits: Sequence[Split], progress: Progress) -> None:
        task, name = self.table.task(), self.table.name
        tell(self.progress, TASKS)
        try:
            written = tasks.run(splits, task, progress, size_of(splits))
        except BaseException as error:
            self.table.clean()
            if NO_SPACE in str(error) or str(error) == str(no_room(name)):
                raise no_room(name) from error
            raise
        self.table.add(written)

    def _tell(self, before: int, total: int, done: int, of: int) -> None:
        self.progress(min(before + done, total), total)
