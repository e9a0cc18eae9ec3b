"""Where two copies of a log differ, and which of them is rotten.

Two copies that were equal drift apart when a disk changes bytes at rest. To find that, digests of blocks are
compared, then of smaller blocks where they differ, and then the bytes at both ends of what is left: the whole log
is read on both sides, and hardly anything is sent. A record carries the checksum of its body, its own place in the
log and lengths that have to add up, so of two that differ the invalid one is rotten. Where both are
valid (they differ in properties, times or flags) that can't be decided, and isn't guessed.

Nothing here does I/O: a `LogPair` does, on any event loop.

Rejected: checking each copy by its records' own checksums alone, as `hatwisted log check` does: they don't
cover the properties.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from hatwisted.wire import layout
from hatwisted.wire.logrange import DIGEST_SIZE, LEAST_BLOCK, MOST_DIGESTED, MOST_READ, LogRange
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import NEED_DATA, Blank, CorruptRecord, Record, Scan

SPAN: Final = MOST_DIGESTED
"""Bytes compared at once."""
COARSE: Final = 256 << 10
"""Bytes of the blocks that are compared first: 64 digests for a span."""
FINE: Final = LEAST_BLOCK
"""Bytes of the blocks that are compared where those differ: a disk page, the smallest unit that goes bad."""
FIRST_READ: Final = 64 << 10
"""Bytes read for a record; if it's longer, the most that can be."""
MOST_JUDGED: Final = 256
"""Records of one range that are examined: more aren't rot but other messages."""


class Rotten(Enum):
    """Which copy of a record isn't valid."""

    MASTER = "master"
    SLAVE = "slave"
    BOTH = "both"
    UNDECIDED = "undecided"
    """Neither: both are valid, and differ."""


@dataclass(frozen=True, slots=True)
class DriftedRecord:
    """A record that differs between the two sides: [begin, end) in the log. Topic and offsets are those of a
    valid copy; None if there is none, or if it's the blank at a file's end."""

    begin: int
    end: int
    rotten: Rotten
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None


class LogPair(Protocol):
    """A master's log and a slave's. All answers are (the master's, the slave's), from calls made at the same
    time."""

    def digests(self, span: LogRange, block: int) -> Awaitable[tuple[bytes, bytes]]:
        """Of each `block` bytes of a range of SPAN bytes at most."""

    def read(self, span: LogRange) -> Awaitable[tuple[bytes, bytes]]:
        """The bytes of a range; fewer at the end of a file or of that log."""

    def record_starts(self, offset: int) -> Awaitable[tuple[int, int]]:
        """Where the record that contains this byte begins, as far as each can tell."""


async def differing_ranges(pair: LogPair, span: LogRange) -> list[LogRange]:
    """Ranges from the first byte that differs to the last, at least one equal block apart; span: held by
    both, SPAN bytes at most."""
    found = []
    for coarse in await _differing_blocks(pair, span, COARSE):
        for fine in await _differing_blocks(pair, coarse, FINE):
            if (exact := await _exact(pair, fine)) is not None:
                found.append(exact)
    return found


async def _differing_blocks(pair: LogPair, span: LogRange, block: int) -> list[LogRange]:
    """Adjacent blocks are joined."""
    ours, theirs = await pair.digests(span, block)
    runs: list[LogRange] = []
    for number, at in enumerate(range(span.begin, span.end, block)):
        digest = slice(number * DIGEST_SIZE, (number + 1) * DIGEST_SIZE)
        if ours[digest] == theirs[digest]:
            continue
        end = min(at + block, span.end)
        if runs and runs[-1].end == at:
            runs[-1] = LogRange(runs[-1].begin, end)
        else:
            runs.append(LogRange(at, end))
    return runs


