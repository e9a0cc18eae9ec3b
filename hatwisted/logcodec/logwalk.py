"""The one walk to the log's end: recovery, the offline tools and rebuilds find it here.

Nothing on disk records the end: files have their full length from the beginning and what was never written reads
as zeros. So the end is found by following the records, checking each, until something isn't one. What follows
there decides the outcome:

* Zeros only: a clean end. Bytes, but no proved record (see `recordsearch`): a *torn tail*, normal after a crash.
* A proved record: *damage*. Cutting there would lose it, so recovery refuses, and the tools continue after it.
* A record that an earlier cut left: no damage. RocketMQ's recovery only moves its write position back and leaves
  the bytes after it; new records then overwrite them piece by piece, and what is left of the old ones still
  carries the right offsets. Queues and store times tell them apart (`Evidence`).
* No further file, after a file that was closed by its blank: a *roll*. The end is the next file's start then.
  RocketMQ takes the blank's start instead, which lies below what a slave has already copied.

A record torn inside its properties passes every check of RocketMQ's, because only the body has a checksum and
missing bytes read as zeros. The properties of a complete message hardly ever end in a zero byte, so a last
record whose do looks torn; whether it is, the caller has to decide, who knows more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, Protocol

from hatwisted.logcodec.octets import Buffer
from hatwisted.logcodec.recordsearch import records_after, written_end
from hatwisted.logcodec.scan import Records, ScanEnd, Stop
from hatwisted.logcodec.window import LogBytes, LogWindow, file_end, filled_from
from hatwisted.wire import layout
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import CorruptRecord, Record

CHUNK: Final = 1 << 20
"""Bytes read at once; they stay in the CPU cache for the checksums."""


class Damage(NamedTuple):
    """No valid records in [offset, resumes_at)."""

    offset: int
    resumes_at: int
    reason: str


class LogEnd(NamedTuple):
    """Where valid records end for good. torn: bytes from there to the last one that isn't zero (0: clean
    end); leftovers: some of these are records that were cut off before; torn_record: offset of the last
    record if it passes every check but ends in zeros, as one that a crash broke off in its properties does."""

    offset: int
    torn: int
    reason: str
    leftovers: bool
    torn_record: int | None


class Evidence(Protocol):
    """What is known about a log besides its bytes."""

    def was_cut_before(self, record: Record, end: int, last_timestamp: int) -> bool:
        """Is this record after the log's end what an earlier cut left?

        - record: the one that would follow
        - end: offset of the log's end
        - last_timestamp: store time (ms) of the last record before it
        """

    def reaches_over(self, offset: int) -> bool:
        """Is it known that `offset` is inside a record?"""


class NoEvidence:
    """Only the bytes are known, and that store times rise."""

    def was_cut_before(self, record: Record, end: int, last_timestamp: int) -> bool:
        """See Evidence."""
        return 0 < record.store_timestamp < last_timestamp

    def reaches_over(self, offset: int) -> bool:
        """See Evidence."""
        return False


class WholeRun(NamedTuple):
    """Whole valid records at the beginning of a piece of log.

    records: their number; size: bytes; last: where in the piece the last one begins; stored: its store time (ms).
    """

    records: int
    size: int
    last: int
    stored: int


WholeRecords = Callable[[bytes, int, bool], WholeRun | None]
"""(piece, physical offset of its first byte, are body checksums compared) -> None: the first one needs a closer
look."""

WrittenEnd = Callable[[LogBytes, int, int], int]
"""See `recordsearch.written_end`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WalkOptions:
    """How to tell records, damage and the log's end.

    - evidence: helps to tell leftovers
    - check_crc: compare body checksums, which makes damage inside bodies visible
    - known: the log is said to have been written up to there
    - read_size: bytes
    - written_end: finds how far anything is written
    - looked_at: records after a break that are checked against the evidence; None: all
    - whole_records: a quicker way over plain records, where nobody wants to see them
    """

    evidence: Evidence = NoEvidence()
    check_crc: bool = True
    known: int = 0
    read_size: int = CHUNK
    written_end: WrittenEnd = written_end
    looked_at: int | None = None
    whole_records: WholeRecords | None = None


WITH_CRC: Final = WalkOptions()
WITHOUT_CRC: Final = WalkOptions(check_crc=False)


