"""Where a log's last record begins: found from its end backwards, by `logcodec.recordsearch`."""

from __future__ import annotations

from hatwisted.logcodec.recordsearch import RecordSearch
from hatwisted.logcodec.scan import walk
from hatwisted.store.log.filequeue import FileQueue

SEARCH_CHUNK = 1 << 20
"""Bytes read at once in search of the last record: longer than most, and some ms of work."""


def last_record_start(files: FileQueue, log_end: int) -> int:
    """Offset of the last whole record below `log_end`, or the log's first byte if there is none."""
    at = log_end
    while at > files.min_offset:
        end, at = at, RecordSearch(files, at - 1, at).before(at - 1)
        last = _last_record(files, at, end)
        if last is not None:
            return last
    return at


def _last_record(files: FileQueue, at: int, end: int) -> int | None:
    """The last whole record of those that follow one another from `at` on, before `end`, if there is
    one."""
    last = None
    while at < end:
        chunk = files.read(at, min(SEARCH_CHUNK, end - at))
        positions, stop = walk(chunk)
        if not positions and stop.size > len(chunk) == SEARCH_CHUNK:
            chunk = files.read(at, min(stop.size, end - at))
            positions, stop = walk(chunk)
        if not positions:
            break
        last = at + positions[-1]
        at += stop.position
    return last
