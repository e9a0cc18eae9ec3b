"""Showing records: all that a filter selects, the last few, and new ones as they come.

Filtering goes by columns where it can: topic, queue and time of a whole chunk are compared at once, and only
what remains is decoded. Keys lie in the properties, so a chunk that doesn't hold the key's bytes at all is
skipped with one search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.logwalk import WITHOUT_CRC, LogWalk, is_torn
from hatwisted.logcodec.octets import Longs
from hatwisted.logcodec.onerecord import record_at
from hatwisted.logcodec.recordsearch import RecordSearch, records_after
from hatwisted.logcodec.scan import Records, Stop
from hatwisted.logcodec.window import LogWindow, filled_from
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.wire import layout
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import Record

POLL_INTERVAL: Final = 0.2
"""Seconds between looks at a log that is followed."""
FOLLOW_CHUNK: Final = 1 << 20
"""Bytes read per look."""
STALLED: Final = 25
"""Looks (5 s) after which a record that stays invalid counts as damage."""


@dataclass(frozen=True, kw_only=True)
class RecordFilter:
    """Which records to show; None lets everything through. Offsets in bytes, times in ms, ends exclusive."""

    topic: str | None = None
    queue_id: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    from_time: int | None = None
    to_time: int | None = None
    key: str | None = None

    def records(self, scan: Records) -> Iterator[Record]:
        """The records of a scan that pass, decoded."""
        if self.key is not None and self.key.encode() not in bytes(scan.buf):
            return
        for position in scan.positions[self._rows(scan)].tolist():
            record = decode_record(scan.buf, position, check_crc=False, whole=True)
            if isinstance(record, Record) and (self.key is None or self._has_key(record)):
                yield record

    def _rows(self, scan: Records) -> npt.NDArray[np.bool_]:
        rows = np.ones(len(scan), np.bool_)
        if self.topic is not None:
            rows &= scan.topic_rows == (scan.topics.index(self.topic) if self.topic in scan.topics else -1)
        if self.queue_id is not None:
            rows &= scan.queue_ids == self.queue_id
        for column, low, high in (
            (scan.physical_offsets, self.from_offset, self.to_offset),
            (scan.store_timestamps, self.from_time, self.to_time),
        ):
            rows &= _within(column, low, high)
        return rows

    def _has_key(self, record: Record) -> bool:
        properties = record.properties
        keys = properties.get(layout.PROPERTY_KEYS, "").split(layout.KEY_SEPARATOR)
        return self.key in keys or self.key == properties.get(layout.PROPERTY_UNIQ_KEY)

    def is_past(self, scan: Records) -> bool:
        """Does all that follows lie after the end? Store times rise along the log, give or take a clock that
        was set back."""
        if self.to_offset is not None and scan.base + scan.end.position >= self.to_offset:
            return True
        return self.to_time is not None and len(scan) > 0 and int(scan.store_timestamps.min()) >= self.to_time


def _within(column: Longs, low: int | None, high: int | None) -> npt.NDArray[np.bool_]:
    rows = np.ones(len(column), np.bool_)
    if low is not None:
        rows &= column >= low
    if high is not None:
        rows &= column < high
    return rows


def start_of(log: FileQueue, wanted: RecordFilter) -> int:
    """Where to start reading: the first record at or after the wanted offset, or the start of the file that
    may hold the first of the wanted time."""
    start = log.min_offset
    if wanted.from_time is not None:
        for file_start in log.starts[1:]:
            first = record_at(log, file_start, check_crc=False)
            if first is None or first.store_timestamp >= wanted.from_time:
                break
            start = file_start
    if wanted.from_offset is not None and wanted.from_offset > start:
        start = _record_from(log, wanted.from_offset)
    return start


def _record_from(log: FileQueue, offset: int) -> int:
    """Where the first valid record at or after `offset` begins; the end of the files without one."""
    return RecordSearch(log, offset).at_or_after(offset) if offset < log.capacity_end else log.capacity_end


def dump(
    log: FileQueue,
    wanted: RecordFilter,
    limit: int | None,
    show: Callable[[Record], None],
    progress: Callable[[int], None] = lambda offset: None,
) -> LogWalk:
    """Show what passes the filter. Returns the walk, which knows the damage it met.

    - log: which
    - wanted: the filter
    - limit: records shown at most; None: all
    - show: called with each
    - progress: called with the offset reached
    """
    walk = LogWalk(log, start_of(log, wanted), options=WITHOUT_CRC, progress=progress)
    left = limit
    if left == 0:
        return walk
    for scan in walk:
        for record in wanted.records(scan):
            show(record)
            if left is not None:
                left -= 1
                if not left:  # the next one may be far away, or nowhere
                    return walk
        if wanted.is_past(scan):
            break
    return walk


def last_records(log: FileQueue, wanted: RecordFilter, count: int) -> tuple[list[Record], int]:
    """The last records that pass, in log order, and the offset after the log's last record.

    - log: which
    - wanted: the filter
    - count: records at most

    File by file from the newest on: each begins with a record, so nothing before it has to be read.
    """
    found: list[Record] = []
    end = None
    for start in reversed(log.starts):
        latest: deque[Record] = deque(maxlen=count - len(found))
        walk = LogWalk(log, start, stop=start + log.file_size, options=WITHOUT_CRC)
        for scan in walk:
            latest.extend(wanted.records(scan))
        if end is None and walk.at > start:
            end = walk.at
        found = [*latest, *found]
        if len(found) == count and end is not None:  # a file that was made ahead holds nothing yet
            break
    return found, log.min_offset if end is None else end


def follow(
    log: FileQueue, at: int, wanted: RecordFilter, sleep: Callable[[float], None], warn: Callable[[str], None]
) -> Iterator[Record]:
    """Records that pass, as they are appended; never ends by itself.

    - log: which
    - at: offset to begin at
    - wanted: the filter
    - sleep: waits for some seconds
    - warn: called with what is wrong

    A half-written record looks corrupt until its writer has finished, so it counts as damage only after STALLED
    looks.
    """
    window = LogWindow(filled_from(log), log.file_size, FOLLOW_CHUNK, check_crc=True)
    idle = 0
    while True:
        log.load()
        at = _still_held(log, at, wanted, warn)
        records = window.records(at, log.capacity_end) if at < log.capacity_end else None
        reached = at
        if records is not None:
            end, reached = records.end, records.end_offset
            half = _half_written(records) if idle < STALLED - 1 else None
            if half is None:
                yield from wanted.records(records)
            else:
                before = half if wanted.to_offset is None else min(half, wanted.to_offset)
                yield from replace(wanted, to_offset=before).records(records)
                reached = half
            if half is None and end.stop is Stop.BLANK:
                reached = log.capacity_end_of(reached)
            elif half is None and idle == STALLED - 1 and reached == at and end.stop is Stop.CORRUPT:
                warn(f"no valid record at offset {at}: {end.reason}")
                following = next(records_after(log, at, log.capacity_end), None)
                reached = at if following is None else following.physical_offset
        idle = 0 if reached > at else idle + 1
        at = reached
        if idle:
            sleep(POLL_INTERVAL)


def _half_written(records: Records) -> int | None:
    """Offset of the last record if its properties end in zeros, and nothing follows it."""
    if not len(records) or records.end.stop is not Stop.END:
        return None
    at = int(records.positions[-1])
    raw = bytes(records.buf[at : at + int(records.sizes[-1])])
    return records.base + at if is_torn(raw) else None


def _still_held(log: FileQueue, at: int, wanted: RecordFilter, warn: Callable[[str], None]) -> int:
    """Where to go on: files may have been deleted meanwhile, or the log cut.

    - log: as it is now
    - at: where it would have gone on
    - wanted: the filter
    - warn: is told what has been missed
    """
    if log.starts and at < log.min_offset:
        warn(f"offsets {at} to {log.min_offset} have been deleted meanwhile")
        return log.min_offset
    if log.starts and at > log.capacity_end:
        _, end = last_records(log, wanted, 0)
        warn(f"the log was cut meanwhile, or is another one: it ends at {end}, not at {at}")
        return end
    return at
