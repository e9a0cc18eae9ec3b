"""What the files of one consume queue hold: where the entries in use end, and zeros for those that are cut."""

from __future__ import annotations

from hatwisted.logcodec.queueentry import ENTRY_SIZE, count_in_use, has_data
from hatwisted.store.log.filequeue import FileQueue

RECHECKED_FILES = 3
"""Files at a queue's end that are scanned for the last entry in use, as RocketMQ does."""

SCAN_CHUNK = 3276 * ENTRY_SIZE
"""Bytes read at once by a scan: 64 KiB, so that a short queue costs one read."""


def entries_end(files: FileQueue, at: int) -> tuple[int, bool]:
    """(end of the entries in use from `at` on, does something else than zeros follow it closely); bytes."""
    floor = 0
    while at < files.capacity_end:
        chunk = files.read(at, SCAN_CHUNK)
        count, floor = count_in_use(chunk, floor)
        at += count * ENTRY_SIZE
        if count * ENTRY_SIZE < len(chunk):
            return at, has_data(chunk[count * ENTRY_SIZE :])
    return at, False


def zero_entries(files: FileQueue, begin: int, end: int) -> None:
    """Zero [begin, end) as far as it isn't yet: holes stay holes.

    - files: of the queue
    - begin, end: bytes of its stream
    """
    while begin < end:
        chunk = files.read(begin, min(SCAN_CHUNK, end - begin))
        if has_data(chunk):
            files.write(begin, (bytes(len(chunk)),))
        begin += len(chunk)
