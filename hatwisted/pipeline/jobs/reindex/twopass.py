"""The two passes of a rebuild: reading the log, then writing queues and index from what that put aside."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from os.path import isdir, join
from typing import Final

from hatwisted.logcodec.queueentry import ENTRY_SIZE, count_in_use, place
from hatwisted.logcodec.queueruns import QueueName
from hatwisted.pipeline.jobs.logbytes import StoreBytes
from hatwisted.pipeline.jobs.reindex.indexfiles import IndexWork, plan_index, write_index
from hatwisted.pipeline.jobs.reindex.queuefiles import QueueWork, is_folder_name, write_queue
from hatwisted.pipeline.jobs.reindex.queueplan import plan_queue
from hatwisted.pipeline.jobs.reindex.spool import SpooledPart, SpooledRun, SpoolOptions, spool_part
from hatwisted.pipeline.jobs.storecopy import StoreCopy
from hatwisted.pipeline.jobs.workertasks import Progress, Tasks
from hatwisted.store.disk.filesystem import PosixFileSystem

QUEUES: Final = "consumequeue"
INDEX: Final = "index"
SPOOL: Final = "spool"
"""Folder of what the first pass puts aside; gone when the second is done."""

GROUPS_PER_CORE: Final = 4
"""Tasks among which the queues are dealt, times what runs at once: some more, so that they end together."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Bytes of a queue file; slots and items of an index file."""

    queue_file_size: int
    slots: int
    items: int


@dataclass(frozen=True, slots=True)
class Built:
    """What was written, see ReindexResult."""

    queues: int
    entries: int
    blanks: int
    refused: int
    carried_over: int
    index_files: int
    index_items: int


class Rebuild:
    """One rebuild from the log of `copy`, into an empty folder that all workers reach by the same path."""

    def __init__(
        self,
        tasks: Tasks,
        copy: StoreCopy,
        shape: Shape,
        folder: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._copy = copy
        self._shape = shape
        self._folder = folder
        self._spool = join(folder, SPOOL)

    # -- first pass ------------------------------------------------------------------------------------------

    def read(self, options: SpoolOptions, split_bytes: int, progress: Progress | None) -> list[SpooledPart]:
        """Read the whole log, in parts of `split_bytes`."""
        os.makedirs(self._spool)
        begin, end = self._copy.min_offset, self._copy.end
        starts = [begin, *range(begin - begin % split_bytes + split_bytes, end, split_bytes)]
        cuts = list(zip(starts, [*starts[1:], end], strict=True)) if begin < end else []
        read = partial(_read_part, self._copy, self._spool, options)
        return self._tasks.run(list(enumerate(cuts)), read, progress, end - begin)

    # -- second pass -----------------------------------------------------------------------------------------

    def build(self, parts: Sequence[SpooledPart], old_queues: str) -> Built:
        """Write all files. old_queues: the store's present queues, from which those are taken over that the
        log has no records of any more."""
        works, refused = self._plan_queues(parts)
        os.makedirs(join(self._folder, QUEUES))
        groups = _dealt(works, GROUPS_PER_CORE * self._tasks.parallelism)
        write = partial(_write_queues, join(self._folder, QUEUES), self._spool, self._shape.queue_file_size)
        self._tasks.run(groups, write)
        carried = self._carry_over(old_queues, {work.queue for work in works})
        index = self._build_index([part.items for part in parts])
        shutil.rmtree(self._spool)
        ranges = [each for work in works for each in work.plan.ranges]
        return Built(
            queues=len(works) + carried,
            entries=sum(work.plan.entries for work in works),
            blanks=sum(each.count for each in ranges if each.run < 0),
            refused=refused,
            carried_over=carried,
            index_files=len(index),
            index_items=sum(work.count for work in index),
        )

    def _plan_queues(self, parts: Sequence[SpooledPart]) -> tuple[list[QueueWork], int]:
        """What to write, and how many records get no entry."""
        runs: dict[QueueName, list[SpooledRun]] = {}
        for part in parts:
            for queue, found in part.queues.items():
                runs.setdefault(queue, []).extend(found)
        works, refused = [], 0
        for queue, found in sorted(runs.items()):
            if not is_folder_name(queue):
                refused += sum(each.run.count for each in found)
                continue
            plan = plan_queue([each.run for each in found], self._shape.queue_file_size)
            refused += plan.refused
            if plan.ranges:
                works.append(QueueWork(queue, plan, tuple(found)))
        return works, refused

    def _build_index(self, counts: Sequence[int]) -> list[IndexWork]:
        works = plan_index(self._spool, counts, self._shape.items, self._clock())
        if works:
            folder = join(self._folder, INDEX)
            os.makedirs(folder)
            build = partial(
                _write_index, folder, self._spool, tuple(counts), self._shape.slots, self._shape.items
            )
            self._tasks.run(works, build)
        return works

    def _carry_over(self, old_queues: str, built: set[QueueName]) -> int:
        """Copy the queues whose records have all expired; how many there are."""
        carried = 0
        for topic, queue_id in _queue_names(old_queues):
            folder = join(old_queues, topic, str(queue_id))
            if (topic, queue_id) not in built and self._has_expired(folder):
                shutil.copytree(folder, join(self._folder, QUEUES, topic, str(queue_id)))
                carried += 1
        return carried

    def _has_expired(self, folder: str) -> bool:
        """Does the last entry of a queue name a record below the log's begin?"""
        names = sorted(name for name in os.listdir(folder) if name.isdigit())
        for name in reversed(names):
            data = PosixFileSystem().read(join(folder, name))
            count, _ = count_in_use(data, 0)
            if count:
                return place(data[(count - 1) * ENTRY_SIZE : count * ENTRY_SIZE])[0] < self._copy.min_offset
        return False


def _read_part(
    copy: StoreCopy, spool: str, options: SpoolOptions, work: tuple[int, tuple[int, int]]
) -> SpooledPart:
    """A task of the first pass."""
    part, cuts = work
    with closing(StoreBytes(copy.files)) as log:
        return spool_part(log, part, cuts, copy.end, spool, options)


def _write_queues(root: str, spool: str, file_size: int, works: Sequence[QueueWork]) -> None:
    """A task of the second pass: some queues."""
    for work in works:
        write_queue(work, root, spool, file_size)
    PosixFileSystem().sync_all(root)


def _write_index(
    folder: str, spool: str, counts: Sequence[int], slots: int, items: int, work: IndexWork
) -> None:
    """A task of the second pass: an index file."""
    write_index(work, folder, spool, counts, slots, items)


def _dealt(works: Sequence[QueueWork], groups: int) -> list[list[QueueWork]]:
    """The queues in at most so many groups of about the same number of entries."""
    ordered = sorted(works, key=lambda work: -work.plan.entries)
    return [list(ordered[first::groups]) for first in range(min(groups, len(ordered)))]


def _queue_names(root: str) -> Iterator[QueueName]:
    """The queues that have a folder under `root`."""
    for topic in sorted(os.listdir(root)) if isdir(root) else ():
        if isdir(join(root, topic)):
            yield from (
                (topic, int(name)) for name in sorted(os.listdir(join(root, topic))) if name.isdigit()
            )
