"""Finding the record a reader is to begin with: from any byte of a log file, and behind damage.

What the records of a file are is defined by reading it from its begin: each record's size leads to the next one,
and where that fails the chain goes on at the next place that can be proved. So that any two splits of a file
agree, a reader that begins in its middle doesn't look for the next record but for one some way before, follows
the chain from there, and takes what the chain has at or behind its begin. If the chain broke on the way, or
nothing was found, or a record in front may reach over the one found, it goes further back, up to the largest
record: a body may hold whole records, even with the right offsets, and only who comes from outside the body knows
them for what they are.

Behind damage two things prove a record. Where the damaged record's head is intact its size leads to the next one,
and everything between is body. Otherwise the next place is taken that has magic, offset and lengths right, and the
body's checksum too or another record behind it, unless its chain breaks while that of another, which begins inside
it, goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from hatwisted.pipeline.decode.logbytes import LogBytes, read
from hatwisted.pipeline.decode.logwindow import LogWindow
from hatwisted.pipeline.decode.ragged import Longs
from hatwisted.pipeline.decode.records import LARGEST_RECORD, Stop
from hatwisted.wire import layout
from hatwisted.wire.record import CorruptRecord, Record, decode_record

LOOK_BACK: Final = 256 << 10
"""Bytes gone back at first: some hundred ordinary records, read in no time."""
FURTHER: Final = 16
"""How many times as far each time that wasn't enough."""
REACH: Final = 5 << 20
"""Bytes in front of a record found in which no other may reach over it: a body of 4 MiB, RocketMQ's default limit,
and its properties. Scanned in some 3 ms."""
PROOF: Final = 16
"""Records in a row that make a chain."""
SEARCH_SIZE: Final = 1 << 20
"""Bytes searched at once."""
HEADS_SIZE: Final = 256 << 10
"""Bytes looked through for heads at once: they stay in the processor's cache."""
BREAKS: Final = (Stop.CORRUPT, Stop.END)
"""A chain that ends so may go on elsewhere."""

_OVERLAP: Final = layout.PHYSICAL_OFFSET_AT + 8


