"""What the files of one consume queue hold: where the entries in use end, and zeros for those that are cut.

A scan for the end begins a few files before it. That takes those before for whole, which a failure of power
doesn't leave them: of all that wasn't synced, whichever files it fills, any page may be missing. So the scan then
begins where the entries are known to have been synced.
"""

from __future__ import annotations

from hatwisted.logcodec.queueentry import BLANK_RECORD_SIZE, ENTRY_SIZE, PLACE, count_in_use, has_data
from hatwisted.store.log.filequeue import FileQueue

RECHECKED_FILES = 3
"""Files at a queue's end that are scanned for the last entry in use, as RocketMQ does."""

SCAN_CHUNK = 3276 * ENTRY_SIZE
"""Bytes read at once by a scan: 64 KiB, so that a short queue costs one read."""


def scan_begin(files: FileQueue, synced: int | None) -> int:
    """Where a scan for the end begins (bytes): all files before are whole.

    - files: of the queue, at least one
    - synced: entries of records that end at this log offset or before are on the disk; None: all that were
      written can be read
    """
    starts = files.starts
    number = max(0, len(starts) - RECHECKED_FILES)
    while number and synced is not None and not _names_before(files, starts[number], synced):
        number -= 1
    return starts[number]


def _names_before(files: FileQueue, at: int, end: int) -> bool:
    """Does the entry at `at` name a record that ends at `end` or before? A blank one names none."""
    physical, size = PLACE.unpack_from(files.read(at, ENTRY_SIZE))
    return bool(0 < size != BLANK_RECORD_SIZE and 0 <= physical <= end - size)


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
