"""Where two copies of one log diverge: what both hold is compared byte for byte, never record by record.

The HA link doesn't notice that a log has diverged from its copy as long as the offsets match (B140). It
happens when a slave is made a master and the old master comes back, or when a master has lost its tail and takes
puts again. The way back is to cut one of the two where they diverge, and to let it copy the rest again (B141,
B160); which one, and what the records are worth that lie after the cut, only the operator knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from hatwisted.cli.errors import CannotRun
from hatwisted.logcodec.logwalk import WITHOUT_CRC, LogWalk
from hatwisted.store.log.filequeue import FileQueue

CHUNK: Final = 8 << 20
"""Bytes compared at once."""

END_FILES: Final = 3
"""Files at a log's end that are followed to find it, as a broker does when it starts."""


class Side(msgspec.Struct, rename="camel", kw_only=True):
    """One of the logs: it holds [begin, end). bytes_after, records_after: what comes after their common part."""

    directory: str
    begin: int
    end: int
    bytes_after: int
    records_after: int


class LogComparison(msgspec.Struct, rename="camel", kw_only=True):
    """The comparison of what both hold, from `begin` on. equal_to: they are equal up to here, and a record ends
    here in both; differs_at: first byte that differs, None if there's none. Offsets in bytes."""

    begin: int
    equal_to: int
    differs_at: int | None
    sides: tuple[Side, Side]

    @property
    def apart(self) -> bool:
        """Does each of them hold something that the other one can't get from it?"""
        return self.differs_at is not None


def compare_logs(
    one: FileQueue, other: FileQueue, names: tuple[str, str], progress: Callable[[int], None]
) -> LogComparison:
    """Compare two loaded logs. Raises CannotRun for logs that have nothing in common.

    - one, other: the logs
    - names: of both, for the result
    - progress: called with the offset reached
    """
    if one.file_size != other.file_size:
        raise CannotRun(
            f"logs with files of {one.file_size} and of {other.file_size} bytes can't be copies of each other"
        )
    ends = log_end(one, names[0]), log_end(other, names[1])
    begin, end = max(one.min_offset, other.min_offset), min(ends)
    if begin >= end:
        raise CannotRun(
            f"the logs share no offset: {names[0]} holds {one.min_offset} to {ends[0]}, "
            f"{names[1]} holds {other.min_offset} to {ends[1]}"
        )
    differs_at = first_difference(one, other, begin, end, progress)
    equal_to = end if differs_at is None else record_boundary(one, differs_at)
    return LogComparison(
        begin=begin,
        equal_to=equal_to,
        differs_at=differs_at,
        sides=(_side(one, names[0], ends[0], equal_to), _side(other, names[1], ends[1], equal_to)),
    )


def log_end(log: FileQueue, name: str) -> int:
    """Offset after the last valid record. Raises CannotRun for a log that no broker would start with."""
    walk = LogWalk(log, log.starts[-END_FILES:][0])
    for _ in walk:
        pass
    if walk.damages:
        raise CannotRun(f"{name} is damaged at offset {walk.damages[0].offset}: see 'hatwisted log repair'")
    assert walk.end is not None
    return walk.end.offset


def first_difference(
    one: FileQueue, other: FileQueue, begin: int, end: int, progress: Callable[[int], None]
) -> int | None:
    """Offset of the first byte that isn't the same in both.

    - one, other: the logs
    - begin, end: the range that both hold
    - progress: called with the offset reached
    """
    at = begin
    while at < end:
        size = min(CHUNK, end - at, one.capacity_end_of(at) - at)
        left, right = one.read(at, size), other.read(at, size)
        if left != right:
            differ = np.frombuffer(left, np.uint8) != np.frombuffer(right, np.uint8)
            return at + int(differ.argmax())
        at += size
        progress(at)
    return None


def record_boundary(log: FileQueue, offset: int) -> int:
    """The last offset, `offset` at most, at which a record ends or a file begins."""
    boundary = offset - offset % log.file_size
    for scan in LogWalk(log, boundary, stop=offset, options=WITHOUT_CRC):
        ends = scan.base + scan.positions + scan.sizes
        below = ends[ends <= offset]
        if len(below):
            boundary = int(below[-1])
    return boundary


def _side(log: FileQueue, name: str, end: int, equal_to: int) -> Side:
    records = 0
    if end > equal_to:
        records = sum(len(scan) for scan in LogWalk(log, equal_to, stop=end, options=WITHOUT_CRC))
    return Side(
        directory=name,
        begin=log.min_offset,
        end=end,
        bytes_after=end - equal_to,
        records_after=records,
    )
