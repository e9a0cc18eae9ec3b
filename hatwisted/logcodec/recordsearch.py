"""Finding records where the chain of sizes doesn't lead: after damage, after a log's end, in mid-range.

What the records of a file are is defined by reading it from its start: each record's size leads to the next one,
and where that fails the chain continues at the next offset that can be proved. A body may contain whole
records, even ones that name the offset they lie at (every answer tells a producer the offset of its message,
so the next one can be predicted), with correct lengths and checksums. So the bytes of a record prove little
by themselves. In order of strength, the evidence is:

1. *Being led to.* The record that the chain leads to begins where the broker has begun to write one. If its head
   is intact (magic, its own offset, a size that agrees with the length of its body, which is another field) and
   its end is where the lengths inside it say, or looks torn, all bytes up to there are its own: no record begins
   among them. So a search begins after them. Should the size be what is damaged, these lengths add up to another
   place, where a record begins.
2. *Being whole*: magic, own offset, lengths, and the body's checksum or else a chain that continues after it.
That never occurs by chance, and is all there is where the head of the record before it is lost. 3. *Not lying
inside another.* A candidate whose chain breaks, while that of another, which begins inside it, goes on, is
none. 4. *What others say.* A consume queue is built by following the chain: an entry that reaches over a
place (see `Held`) says that it's inside a record. That an entry names the place says that there is one.

Rejected: accepting any whole record (a torn message with a forged record in its body would keep a broker from
starting); chains of some length (a body may hold a chain, and its last link may end with the message
itself); store times and queue offsets that fit (both can be predicted); a secret in every record (these bytes are
read by others). What can't be decided: where the head of a torn message is lost and no queue has its entry, a
record forged in its body looks like one that was acknowledged. It counts then, since refusing to start costs
an operator's look, and cutting might cost messages.

So that any two readers that start in mid-range agree, a reader doesn't look for the next record but for one some
way before its start, follows the chain from there, and takes what the chain has at or after its start. If the
chain breaks on the way, or nothing is found, or an earlier record may reach over the one found, it goes
further back, up to the largest record: only from outside a body can the records in it be recognised as
content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from hatwisted.logcodec.octets import Longs
from hatwisted.logcodec.onerecord import record_at
from hatwisted.logcodec.recordhead import LARGEST_HEAD, MAGICS, read_head
from hatwisted.logcodec.rivalrecords import WHOLE, RivalRecords
from hatwisted.logcodec.scan import LARGEST_RECORD, Stop
from hatwisted.logcodec.window import BREAKS, LogBytes, LogWindow, file_end, filled_from
from hatwisted.wire import layout
from hatwisted.wire.storedrecord import Record

CHUNK: Final = 1 << 20
"""Bytes of log read at once."""

_ZEROS: Final = bytes(CHUNK)

ZEROS_BEHIND: Final = 128 << 20
"""Zeros in a row (bytes) after which nothing more is looked for. What was written last and lost while later
bytes were not is at most what a disk's cache may reorder; reading a file's untouched gigabyte takes seconds."""

LOOK_BACK: Final = 256 << 10
"""Bytes gone back at first: some hundred ordinary records, read in no time."""
FURTHER: Final = 16
"""Factor by which it goes further back each time that isn't enough."""
REACH: Final = 5 << 20
"""Bytes before a record found in which no other may reach over it: a body of 4 MiB, RocketMQ's default limit,
and its properties. Scanned in some 3 ms."""
PROOF: Final = 16
"""Records in a row that make a chain."""
HEADS_SIZE: Final = 256 << 10
"""Bytes searched for heads at once: they stay in the CPU cache."""

_BLANK_MAGIC: Final = layout.MAGIC_BLANK.to_bytes(4, "big")
_HEAD_END: Final = layout.PHYSICAL_OFFSET_AT + 8
_SLACK: Final = layout.MAX_TOPIC_LENGTH_V2 + layout.MAX_PROPERTIES_LENGTH + 2 * layout.IPV6_EXTRA + 1
"""Bytes by which a record's size may be more than FIXED_SIZE and its body."""

Held = Callable[[int], bool]
"""Does a queue's entry name a record that reaches over this offset (and doesn't begin at it)?"""