class LogWalk:
    """Iterate to get the valid records; look at `damages` and `end` afterwards.

    - log: its files
    - start: a file's or a record's start
    - stop: where to end if the log goes on, by default the end of the last file
    - options: how
    - progress: called with the offset reached after each chunk
    """

    def __init__(
        self,
        log: LogBytes,
        start: int,
        *,
        stop: int | None = None,
        options: WalkOptions = WITH_CRC,
        progress: Callable[[int], None] = lambda offset: None,
    ) -> None:
        self._log = log
        self._stop = log.capacity_end if stop is None else stop
        self._options = options
        self._progress = progress
        self._window = LogWindow(
            filled_from(log), log.file_size, options.read_size, check_crc=options.check_crc
        )
        self._last: tuple[int, Buffer, int, int] | None = None
        """The last record, unless a blank follows it: its offset, and where in which piece it lies."""
        self._ends_at_damage = False
        self._passing = False
        """Does nobody want to see plain records?"""
        self.at = start
        """Offset reached: after the last valid record or blank."""
        self.count = 0
        """Valid records met."""
        self.last_timestamp = 0
        """Store time (ms) of the last one; 0 without any."""
        self.written = 0
        """Offset after the last byte that isn't zero, as found at the last break."""
        self.damages: list[Damage] = []
        self.end: LogEnd | None = None

    def __iter__(self) -> Iterator[Records]:
        while self.at < self._stop:
            if self._passing and self._pass_plain():
                continue
            records = self._window.records(self.at, self._stop)
            self.at = records.end_offset
            if len(records):
                self.count += len(records)
                self.last_timestamp = int(records.store_timestamps[-1])
                at, size = int(records.positions[-1]), int(records.sizes[-1])
                self._last = (records.base + at, records.buf, at, at + size)
                yield records
            self._progress(self.at)
            if records.end.stop is Stop.BLANK:
                self.at, self._last = file_end(self.at, self._log.file_size), None
            elif records.end.stop in (Stop.END, Stop.CORRUPT) and not self._pass_over(records.end):
                return
        self.end = LogEnd(self.at, 0, "the last file is full", False, None)

    def to_end(self, met: Callable[[Records], object] | None = None) -> LogEnd | None:
        """Walk on to the end, but not past damage: None if there is some, see `damages`. met: called with the
        valid records on the way."""
        self._ends_at_damage = True
        self._passing = met is None
        for records in self:
            if met is not None:
                met(records)
        return None if self.damages else self.end

    def _pass_plain(self) -> bool:
        """Go over the plain records that a piece of the log begins with, if there are any."""
        log, options = self._log, self._options
        if options.whole_records is None:
            return False
        end = file_end(self.at, log.file_size)
        piece = log.read(self.at, min(options.read_size, self._stop - self.at, end - self.at))
        run = options.whole_records(piece, self.at, options.check_crc)
        if run is None or self.at + run.size > end - layout.BLANK_MIN_SIZE:
            return False
        self._last = (self.at + run.last, piece, run.last, run.size)
        self.at += run.size
        self.count += run.records
        self.last_timestamp = run.stored
        self._progress(self.at)
        return True

    @property
    def torn_record(self) -> int | None:
        """Offset of the last valid record if it looks torn, as in LogEnd."""
        if self._last is None:
            return None
        offset, piece, begin, end = self._last
        return offset if is_torn(bytes(piece[begin:end])) else None

    def _pass_over(self, end: ScanEnd) -> bool:
        """Continue after damage; False if there's nothing to continue with."""
        offset, leftovers, reason = self.at, False, end.reason or end.stop.value
        options, evidence = self._options, self._options.evidence
        if offset >= self.written:
            # Else it's where the break before this one has found it: the rest of a log isn't read for each.
            self.written = options.written_end(self._log, offset, options.known)
        following = records_after(
            self._log, offset, self.written, check_crc=options.check_crc, held=evidence.reaches_over
        )
        for record in islice(following, options.looked_at):
            if not evidence.was_cut_before(record, offset, self.last_timestamp):
                self.damages.append(Damage(offset, record.physical_offset, reason))
                self.at = record.physical_offset
                return not self._ends_at_damage
            leftovers = True
        self.end = LogEnd(offset, self.written - offset, reason, leftovers, self.torn_record)
        return False


def is_torn(raw: bytes, *, check_crc: bool = False) -> bool:
    """Does a valid record break off in zeros, in its topic or its properties? check_crc: or in its body."""
    try:
        record = decode_record(raw, check_crc=check_crc)
    except CorruptRecord:
        return True
    return isinstance(record, Record) and record.topic.endswith("\0")
