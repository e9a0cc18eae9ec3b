"""Do the consume queues name every record of the log? A proof that costs a fiftieth of reading the log.

Every record has exactly one queue entry, and records lie back to back: so in every log file the sizes in all
entries that point into it must add up to where the last of these records ends, and only the file's blank may
follow. A queue that's missing, short or has a hole shows as a shortage of the file its records lie in.
RocketMQ takes the highest end of any queue for the end of all of them, and never rebuilds a missing one.

Prepared and rolled-back records have no entry; a file that holds one always looks short, and is dispatched
again needlessly. RocketMQ hasn't written any for years.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.queueentry import ENTRY
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire import layout

CHECKED_FILES: Final = 64
"""Newest log files that are checked: 64 GiB by default, that's 1.3 GB of entries for records of 1 KiB
and a few seconds. What is older has been checked at earlier starts."""

BLOCK: Final = 1 << 16
"""Entries read at once: 1.3 MB."""


def first_incomplete_file(
    files: FileQueue, queues: ConsumeQueueTable, end: int, tick: Callable[[], None] = lambda: None
) -> int | None:
    """Start of the first log file with records that are in no queue; None if there is none.

    - files: the log
    - queues: its queues
    - end: the log's end
    - tick: called after each queue
    """
    starts = [start for start in files.starts if start < end][-CHECKED_FILES:]
    if not starts:
        return None
    sums, reached = np.zeros(len(starts), np.int64), np.array(starts, np.int64)
    for queue in (*queues, *queues.deleted):
        _add_up(queue, starts[0], files.file_size, sums, reached)
        tick()
    for start, total, last_end in zip(starts, sums.tolist(), reached.tolist(), strict=True):
        if total != last_end - start or not _ends_well(files, last_end, start + files.file_size, end):
            return start
    return None


def _add_up(
    queue: ConsumeQueue, first: int, file_size: int, sums: npt.NDArray[Any], reached: npt.NDArray[Any]
) -> None:
    """Add a queue's entries, from its end down to the first log file looked at."""
    high = queue.max_offset
    while high > queue.min_offset:
        low = max(queue.min_offset, high - BLOCK)
        entries = np.frombuffer(queue.read(low, high - low), ENTRY)
        physical, sizes = entries["physical"].astype(np.int64), entries["size"].astype(np.int64)
        named = (sizes != layout.PRE_BLANK_SIZE) & (physical >= first)
        files = (physical[named] - first) // file_size
        inside = files < len(sums)
        files, sizes, physical = files[inside], sizes[named][inside], physical[named][inside]
        np.add.at(sums, files, sizes)
        np.maximum.at(reached, files, physical + sizes)
        if len(physical) < len(entries):
            return
        high = low


def _ends_well(files: FileQueue, last_end: int, file_end: int, end: int) -> bool:
    """Is there nothing but the file's blank after the last record named?"""
    if last_end == min(file_end, end):
        return True
    if file_end > end or last_end + layout.BLANK_HEAD_SIZE > file_end:
        return False
    size, magic = layout.RECORD_HEAD.unpack(files.read(last_end, layout.BLANK_HEAD_SIZE))
    return bool(magic == layout.MAGIC_BLANK and last_end + size == file_end)
