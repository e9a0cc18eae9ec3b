"""Is a break in the log one that a power failure leaves where nothing had been synced yet?

The kernel writes pages in any order. When the power fails, some of those after the last sync are there and earlier
ones aren't: valid records follow a hole. None of them was ever acknowledged as durable, because a sync covers
everything before its end: had one of them been synced, there would be no hole. So to cut there breaks no
promise, and a broker that waited for an operator instead would be down needlessly.

Damage to what had been synced looks different. The checkpoint says that it was, or no part of what is missing is a
sector that was never written: log files are always created new, so those are zeros from end to end. And where the
system has gone on since, nothing can be missing: the page cache outlives a process.

A hole that begins in a record's properties doesn't break the chain there: only the body has a checksum, so the
record before it passes for valid. It belongs to what is cut.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hatwisted.logcodec.onerecord import store_timestamp_at
from hatwisted.logcodec.window import LogBytes
from hatwisted.wire import layout

SECTOR: Final = 512
"""Bytes that a disk writes whole or not at all."""

LEAST_REST: Final = 8
"""Zeros at a break that count as the rest of a sector whose last part was never written: the length of a record
and its magic, at least. Fewer may be anything."""


class Break(NamedTuple):
    """Where valid records end: none lies in [offset, resumes_at), and the one at `torn_record`, before it, breaks
    off in zeros (None: it doesn't)."""

    offset: int
    resumes_at: int
    torn_record: int | None


class Synced(NamedTuple):
    """How much of the log is known to have been synced, by the checkpoint.

    - offset: all before it; None if that isn't known
    - until: store time (ms) of the last such record, 0: there's none; None if that isn't known. It counts where
      the offset isn't known, for a clock that was wrong makes it wrong
    """

    offset: int | None
    until: int | None


def is_unsynced(log: LogBytes, found: Break, synced: Synced) -> bool:
    """Was the tail that begins with this break never synced? Not if nothing is known.

    - log: its files
    - found: the break
    - synced: what is known
    """
    offset, resumes_at, torn = found
    hole = offset if torn is None else torn + len(log.read(torn, offset - torn).rstrip(b"\0"))
    if synced.offset is not None:
        if hole < synced.offset:
            return False
    elif synced.until is None or any(
        store_timestamp_at(log, at) <= synced.until for at in (resumes_at, torn) if at is not None
    ):
        return False
    if torn is not None:
        return _has_hole(log, hole, resumes_at)
    head = log.read(offset, layout.BLANK_HEAD_SIZE).ljust(layout.BLANK_HEAD_SIZE, b"\0")
    size, magic = layout.RECORD_HEAD.unpack(head)
    if magic == layout.MAGIC_BLANK and offset + size == resumes_at:
        return False  # files of another size
    return _has_hole(log, offset, resumes_at)


def _has_hole(log: LogBytes, begin: int, end: int) -> bool:
    """Is one of the sectors that [begin, end) touches zero? The last may reach into the record that begins at
    `end`: the first bytes of its length are zeros."""
    at = begin
    while at < end:
        size = SECTOR - at % SECTOR
        if size >= LEAST_REST and not any(log.read(at, size)):
            return True
        at += size
    return False
