"""Following the records of a part of the log, over damage as well, so that any number of parts can be followed
at once and together see every byte exactly once.

A part is [begin, end) in physical offsets, cut anywhere. Where it really starts and ends is determined by one
rule for both sides of a cut, `edge`: at the first record of the chain that begins at or after the cut, or at the
next file's start, which no record crosses. So what is damaged around a cut belongs to the part before it,
and record boundaries needn't be known beforehand (rejected: taking them from the consume queues, which an audit
must not trust and a rebuild doesn't have).

Reads are of 1 MiB: they stay in the CPU cache for the comparisons and checksums that follow.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from hatwisted.logcodec.recordsearch import RecordSearch
from hatwisted.logcodec.scan import Records, ScanEnd, Stop
from hatwisted.logcodec.window import LogBytes, LogWindow, file_end

CHUNK: Final = 1 << 20
"""Bytes read at once; a longer record is read whole."""


class Filler(enum.StrEnum):
    """What lies where no records are."""

    BLANK = "blank"
    """The rest of a file, closed because the next record didn't fit."""
    EMPTY = "empty"
    """Zeros."""
    DAMAGED = "damaged"
    """Anything else."""


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch [begin, end) of the log: either whole records, or (a part of) what lies between records.

    buf: its bytes, and maybe some after them; overwritten by the next step. records: None for a filler; then
    `filler` says what it is, `reason` why it's no record, and `start` where the whole filler begins.
    """

    begin: int
    end: int
    buf: memoryview
    records: Records | None
    filler: Filler | None = None
    reason: str = ""
    start: int = 0


class WalkedLog(LogBytes, Protocol):
    """A log whose records can be found from anywhere."""

    def read_into(self, target: memoryview, offset: int) -> int:
        """Fill `target` with the bytes at `offset`; how many there were, fewer only at a file's end."""

    def search(self, offset: int, end: int) -> RecordSearch:
        """What finds records in the file that `offset` is in; end: of the log."""


def edge(log: WalkedLog, cut: int, end: int) -> int:
    """Where the part after a cut starts, and the one before it ends. Rises with the cut, but lies before it
    where no record follows in the file.

    - log: which
    - cut: physical offset
    - end: of the log
    """
    if cut >= end:
        return end
    return cut if cut % log.file_size == 0 else log.search(cut, end).at_or_after(cut)


class Buffer:
    """A buffer that is reused: reading into it is twice as fast as into fresh memory."""

    def __init__(self) -> None:
        self._bytes = bytearray(CHUNK)

    def filled(self, log: WalkedLog, offset: int, size: int) -> memoryview:
        """Bytes of a log; what can't be read is zero. Valid until the next call.

        - log: which
        - offset: of the first
        - size: how many
        """
        if size > len(self._bytes):
            self._bytes = bytearray(size)
        view = memoryview(self._bytes)[:size]
        count = log.read_into(view, offset)
        if count < size:
            view[count:] = bytes(size - count)
        return view

    def equals(self, other: memoryview) -> bool:
        """Is what was read the same? By memcmp, which comparing two views isn't."""
        if len(other) == len(self._bytes):
            return self._bytes == other
        return self._bytes[: len(other)] == bytes(other)


def walk_range(log: WalkedLog, begin: int, end: int, *, check_crc: bool = True) -> Iterator[Step]:
    """All steps through a range.

    - log: which
    - begin: start of a record or file
    - end: the same, or the log's end
    - check_crc: of bodies
    """
    buffer = Buffer()
    window = LogWindow(
        lambda offset, size: (buffer.filled(log, offset, size), 0), log.file_size, CHUNK, check_crc=check_crc
    )
    at = begin
    while at < end:
        records = window.records(at, end)
        if len(records):
            yield Step(at, records.end_offset, memoryview(records.buf), records)
            at = records.end_offset
        else:
            for step in _filler(log, at, min(file_end(at, log.file_size), end), records.end):
                yield step
                at = step.end


def _filler(log: WalkedLog, at: int, stop: int, why: ScanEnd) -> Iterator[Step]:
    """The stretch from `at` to where records go on, in steps of at most a chunk; at `stop` the file ends, or
    the range."""
    if why.stop is Stop.BLANK:
        yield from _pieces(log, at, stop, Filler.BLANK, "")
        return
    resumes_at = log.search(at, stop).end_of_damage(at, stop)
    if any(np.frombuffer(chunk, np.uint8).any() for _, chunk in _chunks(log, at, resumes_at)):
        yield from _pieces(log, at, resumes_at, Filler.DAMAGED, why.reason or why.stop.value)
    else:
        yield from _pieces(log, at, resumes_at, Filler.EMPTY, Stop.END.value)


def _pieces(log: WalkedLog, begin: int, end: int, filler: Filler, reason: str) -> Iterator[Step]:
    for at, chunk in _chunks(log, begin, end):
        yield Step(at, at + len(chunk), memoryview(chunk), None, filler, reason, begin)


def _chunks(log: WalkedLog, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of a part of one file; what can't be read is zero."""
    for at in range(begin, end, CHUNK):
        size = min(CHUNK, end - at)
        yield at, log.read(at, size).ljust(size, b"\0")