async def _exact(pair: LogPair, blocks: LogRange) -> LogRange | None:
    """From the first byte that differs in the first of `blocks` to the last that does in the last of them; None if
    they differ no more: a side has now read correctly a block that it had misread."""
    head = await _differing_bytes(pair, LogRange(blocks.begin, min(blocks.begin + FINE, blocks.end)))
    last = blocks.begin + (blocks.end - 1 - blocks.begin) // FINE * FINE
    tail = head if last == blocks.begin else await _differing_bytes(pair, LogRange(last, blocks.end))
    if head is None and tail is None:
        return None
    return LogRange(
        blocks.begin if head is None else head.begin,
        blocks.end if tail is None else tail.end,
    )


async def _differing_bytes(pair: LogPair, span: LogRange) -> LogRange | None:
    """From the first to the last, across file ends."""
    found: list[int] = []
    at = span.begin
    while at < span.end:
        ours, theirs = await pair.read(LogRange(at, span.end))
        size = min(len(ours), len(theirs))
        if not size:
            break
        found += [at + i for i in range(size) if ours[i] != theirs[i]]
        at += size
    return LogRange(found[0], found[-1] + 1) if found else None


async def judged_records(pair: LogPair, found: LogRange) -> list[DriftedRecord]:
    """The records that have a byte in a differing range and aren't the same in both, MOST_JUDGED at most."""
    records: list[DriftedRecord] = []
    at = await _first_record(pair, found)
    while at < found.end and len(records) < MOST_JUDGED:
        copies = await _copies(pair, at)
        valid = [each for each in copies if each.valid is not None]
        if not valid:
            records.append(DriftedRecord(at, found.end, Rotten.BOTH))
            break
        end = at + max(each.size for each in valid)
        if len(valid) < 2 or copies[0].raw != copies[1].raw:
            records.append(_drifted(at, end, copies))
        at = end
    return records


def intact_bytes(raw: bytes, record: DriftedRecord) -> bytes | None:
    """The bytes that a rotten copy of `record` is to be overwritten with, if `raw` are an intact one's; of a blank
    only its head is anything."""
    piece = _piece(raw, record.begin)
    if isinstance(piece, Record | Blank) and piece.total_size == record.end - record.begin:
        return raw[: piece.total_size] if isinstance(piece, Record) else raw[: layout.BLANK_HEAD_SIZE]
    return None


@dataclass(frozen=True, slots=True)
class _Copy:
    """One side's record; raw: its bytes if it's valid."""

    valid: Record | Blank | None
    raw: bytes = b""

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return 0 if self.valid is None else self.valid.total_size


async def _first_record(pair: LogPair, found: LogRange) -> int:
    """Where the record with the range's first byte begins: the nearest offset that a side can prove."""
    starts = sorted(set(await pair.record_starts(found.begin)), reverse=True)
    for start in starts:
        if any(start + each.size > found.begin for each in await _copies(pair, start)):
            return start
    return starts[0]


async def _copies(pair: LogPair, at: int) -> Sequence[_Copy]:
    for size in (FIRST_READ, MOST_READ):
        raws = await pair.read(LogRange(at, at + size))
        pieces = [_piece(raw, at) for raw in raws]
        if NEED_DATA not in pieces:
            break
    return [_copy(piece, raw) for piece, raw in zip(pieces, raws, strict=True)]


def _piece(raw: bytes, at: int) -> Record | Blank | Scan | None:
    try:
        return decode_record(raw, at=at)
    except CorruptRecord:
        return None


def _copy(piece: Record | Blank | Scan | None, raw: bytes) -> _Copy:
    # Of a blank only the head is written on purpose; what follows is never read.
    if isinstance(piece, Record | Blank):
        return _Copy(piece, raw[: piece.total_size])
    return _Copy(None)


def _drifted(at: int, end: int, copies: Sequence[_Copy]) -> DriftedRecord:
    master, slave = (each.valid for each in copies)
    rotten = Rotten.UNDECIDED if master and slave else Rotten.SLAVE if master else Rotten.MASTER
    record = master or slave
    if not isinstance(record, Record):
        return DriftedRecord(at, end, rotten)
    return DriftedRecord(at, end, rotten, record.topic, record.queue_id, record.queue_offset)
