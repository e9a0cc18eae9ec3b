"""Files of thousands of queues are read from a disk several at a time.

A start lists each queue's folder and reads its last file, one after the other: from memory that takes
microseconds, from a disk some reads that each wait for the one before. After a boot, or once other work has had
the memory, these waits are most of a start. So if the files aren't in memory, some threads touch them first.
Whether they are is asked of a few, without waiting for any (RWF_NOWAIT); a system that can't say gets nothing
read ahead.

The threads end before the process forks. What they can't read is left to the store, which says what's wrong with
it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

READERS: Final = 8
"""Threads: about as many reads as one disk does at a time."""
SAMPLED: Final = 32
"""Queues that are asked for; with fewer there's nothing to gain."""
SHARE: Final = 4
"""One of so many that isn't in memory makes all be read ahead."""
HEAD_BYTES: Final = 64 << 10
"""Of each queue's last file: what the search for its end reads first."""


def read_queues_ahead(folder: str, in_memory: Callable[[str], bool] | None = None) -> int:
    """How many queues' last files were asked for: all, or none if enough of them are in memory, or they're few.

    - folder: of all queues, with a folder for each topic and in it one for each queue
    - in_memory: is the beginning of the file at this path? None: asks the system
    """
    topics = _folders(folder)
    sample = topics[:: max(1, len(topics) // SAMPLED)]
    found = [path for topic in sample for path in _last_files(topic)[:1]]
    if len(found) < SAMPLED:
        return 0
    known = in_memory or is_in_memory
    if sum(not known(path) for path in found) * SHARE < len(found):
        return 0
    with ThreadPoolExecutor(READERS, "read-ahead") as readers:
        return sum(readers.map(_touch, topics))


def is_in_memory(path: str) -> bool:
    """Can the file's first byte be read without waiting for a disk? True as well if that can't be known."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):
        return True
    finally:
        os.close(descriptor)
    return True


def _touch(topic: str) -> int:
    paths = _last_files(topic)
    for path in paths:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, 0, HEAD_BYTES, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(descriptor)
    return len(paths)


def _last_files(topic: str) -> list[str]:
    return [files[-1] for queue in _folders(topic) if (files := _paths(queue))]


def _folders(folder: str) -> list[str]:
    return [path for path in _paths(folder) if os.path.isdir(path)]


def _paths(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        return []
