"""Is a break in the log one that a failure of power leaves where nothing had been synced yet?

The kernel writes pages in any order. When the power fails, some of those after the last sync are there and earlier
ones aren't: valid records follow a hole. None of them was ever acknowledged as durable, because a sync covers
everything before its end: had one of them been synced, there would be no hole. So to cut there breaks no
promise, and a broker that waits for an operator instead stands still for nothing.

Damage to what had been synced looks different. The checkpoint says that it was, or no part of what is missing is a
sector that was never written: log files are always created new, so those are zeros from end to end.
"""

from __future__ import annotations

from typing import Final

from hatwisted.logcodec.onerecord import record_at
from hatwisted.logcodec.window import LogBytes
from hatwisted.wire import layout

SECTOR: Final = 512
"""Bytes that a disk writes whole or not at all."""

LEAST_REST: Final = 16
"""Zeros at a break that count as the rest of a sector whose last part was never written; fewer may be anything."""


def is_unsynced(log: LogBytes, offset: int, resumes_at: int, synced_until: int) -> bool:
    """Was the tail that begins with this break never synced?

    - log: its files
    - offset, resumes_at: no valid record lies in [offset, resumes_at)
    - synced_until: store time (ms) of the last record known to have been synced; 0 if that isn't known, and then
      nothing is taken for unsynced
    """
    following = record_at(log, resumes_at, check_crc=False)
    if not synced_until or following is None or following.store_timestamp <= synced_until:
        return False
    head = log.read(offset, layout.BLANK_HEAD_SIZE).ljust(layout.BLANK_HEAD_SIZE, b"\0")
    size, magic = layout.RECORD_HEAD.unpack(head)
    if magic == layout.MAGIC_BLANK and offset + size == resumes_at:
        return False  # files of another size
    return _has_hole(log, offset, resumes_at)


def _has_hole(log: LogBytes, begin: int, end: int) -> bool:
    at = begin
    while at < end:
        sector_end = min(at - at % SECTOR + SECTOR, end)
        size = sector_end - at
        if (size == SECTOR or (at == begin and size >= LEAST_REST)) and not any(log.read(at, size)):
            return True
        at = sector_end
    return False
