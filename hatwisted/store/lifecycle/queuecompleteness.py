"""Do the consume queues name every record of the log? A proof that costs a fiftieth of reading the log.

Every record has exactly one queue entry, and records lie back to back: so in every log file the sizes in all
entries that point into it must add up to where the last of these records ends, and only the file's blank may
follow. A queue that's missing, short or has a hole shows as a shortage of the file its records lie in. An entry
that names another place in that file doesn't, so what lies between the squares of begin and end has to add up as
well: for s bytes at a place that is wrong by d, that's 2sd too much.

RocketMQ takes the highest end of any queue for the end of all of them, and never rebuilds a missing one.

Prepared and rolled-back records have no entry; a file that holds one always looks short, and is dispatched
again needlessly. RocketMQ hasn't written any for years.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.queueentry import ENTRY
from hatwisted.logcodec.recordsearch import begins_record
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire import layout

CHECKED_FILES: Final = 64
"""Newest log files that are checked: 64 GiB by default, that's 1.3 GB of entries for records of 1 KiB
and a few seconds. What is older has been checked at earlier starts, and is again if these lack something."""

BLOCK: Final = 1 << 16
"""Entries read at once: 1.3 MB."""

PIECE: Final = 1 << 12
"""Entries added up at once: columns of 32 KB, which stay in the cache; whole blocks take twice the time."""


def checked_end(files: FileQueue, named: int, end: int) -> int:
    """Up to where queues have to be complete: to what they name, the rest is dispatched anyway; to the log's end
    if no record begins there, as the newest entry has gone bad then.

    - files: the log
    - named: end of the newest record that is named
    - end: the log's end
    """
    if named < end and begins_record(files.read(named, layout.FIXED_SIZE), named):
        return named
    return end


def first_incomplete_file(
    files: FileQueue, queues: ConsumeQueueTable, end: int, tick: Callable[[], None] = lambda: None
) -> int | None:
    """Start of the first log file with records that are in no queue; None if there is none.

    - files: the log
    - queues: its queues
    - end: the log's end
    - tick: called after each queue
    """
    starts = [start for start in files.starts if start < end]
    incomplete = _first_incomplete(files, queues, starts[-CHECKED_FILES:], end, tick)
    if incomplete is None or len(starts) <= CHECKED_FILES:
        return incomplete
    # What is missing may be missing in older files as well: of a queue that was removed, all is.
    return _first_incomplete(files, queues, starts, end, tick)


def _first_incomplete(
    files: FileQueue, queues: ConsumeQueueTable, starts: list[int], end: int, tick: Callable[[], None]
) -> int | None:
    """The same among these files."""
    if not starts:
        return None
    named = _Named(starts, files.file_size)
    for queue in queues.with_deleted:
        named.add(queue)
        tick()
    for start, last_end in zip(starts, named.complete(), strict=True):
        if last_end is None or not _ends_well(files, last_end, start + files.file_size, end):
            return start
    return None


class _Named:
    """What entries say of each log file: sums of their records' sizes, and of what lies between squares.

    - starts: of the log files looked at
    - file_size: of each
    """

    def __init__(self, starts: list[int], file_size: int) -> None:
        self._starts = starts
        self._file_size = file_size
        self._sizes = np.zeros(len(starts), np.int64)
        self._squares = np.zeros(len(starts), np.uint64)
        """Modulo 2 ** 64: none is wrong for that, as 2sd is less."""
        self._reached = np.array(starts, np.int64)

    def add(self, queue: ConsumeQueue) -> None:
        """Add a queue's entries, from its end down to the first log file looked at."""
        high = queue.max_offset
        while high > queue.min_offset:
            low = max(queue.min_offset, high - BLOCK)
            entries = np.frombuffer(queue.read(low, high - low), ENTRY)
            go_on = [self._add(entries[at : at + PIECE]) for at in range(0, len(entries), PIECE)]
            if not all(go_on):
                return
            high = low

    def _add(self, entries: npt.NDArray[Any]) -> bool:
        """Add those that name a place in the files looked at: may earlier ones do so, too? Not if one of these
        names an older file. Some may name newer ones, which are dispatched again anyway."""
        physical, sizes = entries["physical"].astype(np.int64), entries["size"].astype(np.int64)
        files = (physical - self._starts[0]) // self._file_size
        young = physical >= self._starts[0]
        inside = young & (files < len(self._starts)) & (sizes != layout.PRE_BLANK_SIZE)
        if not inside.any():
            return bool(young.all())
        if not inside.all():
            files, sizes, physical = files[inside], sizes[inside], physical[inside]
        ends = physical + sizes
        squares = (sizes * (physical + ends)).view(np.uint64)
        # A queue's entries lie in one file after the other: sums of runs cost a fraction of sums one by one.
        runs = np.append(0, np.flatnonzero(files[1:] != files[:-1]) + 1)[: len(files)]
        np.add.at(self._sizes, files[runs], np.add.reduceat(sizes, runs))
        np.add.at(self._squares, files[runs], np.add.reduceat(squares, runs))
        np.maximum.at(self._reached, files[runs], np.maximum.reduceat(ends, runs))
        return bool(young.all())

    def complete(self) -> Iterator[int | None]:
        """Of each file, the end of the last record named; None if not all before it are named, each once."""
        found = zip(
            *(self._starts, self._sizes.tolist(), self._squares.tolist(), self._reached.tolist()), strict=True
        )
        for start, size, squares, end in found:
            whole = size == end - start and squares == (end * end - start * start) % (1 << 64)
            yield end if whole else None


def _ends_well(files: FileQueue, last_end: int, file_end: int, end: int) -> bool:
    """Is there nothing but the file's blank after the last record named?"""
    if last_end == min(file_end, end):
        return True
    if file_end > end or last_end + layout.BLANK_HEAD_SIZE > file_end:
        return False
    size, magic = layout.RECORD_HEAD.unpack(files.read(last_end, layout.BLANK_HEAD_SIZE))
    return bool(magic == layout.MAGIC_BLANK and last_end + size == file_end)
