"""Files of thousands of queues are read from a disk several at a time.

A start lists each queue's folder and reads where the search for its end begins, one queue after the other: from
memory that takes microseconds, from a disk some reads that each wait for the one before. After a boot, or once
other work has had the memory, these waits are most of a start. So if the files aren't in memory, some threads
touch them first. Whether they are is asked of a few, without waiting for any (RWF_NOWAIT); a system that can't
say gets nothing read ahead.

The threads end before the process forks. What they can't read is left to the store, which says what's wrong with
it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Final

from hatwisted.store.queue.queuescan import RECHECKED_FILES, SCAN_CHUNK

READERS: Final = 8
"""Threads: about as many reads as one disk does at a time."""
SAMPLED: Final = 32
"""About so many queues are asked for; with fewer there's nothing to gain."""
SHARE: Final = 4
"""One of so many that isn't in memory makes all be read ahead."""
READ_AHEAD: Final = 100_000
"""Queues at most: their names take some 15 MB until the threads have ended."""


def read_queues_ahead(folders: Iterable[str], in_memory: Callable[[str], bool] | None = None) -> int:
    """How many queues' files were touched: all, or none if most of them are in memory, or they're few.

    - folders: of the queues, one each
    - in_memory: is the beginning of the file at this path? None: asks the system
    """
    queues = list(islice(folders, READ_AHEAD))
    if len(queues) < SAMPLED:
        return 0
    asked = (_first_scanned(queue) for queue in queues[:: len(queues) // SAMPLED])
    known = [(in_memory or is_in_memory)(path) for path in asked if path is not None]
    if known.count(False) * SHARE <= len(known):
        return 0
    try:
        with ThreadPoolExecutor(READERS, "read-ahead") as readers:
            return sum(readers.map(_touch, [queues[number::READERS] for number in range(READERS)]))
    except RuntimeError:
        return 0  # the system lets us have no thread


def is_in_memory(path: str) -> bool:
    """Can the file's first byte be read without waiting for a disk? True as well if that can't be known."""
    try:
        with _opened(path) as descriptor:
            os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):
        pass
    return True


def _touch(queues: Sequence[str]) -> int:
    touched = 0
    for queue in queues:
        path = _first_scanned(queue)
        if path is not None:
            with suppress(OSError), _opened(path) as descriptor:
                os.posix_fadvise(descriptor, 0, SCAN_CHUNK, os.POSIX_FADV_WILLNEED)
                touched += 1
    return touched


def _first_scanned(queue: str) -> str | None:
    """The file with which the search for the queue's end begins; None, if there's none or it can't be known."""
    try:
        files = sorted(os.listdir(queue))[-RECHECKED_FILES:]
    except OSError:
        return None
    return os.path.join(queue, files[0]) if files else None


@contextmanager
def _opened(path: str) -> Iterator[int]:
    # Non-blocking: a FIFO among the files would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
