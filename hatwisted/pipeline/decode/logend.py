"""Where a log ends within its last file, found by probing.

Files have their full length from the beginning and what was never written is zeros. So zeros are looked for at
distances that double, then between them by halving; from a record in front of the place found the chain is
followed to where it breaks. Neither a body full of zeros nor a hole that damage left leads astray: the chain goes
through the one, and behind a break the file is probed again.

What lies behind the break counts only if it is a record not older than the last two in front (damage may reach
into one of them): then the log goes on behind damage. Older records are what was there before a broker, after a
crash, cut its log and wrote on: RocketMQ leaves them lying. So that the search doesn't begin among them, records
at doubling distances in front are asked for their times, and it begins at the newest. A last record whose body's
checksum is wrong, or whose topic breaks off, is being written.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hatwisted.pipeline.decode.logbytes import LogBytes, read
from hatwisted.pipeline.decode.logwindow import LogWindow
from hatwisted.pipeline.decode.records import Records, Stop
from hatwisted.pipeline.decode.recordsearch import BREAKS, LOOK_BACK, SEARCH_SIZE, RecordSearch
from hatwisted.pipeline.errors import WrongLogFile
from hatwisted.wire import layout
from hatwisted.wire.record import CorruptRecord, Record, decode_record

PROBE: Final = 64 << 10
"""Bytes looked at in one place: as many zeros in a row are taken for the end, until the chain says otherwise."""
NEAR: Final = 1 << 20
"""Bytes up to which halving goes on; the rest is read anyway."""


class Tail(NamedTuple):
    """The end of a log: where its last record starts (`end`, if that isn't known), and the offset behind it."""

    last: int
    end: int


class LogEnd:
    """Looks for it in one open file, which begins at physical offset `base`."""

    def __init__(self, file: LogBytes, path: str, base: int, file_size: int) -> None:
        self._file = file
        self._path = path
        self._base = base
        self._file_end = base + file_size
        self._search = RecordSearch(file, base, file_size)
        self._window = LogWindow(file, base, file_size, SEARCH_SIZE)

    def is_unwritten(self) -> bool:
        """Is this a file made ahead, in which nothing was written yet?"""
        return self._written_from(self._base) is None

    def check_first_record(self) -> None:
        """Raises WrongLogFile when the file neither begins with a record nor holds one."""
        size, magic = layout.RECORD_HEAD.unpack(read(self._file, 0, layout.BLANK_HEAD_SIZE).ljust(8, b"\0"))
        if magic in (layout.MAGIC_V1, layout.MAGIC_V2, layout.MAGIC_BLANK) or not (size or magic):
            return
        if self._search.next_record(self._base, self._file_end) is None:
            raise WrongLogFile(
                f"{self._path}: no commit log: at offset {self._base} (byte 0) there is no record but the magic "
                f"{magic:08x}, nor is there one behind it"
            )

    def tail(self, known: Tail | None = None) -> Tail:
        """The log's tail; known: what it was earlier, from where the search begins if it is still there."""
        if known is None or not self._is_still_there(known):
            at = self._newest_record()
        elif not any(read(self._file, known.end - self._base, layout.BLANK_HEAD_SIZE)):
            # What is written next begins here.
            return known
        else:
            at = known.last
        last: tuple[int, bytes] | None = None
        times: list[int] = []
        while True:
            records, end = self._window.chain(at, self._file_end)
            if len(records):
                last = _last_of(records)
                times = [*times, *records.heads["store_timestamp"][-2:].tolist()][-2:]
            if end.stop is Stop.BLANK:
                return Tail(last[0] if last else at, self._file_end)
            at = end.offset
            if end.stop in BREAKS:
                following = self._newer_behind(at, min(times, default=0))
                if following is None:
                    return _tail(at, last)
                at = following

    def _is_still_there(self, known: Tail) -> bool:
        """Is the last record as it was? A log that was cut and written on has another."""
        data = read(self._file, known.last - self._base, known.end - known.last)
        try:
            found = decode_record(data, at=known.last)
        except CorruptRecord:
            return False
        return isinstance(found, Record) and found.total_size == len(data)

    def _newer_behind(self, offset: int, store_timestamp: int) -> int | None:
        """Where the log goes on behind a break."""
        written = self._written_from(offset)
        if written is None:
            return None
        following = self._search.behind_damage(offset, min(written + 2 * PROBE, self._file_end))
        if following is None:
            return None
        return following if self._time_of(following) >= store_timestamp else None

    def _newest_record(self) -> int:
        """A record from which the chain leads to the end: near the last bytes written, unless a record far in
        front of those is newer."""
        last = self._search.before(self._last_written())
        newest, time, distance, at = last, self._time_of(last), LOOK_BACK, last
        while at > self._base:
            at = self._search.before(max(last - distance, self._base))
            distance *= 2
            if self._time_of(at) > time:
                newest, time = at, self._time_of(at)
        return newest

    def _time_of(self, offset: int) -> int:
        """When the record there was stored, in ms."""
        head = read(self._file, offset - self._base, layout.BODY_AT + layout.IPV6_EXTRA).ljust(layout.BODY_AT)
        born_v6 = head[layout.SYS_FLAG_AT + 3] & layout.SYS_BORN_HOST_V6
        at = layout.STORE_TIMESTAMP_AT + (layout.IPV6_EXTRA if born_v6 else 0)
        return int.from_bytes(head[at : at + 8], "big", signed=True)

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
        """The furthest place behind `offset`, of those at distances that double, that isn't zeros."""
        distances = [0] + [PROBE << power for power in range((self._file_end - offset).bit_length())]
        places = [offset + distance for distance in distances if offset + distance < self._file_end]
        return next((place for place in reversed(places) if not self._is_zero(place)), None)

    def _is_zero(self, offset: int) -> bool:
        data = read(self._file, offset - self._base, PROBE)
        return not np.frombuffer(data, np.uint8).any()


def _tail(end: int, last: tuple[int, bytes] | None) -> Tail:
    if last is None:
        return Tail(end, end)
    return Tail(last[0], last[0] if _is_torn(last[1]) else end)


def _last_of(records: Records) -> tuple[int, bytes]:
    """Offset and bytes of the last."""
    start, end = int(records.starts[-1]), int(records.ends[-1])
    return start + records.chunk.shift, records.chunk.octets[start:end].tobytes()


def _is_torn(raw: bytes) -> bool:
    try:
        record = decode_record(raw)
    except CorruptRecord:
        return True
    return isinstance(record, Record) and record.topic.endswith("\0")