def written_end(log: LogBytes, offset: int, known: int = 0) -> int:
    """Offset after the last byte that isn't zero; `offset` if there is none.

    - log: its bytes
    - offset: where to look from
    - known: the log is said to have been written up to there, so at least that much is read
    """
    end = at = offset
    while at < log.capacity_end:
        # What was only reserved needn't be read: that would fill the page cache with zeros.
        data = log.data_from(at)
        if data > at:
            at = data
        else:
            chunk = log.read(at, min(CHUNK, log.capacity_end - at))
            at += len(chunk)
            if chunk != _ZEROS[: len(chunk)]:
                end = at - len(chunk) + len(chunk.rstrip(b"\0"))
                continue
        if at - max(end, known) > ZEROS_BEHIND:
            break
    return end


def records_after(
    log: LogBytes, offset: int, end: int, *, check_crc: bool = True, held: Held | None = None
) -> Iterator[Record]:
    """The records that begin in [offset, end), over further breaks: the first that is proved, and what follows it.

    - log: its bytes
    - offset: to where the chain leads, and may break
    - end: of the range
    - check_crc, held: as for RecordSearch
    """
    at = offset
    while at < end:
        search = RecordSearch(log, at, check_crc=check_crc, held=held)
        following = file_end(at, log.file_size)
        limit = min(end, following)
        found = search.at_or_behind_damage(at, limit)
        while found is not None and found < limit and not search.is_file_end(found):
            record = record_at(log, found, check_crc=check_crc)
            if record is None:
                found = search.after_damage(found, limit)
            else:
                yield record
                found += record.total_size
        at = following


