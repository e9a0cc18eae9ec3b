"""Where a log ends within its last file, found by probing.

Files have their full length from the beginning and what was never written is zeros. So zeros are looked for at
distances that double, then by bisection; from a record before the place found, `logwalk` follows the chain to
its end. Neither a body full of zeros nor a hole that damage left misleads it: the chain passes over the one, and
after a break the file is probed again.

A broker that cuts its log after a crash may write on over records of the same size, and the chain then leads on
into the old ones. So the log ends where store times fall and don't rise again (see `fallingtimes`), unless the
record's queue names it: then a clock was set back. And the walk begins at a record that its queue names, where
there are queues; one that none names may be a leftover itself.

What lies after the break counts only if it is a record not older than the last two before it; one is looked at.
Older ones are leftovers of an earlier cut. So that the search doesn't begin among these, records at doubling
distances before it are asked for their times, and it begins at the newest. A last record whose body's checksum is
wrong, or whose topic breaks off, is being written.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hatwisted.logcodec.logwalk import LogWalk, WalkOptions, is_torn
from hatwisted.logcodec.onerecord import NO_TIME, record_at, store_timestamp_at, whole_record
from hatwisted.logcodec.recordhead import read_head
from hatwisted.logcodec.recordsearch import LOOK_BACK, RecordSearch
from hatwisted.logcodec.scan import Records
from hatwisted.pipeline.decode.fallingtimes import FallingTimes
from hatwisted.pipeline.decode.filebytes import FileBytes
from hatwisted.pipeline.decode.queueentries import QueueEntries
from hatwisted.pipeline.decode.storebytes import LogBytes
from hatwisted.pipeline.errors import WrongLogFile
from hatwisted.wire import layout
from hatwisted.wire.storedrecord import Record

PROBE: Final = 64 << 10
"""Bytes looked at in one place: as many zeros in a row are taken for the end, until the chain says otherwise."""
NEAR: Final = 1 << 20
"""Bytes at which bisection stops; the rest is read anyway."""


LOOK_AHEAD: Final = 64 << 20
"""Bytes after a fall of store times within which they would rise again."""


class Tail(NamedTuple):
    """The end of a log: where its last record starts (`end`, if that isn't known), and the offset after it.
    stored: when that record was, in ms. named: does its queue name it? It may not yet.
    """

    last: int
    end: int
    stored: int = NO_TIME
    named: bool = False


class EndProbe:
    """Looks for the end of one open file of a log.

    - file: the file
    - path: of the file, for errors
    - base: its first byte's physical offset
    - file_size: bytes per file of this log
    - queues: of its store
    """

    def __init__(
        self, file: LogBytes, path: str, base: int, file_size: int, queues: QueueEntries | None = None
    ) -> None:
        self._log = log = FileBytes(file, base, file_size)
        self._path = path
        self._base = base
        self._file_end = base + file_size
        self._search = RecordSearch(log, base)
        self._queues = queues

    def is_unwritten(self) -> bool:
        """Is this a file made in advance, in which nothing has been written yet?"""
        return self._written_from(self._base) is None

    def check_first_record(self) -> None:
        """Raises WrongLogFile when the file neither begins with a record nor holds one."""
        size, magic = layout.RECORD_HEAD.unpack(
            self._log.read(self._base, layout.BLANK_HEAD_SIZE).ljust(8, b"\0")
        )
        if magic in (layout.MAGIC_V1, layout.MAGIC_V2, layout.MAGIC_BLANK) or not (size or magic):
            return
        if self._search.next_record(self._base, self._file_end) is None:
            raise WrongLogFile(
                f"{self._path}: no commit log: at offset {self._base} (byte 0) there is no record but the magic "
                f"{magic:08x}, nor does one follow"
            )

    def tail(self, known: Tail | None = None) -> Tail:
        """The log's tail; known: what it was earlier, from where the search begins if it is still there."""
        record = None if known is None else self._still_there(known)
        if known is None or record is None:
            return self._named(self._walked(self._known_record(self._newest_record())))
        if any(self._log.read(known.end, layout.BLANK_HEAD_SIZE)):
            return self._named(self._walked(known.last))
        # What is written next begins here.
        return known if known.named else known._replace(named=bool(self._is_known(record)))

    def _named(self, tail: Tail) -> Tail:
        """With what its queue says of it now."""
        return tail._replace(named=bool(self._is_known(record_at(self._log, tail.last, check_crc=False))))

    def _walked(self, at: int) -> Tail:
        """The tail that the chain from a record on leads to. It's followed from one before: by its own time alone
        nothing after the record is known to be older."""
        at = self._search.before(at)
        evidence, falling = _StoreTimes(), FallingTimes()
        last, cut = None, None
        options = WalkOptions(evidence=evidence, check_crc=False, written_end=self._probed_end, looked_at=1)
        walk = LogWalk(self._log, at, stop=self._file_end, options=options)
        for records in walk:
            fallen = falling.first_fallen(records.store_timestamps)
            if not falling.fallen:
                cut = None
            elif fallen is not None:
                known = self._is_known(_record_of(records, fallen))
                if known or (known is None and not falling.surely):
                    falling.accept()
                else:
                    cut = _tail(_start_of(records, fallen), _raw_of(records, fallen - 1) if fallen else last)
            if cut is not None and records.end_offset > cut.end + LOOK_AHEAD:
                break
            last = _raw_of(records, -1)
            evidence.met(records)
        if cut is not None:
            return cut
        if walk.at == self._file_end:
            return Tail(at, walk.at) if last is None else Tail(last[0], walk.at, _stored(last[1]))
        return _tail(walk.at, last)

    def _is_known(self, record: Record | None) -> bool | None:
        """Does its queue name the record? None: that can't be said."""
        return None if self._queues is None or record is None else self._queues.knows(record)

    def _known_record(self, at: int) -> int:
        """A record at or before `at` that its queue names, near the last of these, or the file's first; `at`
        itself if there are no queues.
        """
        if self._is_known(record_at(self._log, at, check_crc=False)) is not False:
            return at
        low, high = self._base, at
        while low + NEAR < high:
            middle = self._search.before((low + high) // 2)
            if middle > low and self._is_known(record_at(self._log, middle, check_crc=False)):
                low = middle
            else:
                high = (low + high) // 2
        return low

    def _probed_end(self, log: object, offset: int, known: int) -> int:
        """As `written_end`, by probes."""
        written = self._written_from(offset)
        return offset if written is None else min(written + 2 * PROBE, self._file_end)

    def _still_there(self, known: Tail) -> Record | None:
        """The last record, if it's as it was. A log that was cut and written on has another, or a leftover: one
        that its queue had named and doesn't any more.
        """
        record = record_at(self._log, known.last)
        if record is None or known.last + record.total_size != known.end:
            return None
        if known.stored not in (NO_TIME, record.store_timestamp):
            return None
        return None if known.named and self._is_known(record) is False else record

    def _newest_record(self) -> int:
        """A record from which the chain leads to the end: near the last bytes written, unless a record far
        before those is newer."""
        last = self._search.before(self._last_written())
        newest, time, distance, at = last, store_timestamp_at(self._log, last), LOOK_BACK, last
        while at > self._base:
            at = self._search.before(max(last - distance, self._base))
            distance *= 2
            if store_timestamp_at(self._log, at) > time:
                newest, time = at, store_timestamp_at(self._log, at)
        return newest

    def _last_written(self) -> int:
        """Near the last place, going by probes, that isn't zeros."""
        low = self._written_from(self._base)
        if low is None:
            return self._base
        high = self._file_end
        while low + NEAR < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_zero(middle) else (middle, high)
        return min(low + PROBE, self._file_end)

    def _written_from(self, offset: int) -> int | None:
        """The furthest place after `offset`, of those at distances that double, that isn't zeros."""
        distances = [0] + [PROBE << power for power in range((self._file_end - offset).bit_length())]
        places = [offset + distance for distance in distances if offset + distance < self._file_end]
        return next((place for place in reversed(places) if not self._is_zero(place)), None)

    def _is_zero(self, offset: int) -> bool:
        data = self._log.read(offset, PROBE)
        return not np.frombuffer(data, np.uint8).any()


class _StoreTimes:
    """Evidence of the store times alone, and of the last two: damage may reach into one of them."""

    def __init__(self) -> None:
        self._times: list[int] = []

    def met(self, records: Records) -> None:
        """The next records of the walk."""
        self._times = [*self._times, *records.store_timestamps[-2:].tolist()][-2:]

    def was_cut_before(self, record: Record, end: int, last_timestamp: int) -> bool:
        """See Evidence."""
        return record.store_timestamp < min(self._times, default=0)

    def reaches_over(self, offset: int) -> bool:
        """See Evidence."""
        return False


def _tail(end: int, last: tuple[int, bytes] | None) -> Tail:
    if last is None:
        return Tail(end, end)
    return Tail(last[0], last[0] if is_torn(last[1], check_crc=True) else end, _stored(last[1]))


def _start_of(records: Records, which: int) -> int:
    return int(records.positions[which]) + records.base


def _raw_of(records: Records, which: int) -> tuple[int, bytes]:
    """Offset and bytes of one of them."""
    start = int(records.positions[which])
    return start + records.base, bytes(records.buf[start : start + int(records.sizes[which])])


def _record_of(records: Records, which: int) -> Record | None:
    offset, raw = _raw_of(records, which)
    return whole_record(raw, offset=offset)


def _stored(raw: bytes) -> int:
    head = read_head(raw)
    return NO_TIME if head is None else head.store_timestamp
