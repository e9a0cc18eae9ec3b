"""The two passes of a rebuild: reading the log, then writing queues and index from what that has spooled.

The first pass is `read_parts`, in parallel tasks, or `read_in_order`, in this process. `Rebuild` is the second.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from os.path import isdir, join
from typing import Final

from hatwisted.logcodec.logwalk import LogWalk, WalkOptions
from hatwisted.logcodec.queueplan import PlannedQueues, plan_queue
from hatwisted.logcodec.queueruns import QueueName, Run
from hatwisted.logcodec.rangedispatch import DispatchOptions, RangeDispatch
from hatwisted.logcodec.window import LogBytes
from hatwisted.pipeline.jobs.locallog import LocalLog
from hatwisted.pipeline.jobs.reindex.indexfiles import IndexWork, plan_index, write_index
from hatwisted.pipeline.jobs.reindex.queuefiles import QueueWork, carry_over, write_queue
from hatwisted.pipeline.jobs.reindex.spool import SpooledPart, SpooledRun, save_part, spool_part
from hatwisted.pipeline.jobs.storecopy import StoreCopy
from hatwisted.pipeline.jobs.workertasks import Progress, Tasks
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.wire.storenames import (
    DELETED_SUFFIX,
    INDEX_FOLDER,
    QUEUE_FOLDER,
    is_queue_name,
    parse_deleted_queue_name,
)

SPOOL: Final = "spool"
"""Folder of what the first pass spools; removed when the second is done."""
SPLIT_BYTES: Final = 64 << 20
"""Bytes of log per part: it holds some 10 MB of entries and items for them."""

GROUPS_PER_CORE: Final = 4
"""Tasks among which the queues are distributed, per task that runs at once: more than one, so that they end
together."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Bytes of a queue file; slots and items of an index file."""

    queue_file_size: int
    slots: int
    items: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """What was written. entries: that name a record; blanks: entries before queues or in gaps; refused: records
    whose queue offset is taken or can't be; carried_over: queues without records in the log."""

    queues: int
    entries: int
    blanks: int
    refused: int
    carried_over: int
    index_files: int
    index_items: int


def deleted_ends(root: str) -> dict[QueueName, int]:
    """Log offsets by queue, below which no record belongs to a queue of this name any more: what the store in
    `root` has of deleted topics."""
    folder = join(root, QUEUE_FOLDER + DELETED_SUFFIX)
    ends: dict[QueueName, int] = {}
    for name in os.listdir(folder) if isdir(folder) else ():
        if (deleted := parse_deleted_queue_name(name)) is not None:
            topic, queue_id, end = deleted
            ends[topic, queue_id] = max(end, ends.get((topic, queue_id), 0))
    return ends


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """dispatch: what becomes of a record; check_crc: of bodies; part_bytes: of log in a part, which are read at
    once."""

    dispatch: DispatchOptions
    check_crc: bool = False
    part_bytes: int = SPLIT_BYTES


def read_parts(
    tasks: Tasks, copy: StoreCopy, folder: str, options: ReadOptions, progress: Progress | None
) -> list[SpooledPart]:
    """The first pass over a whole log, a task for each part.

    - tasks: run them
    - copy: the store
    - folder: see Rebuild
    - options: what becomes of a record
    - progress: called with (bytes read, in all)
    """
    os.makedirs(join(folder, SPOOL))
    begin, end, size = copy.min_offset, copy.end, options.part_bytes
    starts = [begin, *range(begin - begin % size + size, end, size)]
    cuts = list(zip(starts, [*starts[1:], end], strict=True)) if begin < end else []
    read = partial(_read_part, copy, join(folder, SPOOL), options)
    return tasks.run(list(enumerate(cuts)), read, progress, end - begin)


def read_in_order(
    log: LogBytes, begin: int, folder: str, options: ReadOptions, progress: Callable[[int], None]
) -> tuple[list[SpooledPart], LogWalk]:
    """The first pass in this process, to the log's end or to damage; the walk says which.

    - log: which
    - begin: where to start
    - folder: see Rebuild
    - options: what becomes of a record
    - progress: called with the offset reached
    """
    os.makedirs(join(folder, SPOOL))
    ranges: list[Mapping[QueueName, Sequence[Run]]] = []
    how = WalkOptions(evidence=PlannedQueues(ranges), check_crc=options.check_crc)
    walk = LogWalk(log, begin, options=how, progress=progress)
    parts: list[SpooledPart] = []
    dispatch = RangeDispatch(options.dispatch)
    ranges.append(dispatch.runs)
    for records in walk:
        if walk.damages:
            break
        dispatch.add(records)
        if walk.at >= begin + options.part_bytes:
            parts.append(save_part(dispatch, len(parts), join(folder, SPOOL)))
            dispatch, begin = RangeDispatch(options.dispatch), walk.at
            ranges.append(dispatch.runs)
    parts.append(save_part(dispatch, len(parts), join(folder, SPOOL)))
    return parts, walk


class Rebuild:
    """The second pass.

    - tasks: run it
    - folder: which all workers reach by the same path
    - shape: sizes of the files
    - old_queues: the store's present queues, of which those are carried over that have no records in the log
      any more
    - log_begin: the log's first offset
    - clock: seconds since the epoch
    """

    def __init__(
        self,
        tasks: Tasks,
        folder: str,
        shape: Shape,
        old_queues: str,
        log_begin: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._shape = shape
        self._folder = folder
        self._spool = join(folder, SPOOL)
        self._old_queues = old_queues
        self._log_begin = log_begin

    def build(self, parts: Sequence[SpooledPart]) -> Built:
        """Write all files."""
        works, refused = self._plan_queues(parts)
        os.makedirs(join(self._folder, QUEUE_FOLDER))
        groups = _dealt(works, GROUPS_PER_CORE * self._tasks.parallelism)
        write = partial(
            _write_queues, join(self._folder, QUEUE_FOLDER), self._spool, self._shape.queue_file_size
        )
        self._tasks.run(groups, write)
        carried = self._carry_over({work.queue for work in works})
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
            if not is_queue_name(*queue):
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
            folder = join(self._folder, INDEX_FOLDER)
            os.makedirs(folder)
            build = partial(
                _write_index, folder, self._spool, tuple(counts), self._shape.slots, self._shape.items
            )
            self._tasks.run(works, build)
        return works

    def _carry_over(self, built: set[QueueName]) -> int:
        """Copy the queues whose records have all expired; how many there are."""
        return sum(
            carry_over(
                join(self._old_queues, topic, str(queue_id)),
                join(self._folder, QUEUE_FOLDER, topic, str(queue_id)),
                self._log_begin,
            )
            for topic, queue_id in _queue_names(self._old_queues)
            if (topic, queue_id) not in built
        )


def _read_part(
    copy: StoreCopy, spool: str, options: ReadOptions, work: tuple[int, tuple[int, int]]
) -> SpooledPart:
    """A task of the first pass."""
    part, cuts = work
    with closing(LocalLog(copy.files)) as log:
        return spool_part(log, part, (*cuts, copy.end), spool, options.dispatch, check_crc=options.check_crc)


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
    """The queues in at most this many groups of about the same number of entries."""
    ordered = sorted(works, key=lambda work: -work.plan.entries)
    return [list(ordered[first::groups]) for first in range(min(groups, len(ordered)))]


def _queue_names(root: str) -> Iterator[QueueName]:
    """The queues that have a folder under `root`."""
    for topic in sorted(os.listdir(root)) if isdir(root) else ():
        if isdir(join(root, topic)):
            yield from (
                (topic, int(name)) for name in sorted(os.listdir(join(root, topic))) if name.isdigit()
            )