class RecordSearch:
    """Looks for records in one log file.

    - log: its bytes
    - offset: in the file
    - limit: where the log is known to end if that is in this file; None: it ends with the blank at the file's end
    - look_back: bytes
    - check_crc: is a record with a wrong body checksum invalid?
    - held: see Held; None: nothing is known
    """

    def __init__(
        self,
        log: LogBytes,
        offset: int,
        limit: int | None = None,
        look_back: int = LOOK_BACK,
        *,
        check_crc: bool = False,
        held: Held | None = None,
    ) -> None:
        self._log = log
        self._look_back = look_back
        self._check_crc = check_crc
        self._held = held
        self._file_end = file_end(offset, log.file_size)
        self._base = self._file_end - log.file_size
        self._limit = self._file_end if limit is None else limit
        self._window = LogWindow(filled_from(log), log.file_size, CHUNK, check_crc=check_crc)

    def at_or_after(self, offset: int) -> int:
        """Where the chain has its first record that starts at or after `offset`; the log's or the file's end if
        it has none."""
        return self._around(offset)[1]

    def at_or_before(self, offset: int) -> int:
        """Where the chain has its last record that starts at or before `offset`; or where a file's blank
        begins."""
        before, after = self._around(offset)
        return after if after == offset else before

    def before(self, offset: int) -> int:
        """Some record before `offset` and not far from it, if there is one; else the file's start."""
        back = self._look_back
        while (first := offset - back) > self._base and back < LARGEST_RECORD:
            if (found := self.next_record(first, offset)) is not None:
                return found
            back *= FURTHER
        return self._base

    def after_damage(self, offset: int, limit: int) -> int | None:
        """Where the chain, which leads to `offset` and no further, goes on; None: nowhere below `limit`."""
        at = offset
        while True:
            sizes, own = self._claim(at)
            for size in sizes:
                if self._goes_on_at(at + size, limit):
                    return at + size
            if not own:
                return self.next_record(max(at, offset + 1), limit)
            at += own

    def end_of_damage(self, offset: int, limit: int) -> int:
        """Where the chain, which leads to `offset` and no further, continues, or where the blank that closes the
        file begins; `limit` if neither is below it."""
        goes_on = self.after_damage(offset, limit)
        before = limit if goes_on is None else goes_on
        blank = self._closing_blank(offset + 1, before)
        return before if blank is None else blank

    def _closing_blank(self, offset: int, limit: int) -> int | None:
        """Where in [offset, limit) a blank begins that reaches up to the file's end."""
        overlap = layout.BLANK_HEAD_SIZE - 1
        for at in range(offset, limit, CHUNK):
            chunk = self._log.read(at, min(CHUNK + overlap, limit - at))
            position = chunk.find(_BLANK_MAGIC, layout.MAGIC_AT)
            while position >= 0:
                start = at + position - layout.MAGIC_AT
                if self.is_file_end(start):
                    return start
                position = chunk.find(_BLANK_MAGIC, position + 1)
        return None

    def at_or_behind_damage(self, offset: int, limit: int) -> int | None:
        """The same, if the chain may go on at `offset` itself."""
        return offset if self._goes_on_at(offset, limit) else self.after_damage(offset, limit)

    def next_record(self, offset: int, limit: int) -> int | None:
        """The first proved record that starts in [offset, limit)."""
        for candidate in RivalRecords(self._candidates(offset, limit), self._reach):
            if self._held is None or not self._held(candidate):
                return candidate
        return None

    def _around(self, offset: int) -> tuple[int, int]:
        """The chain's last start before `offset` and its first at or after it."""
        back = self._look_back
        while True:
            first = max(self._base, offset - back)
            at = self._base if first == self._base else self.next_record(first, offset)
            surest = first == self._base or back >= LARGEST_RECORD
            if at is not None:
                before, after, whole = self._follow(at, offset)
                if surest or (whole and not self._may_be_inside(at)):
                    return before, after
            elif surest:
                found = self.next_record(offset, self._limit)
                return offset, self._limit if found is None else found
            back *= FURTHER

    def _follow(self, at: int, offset: int) -> tuple[int, int, bool]:
        """What `_around` wants, of the chain from `at` on, and whether it is whole up to there and a little
        further."""
        before, whole = at, True
        while at < offset:
            records = self._window.records(at, offset)
            if len(records):
                before = int(records.positions[-1]) + records.base
            at, stop = records.end_offset, records.end.stop
            if stop is Stop.BLANK:
                return at, self._file_end, whole
            if stop in BREAKS:
                following = self.after_damage(at, self._limit)
                if following is None:
                    return before, self._limit, False
                at, whole = following, False
        records = self._window.records(at, min(at + CHUNK, self._limit))
        if records.end.stop is Stop.BLANK and not len(records):
            at = self._file_end
        return before, at, whole and records.end.stop not in BREAKS

    def _claim(self, offset: int) -> tuple[list[int], int]:
        """Sizes that the record at an offset may have, if magic and offset are right in its head: by its size
        field, and by the lengths inside it where these say something else. And how many bytes are the record's own
        whatever is wrong with it, which takes a size that agrees with the length of its body; else 0."""
        head = read_head(self._log.read(offset, LARGEST_HEAD)) if offset < self._file_end else None
        if head is None or head.magic not in MAGICS or head.physical_offset != offset:
            return [], 0
        size, body = head.size, head.body_length
        if not 0 <= body <= LARGEST_RECORD:
            return [size] if layout.FIXED_SIZE <= size <= LARGEST_RECORD else [], 0
        inner = self._size_by_lengths(offset, head.body_at + body, 2 if head.magic == layout.MAGIC_V2 else 1)
        sizes = [each for each in (size, inner) if layout.FIXED_SIZE <= each <= LARGEST_RECORD]
        agrees = body <= size - layout.FIXED_SIZE <= body + _SLACK
        return sizes, min(sizes) if agrees and (inner == size or self._is_torn_at(offset + size)) else 0

    def _is_torn_at(self, end: int) -> bool:
        """Does the place look like the end of a record that was being written: zeros before it (a record
        hardly ends in one) or after it?"""
        if end > self._file_end:
            return False
        around = self._log.read(end - 1, 1 + layout.BLANK_HEAD_SIZE)
        return around[:1] == b"\0" or not any(around[1:])

    def _size_by_lengths(self, offset: int, topic_at: int, version: int) -> int:
        """The size of a record by the lengths of its topic, which is at byte `topic_at`, and properties; 0 if they
        can't be those of one."""
        size = topic_at
        for field in (layout.TOPIC_LENGTH[version], layout.PROPERTIES_LENGTH):
            at = offset + size
            raw = self._log.read(at, field.size) if at < self._file_end else b""
            length = int.from_bytes(raw, "big", signed=True) if len(raw) == field.size else -1
            if length < 0 or (size == topic_at and not length):
                return 0
            size += field.size + length
        return size

    def _goes_on_at(self, offset: int, limit: int) -> bool:
        if offset >= limit:
            return offset == limit
        records = self._window.records(offset, offset + 1)
        return bool(len(records)) or records.end.stop is Stop.BLANK

    def _is_proved(self, candidate: int) -> bool:
        end = self._end_of(candidate, self._check_crc)
        if end is None:
            return False
        if self._check_crc or end == self._limit or self.is_file_end(end):
            return True
        return self._end_of(end, False) is not None or self._end_of(candidate, True) is not None

    def _reach(self, candidate: int) -> int:
        """How far the chain from a candidate goes; see RivalRecords."""
        if not self._is_proved(candidate):
            return 0
        links, whole = self._links(candidate)
        return WHOLE if whole else links[-1]

    def _may_be_inside(self, offset: int) -> bool:
        """Does a head not far before `offset` claim a record that reaches beyond it?"""
        return any(
            bool(((starts + sizes > offset) & (sizes <= LARGEST_RECORD)).any())
            for starts, sizes in self._heads(max(self._base, offset - REACH), offset)
        )

    def _links(self, offset: int) -> tuple[list[int], bool]:
        """Starts of the records in a row from here, the last one's end after them; do they go on from there?"""
        links = [offset]
        while len(links) <= PROOF:
            end = self._end_of(links[-1], False)
            if end is None:
                return links, self.is_file_end(links[-1])
            links.append(end)
        return links, True

    def is_file_end(self, offset: int) -> bool:
        """Does the file end here, or with the blank that begins here?"""
        head = self._log.read(offset, layout.BLANK_HEAD_SIZE) if offset < self._file_end else b""
        if len(head) < layout.BLANK_HEAD_SIZE:
            return offset == self._file_end
        return head == layout.RECORD_HEAD.pack(self._file_end - offset, layout.MAGIC_BLANK)

    def _end_of(self, offset: int, check_crc: bool) -> int | None:
        """The end of the whole record at an offset; None if there is none."""
        if offset >= self._file_end:
            return None
        record = record_at(self._log, offset, check_crc=check_crc)
        return None if record is None else offset + record.total_size

    def _candidates(self, offset: int, limit: int) -> Iterator[int]:
        """Offsets in [offset, limit) where the magic and the offset of a record are right, ascending."""
        for starts, _ in self._heads(offset, limit):
            yield from starts.tolist()

    def _heads(self, offset: int, limit: int) -> Iterator[tuple[Longs, Longs]]:
        """The same offsets, some at a time, and the size that each record claims."""
        limit = min(limit, self._file_end)
        while offset < limit:
            data = self._log.read(offset, min(HEADS_SIZE, limit - offset) + _HEAD_END - 1)
            last = len(data) - _HEAD_END + 1
            if last < 1:
                return
            octets = np.frombuffer(data, np.uint8)
            starts = np.flatnonzero(octets[layout.MAGIC_AT : layout.MAGIC_AT + last] == layout.MAGIC_V1 >> 24)
            placed = np.ndarray((last,), ">i8", data, layout.PHYSICAL_OFFSET_AT, (1,))[starts]
            starts = starts[placed == starts + offset]
            sizes = np.ndarray((last,), ">i4", data, layout.TOTAL_SIZE_AT, (1,))[starts]
            yield starts + offset, sizes.astype(np.int64)
            offset += last


def begins_record(head: bytes, offset: int) -> bool:
    """Does a record of this very offset begin with `head` (FIXED_SIZE bytes)?"""
    physical = head[layout.PHYSICAL_OFFSET_AT : layout.PHYSICAL_OFFSET_AT + 8]
    magic = head[layout.MAGIC_AT : layout.MAGIC_AT + 4]
    return magic in _MAGICS and physical == offset.to_bytes(8, "big")


_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (layout.MAGIC_V1, layout.MAGIC_V2))