class RecordSearch:
    """Looks for records in one log file, which begins at physical offset `base`. limit: where the log is known to
    end if that is in this file; elsewhere it ends with the blank at the file's end. look_back: bytes."""

    def __init__(
        self,
        file: LogBytes,
        base: int,
        file_size: int,
        limit: int | None = None,
        look_back: int = LOOK_BACK,
    ) -> None:
        self._look_back = look_back
        self._file = file
        self._base = base
        self._file_end = base + file_size
        self._limit = self._file_end if limit is None else limit
        self._window = LogWindow(file, base, file_size, SEARCH_SIZE)

    def at_or_behind(self, offset: int) -> int:
        """Where the chain has its first record that starts at or behind `offset`; the log's or the file's end if
        it has none."""
        return self._around(offset)[1]

    def at_or_before(self, offset: int) -> int:
        """Where the chain has its last record that starts at or in front of `offset`; or where a file's blank
        begins."""
        before, behind = self._around(offset)
        return behind if behind == offset else before

    def before(self, offset: int) -> int:
        """Some record in front of `offset` and not far from it, if there is one; else the file's begin."""
        back = self._look_back
        while (first := offset - back) > self._base and back < LARGEST_RECORD:
            if (found := self.next_record(first, offset)) is not None:
                return found
            back *= FURTHER
        return self._base

    def behind_damage(self, offset: int, limit: int) -> int | None:
        """Where the chain goes on behind the damage at `offset`; None: nowhere below `limit`."""
        size = self._claimed_size(offset)
        if size and self._goes_on_at(offset + size, limit):
            return offset + size
        return self.next_record(offset + 1, limit)

    def next_record(self, offset: int, limit: int) -> int | None:
        """The first proved record that starts in [offset, limit)."""
        for candidate in self._candidates(offset, limit):
            if self._is_proved(candidate) and not self._is_inside_a_body(candidate, limit):
                return candidate
        return None

    def _around(self, offset: int) -> tuple[int, int]:
        """The chain's last start in front of `offset` and its first at or behind it."""
        back = self._look_back
        while True:
            first = max(self._base, offset - back)
            at = self._base if first == self._base else self.next_record(first, offset)
            surest = first == self._base or back >= LARGEST_RECORD
            if at is not None:
                before, behind, whole = self._follow(at, offset)
                if surest or (whole and not self._may_be_inside(at)):
                    return before, behind
            elif surest:
                found = self.next_record(offset, self._limit)
                return offset, self._limit if found is None else found
            back *= FURTHER

    def _follow(self, at: int, offset: int) -> tuple[int, int, bool]:
        """What `_around` wants, of the chain from `at` on, and whether it is whole up to there and a little
        further."""
        before, whole = at, True
        while at < offset:
            records, end = self._window.chain(at, offset)
            if len(records):
                before = int(records.starts[-1]) + records.chunk.shift
            at = end.offset
            if end.stop is Stop.BLANK:
                return at, self._file_end, whole
            if end.stop in BREAKS:
                following = self.behind_damage(at, self._limit)
                if following is None:
                    return before, self._limit, False
                at, whole = following, False
        records, end = self._window.chain(at, min(at + SEARCH_SIZE, self._limit))
        if end.stop is Stop.BLANK and not len(records):
            at = self._file_end
        return before, at, whole and end.stop not in BREAKS

    def _claimed_size(self, offset: int) -> int:
        """The size of a damaged record whose size, magic and offset look right; else 0."""
        head = read(self._file, offset - self._base, layout.BODY_AT)
        if len(head) < layout.BODY_AT:
            return 0
        size, magic = layout.RECORD_HEAD.unpack_from(head)
        placed = int.from_bytes(head[layout.PHYSICAL_OFFSET_AT : layout.PHYSICAL_OFFSET_AT + 8], "big")
        right = magic in (layout.MAGIC_V1, layout.MAGIC_V2) and placed == offset
        return size if right and layout.FIXED_SIZE <= size <= LARGEST_RECORD else 0

    def _goes_on_at(self, offset: int, limit: int) -> bool:
        if offset >= limit:
            return offset == limit
        records, end = self._window.chain(offset, offset + 1)
        return bool(len(records)) or end.stop is Stop.BLANK

    def _is_proved(self, candidate: int) -> bool:
        end = self._end_of(candidate)
        if end is None:
            return False
        goes_on = end == self._limit or self._end_of(end) is not None or self._is_file_end(end)
        return goes_on or self._end_of(candidate, check_crc=True) is not None

    def _is_inside_a_body(self, candidate: int, limit: int) -> bool:
        """Does the chain from a candidate break while another goes on that begins inside it?"""
        links, whole = self._links(candidate)
        if whole:
            return False
        end = links[-1]
        for other in self._candidates(candidate + 1, min(end, limit)):
            if other not in links and self._is_proved(other):
                others, goes_on = self._links(other)
                if goes_on or others[-1] > end:
                    return True
        return False

    def _may_be_inside(self, offset: int) -> bool:
        """Does a head not far in front of `offset` claim a record that reaches beyond it?"""
        return any(
            bool(((starts + sizes > offset) & (sizes <= LARGEST_RECORD)).any())
            for starts, sizes in self._heads(max(self._base, offset - REACH), offset)
        )

    def _links(self, offset: int) -> tuple[list[int], bool]:
        """Starts of the records in a row from here, the last one's end behind them; do they go on from there?"""
        links = [offset]
        while len(links) <= PROOF:
            end = self._end_of(links[-1])
            if end is None:
                return links, self._is_file_end(links[-1])
            links.append(end)
        return links, True

    def _is_file_end(self, offset: int) -> bool:
        head = read(self._file, offset - self._base, layout.BLANK_HEAD_SIZE)
        if len(head) < layout.BLANK_HEAD_SIZE:
            return offset == self._file_end
        size, magic = layout.RECORD_HEAD.unpack(head)
        return bool(magic == layout.MAGIC_BLANK and offset + size == self._file_end)

    def _end_of(self, offset: int, *, check_crc: bool = False) -> int | None:
        """The end of the valid record at an offset; None if there is none."""
        size = self._claimed_size(offset)
        if not size or offset + size > self._file_end:
            return None
        try:
            found = decode_record(read(self._file, offset - self._base, size), at=offset, check_crc=check_crc)
        except CorruptRecord:
            return None
        return offset + size if isinstance(found, Record) else None

    def _candidates(self, offset: int, limit: int) -> Iterator[int]:
        """Offsets in [offset, limit) where the magic and the offset of a record are right, ascending."""
        for starts, _ in self._heads(offset, limit):
            yield from starts.tolist()

    def _heads(self, offset: int, limit: int) -> Iterator[tuple[Longs, Longs]]:
        """The same offsets, some at a time, and the size that each record claims."""
        octets = np.empty(min(HEADS_SIZE, limit - offset) + _OVERLAP - 1 if offset < limit else 0, np.uint8)
        while offset < limit:
            wanted = min(HEADS_SIZE, limit - offset) + _OVERLAP - 1
            got = self._file.read_into(octets.data[:wanted], offset - self._base)
            last = got - _OVERLAP + 1
            if last < 1:
                return
            starts = np.flatnonzero(octets[layout.MAGIC_AT : layout.MAGIC_AT + last] == layout.MAGIC_V1 >> 24)
            placed = np.ndarray((last,), ">i8", octets, layout.PHYSICAL_OFFSET_AT, (1,))[starts]
            starts = starts[placed == starts + offset]
            sizes = np.ndarray((last,), ">i4", octets, layout.TOTAL_SIZE_AT, (1,))[starts]
            yield starts + offset, sizes.astype(np.int64)
            offset += last
