"""Consume queue entries: their layout, the blank ones that stand for indexes without a record, and which of a
run of bytes are in use.

Nothing in a queue file says where the queue ends. An entry is in use when its offset is >= 0 and its size >
0, so files that were filled further once and then cut (RocketMQ leaves such entries in place) would yield
stale ones. Entries are written in log order, though: one that lies below an earlier entry's end can only be
stale.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import Final

import numpy as np

from hatwisted.wire import layout

ENTRY_SIZE: Final = layout.QUEUE_ENTRY_SIZE
ENTRY: Final = np.dtype([("physical", ">i8"), ("size", ">i4"), ("tags", ">i8")])
"""An entry in a column: physical offset, record size, tags code."""

DEFAULT_FILE_SIZE: Final = 6_000_000
"""Bytes per queue file (300,000 entries): RocketMQ's mappedFileSizeConsumeQueue."""

GAP_LIMIT: Final = 300_000
"""Indexes that may be missing between two records of a queue, and are then filled with blank entries: one
file's worth of the default size. More is no gap but a foreign record."""

PLACE: Final = struct.Struct(">qi")
"""The part of an entry that places its record: physical offset, size."""

BLANK_RECORD_SIZE: Final = layout.PRE_BLANK_SIZE
"""Size in a blank entry. RocketMQ writes those, with offset 0, for the indexes before a queue's first one;
with the end of the record before it one stands for a record missing in between."""

PHYSICAL_LIMIT: Final = 1 << 62
"""Physical offsets at or above it are garbage (bytes), and would overflow when a size is added."""


def blank_entry(physical: int) -> bytes:
    """A blank entry; `physical`: end of the record before it in the queue, 0 if there's none."""
    return layout.QUEUE_ENTRY.pack(physical, BLANK_RECORD_SIZE, 0)


def place(entry: bytes) -> tuple[int, int]:
    """(physical offset, end of the record) of an entry, rising along a queue. A blank one is an empty record
    after the one before it, and at -1 if there's none before."""
    physical, size = PLACE.unpack_from(entry)
    if size == BLANK_RECORD_SIZE:
        return (physical, physical) if physical else (-1, 0)
    return physical, physical + size


def first_reaching(entries: bytes, which: int, least: int) -> int:
    """How many of these come before the first whose `place` is at `least` or later.

    - entries: in the order of their queue
    - which: of their places, the offset (0) or the end (1)
    - least: log offset
    """
    starts = range(0, len(entries), ENTRY_SIZE)
    return bisect_left(starts, least, key=lambda at: place(entries[at : at + ENTRY_SIZE])[which])


def count_in_use(chunk: bytes, floor: int) -> tuple[int, int]:
    """How many entries from the start of `chunk` are in use and in log order, and the end of the last record
    they name. floor: end of the records named before `chunk`; it comes back if no entry follows it."""
    entries = np.frombuffer(chunk, ENTRY, count=len(chunk) // ENTRY_SIZE)
    physical = entries["physical"].astype(np.int64)
    size = entries["size"].astype(np.int64)
    blank = size == BLANK_RECORD_SIZE
    sound = (physical >= 0) & (physical < PHYSICAL_LIMIT) & (size > 0)
    ends = np.where(sound, physical + np.where(blank, 0, size), 0)
    reached = np.maximum.accumulate(np.concatenate(([floor], ends)))
    sound &= physical >= reached[:-1]
    count = len(entries) if sound.all() else int(sound.argmin())
    return count, int(reached[count])


def has_data(chunk: bytes) -> bool:
    """Is any byte other than zero?"""
    return bool(np.frombuffer(chunk, np.uint8).any())
