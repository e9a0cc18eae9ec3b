"""The engine `spark` for stores: the rounds of the engine `local`, with a task for each piece of a log.

Tasks read, decode and write whole files; this process plans them and commits what they have written. Claim, order,
tails and commits are those of the engine `local` (locallanding.py): there is no checkpoint either, and the two
share what is kept beside the table. A streaming query was rejected where it isn't needed: its first trigger takes
Spark's planner and a dozen Python processes, 11 s where this takes 3, and a checkpoint is a second account of what
has landed. Transformations, clusters, and options that are a stream's take it (sparklanding.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.delta.compaction import FAILURES, Compaction
from hatwisted.pipeline.delta.deadletters import dead_letter_table
from hatwisted.pipeline.delta.deltatable import is_table
from hatwisted.pipeline.delta.fulldisk import no_room
from hatwisted.pipeline.delta.landedfiles import WrittenFiles
from hatwisted.pipeline.delta.orphans import remove_orphans
from hatwisted.pipeline.jobs.land.deltalanding import DeltaLanding
from hatwisted.pipeline.jobs.land.landingrounds import land_in_rounds
from hatwisted.pipeline.jobs.land.landingsources import LandingSource, Stores
from hatwisted.pipeline.jobs.land.landingtask import LandingTask
from hatwisted.pipeline.jobs.land.landoptions import TASKS, LandOptions, Progress, tell
from hatwisted.pipeline.jobs.land.locallanding import unsupported
from hatwisted.pipeline.jobs.land.logsplits import is_lossy, log_splits
from hatwisted.pipeline.jobs.workertasks import Tasks

NO_SPACE: Final = "No space left on device"
"""What Java says of a full disk."""


def is_tasked(source: LandingSource, how: LandOptions) -> bool:
    """Does it need no stream?

    - source: what is landed
    - how: options
    """
    return isinstance(source, Stores) and unsupported(source, replace(how, partitions=None)) is None


@dataclass
class TaskedLanding:
    """One run.

    - table: where it lands
    - source: the stores
    - how: options
    - tasks: makes what the tasks run in, once there's something to land
    - progress: called with (bytes done, bytes in all)
    - seconds: the clock
    """

    table: DeltaLanding
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
        for splits in _batches(log_splits(self.source, self.table.brokers, begins, size), most):
            self._land_batch(tasks, splits, partial(self._tell, done, total))
            done += _bytes(splits)
            if stop.is_set():
                return

    def _land_batch(self, tasks: Tasks, splits: Sequence[Split], progress: Progress) -> None:
        held, written = self.table.held, WrittenFiles()
        tell(self.progress, TASKS)
        task = LandingTask(
            self.table.shape(), held.writer.digest, held.epoch, self.table.columns, is_lossy(self.source)
        )
        try:
            for each in tasks.run(splits, task.run, progress, _bytes(splits)):
                written += each
        except BaseException as error:
            self._remove_unknown()
            if NO_SPACE in str(error) or str(error) == str(no_room(self.table.path)):
                raise no_room(self.table.path) from error
            raise
        try:
            self.table.commit(written)
        except BaseException:
            written.remove(self.table.path)
            raise

    def _remove_unknown(self) -> None:
        """Of tasks that had ended before another one failed nobody says which files they wrote, but for the
        files' names."""
        path, later = self.table.path, replace(self.table.held, epoch=self.table.held.epoch + 1)
        beside = dead_letter_table(path)
        with suppress(*FAILURES):  # the next landing does it, and why this one failed is what counts
            for table in (path, beside) if is_table(beside) else (path,):
                remove_orphans(table, later)

    def _tell(self, before: int, total: int, done: int, of: int) -> None:
        self.progress(min(before + done, total), total)


def _batches(splits: Iterable[Split], most: int) -> Iterator[list[Split]]:
    """Splits that together have about `most` bytes, and at least one."""
    batch: list[Split] = []
    waiting = 0
    for split in splits:
        batch.append(split)
        waiting += _bytes([split])
        if waiting >= most:
            yield batch
            batch, waiting = [], 0
    if batch:
        yield batch


def _bytes(splits: Iterable[Split]) -> int:
    return sum(split.end - split.begin for split in splits)
