"""What a start is refused with: the damage that a walk along the log has met."""

from __future__ import annotations

from typing import Protocol

from hatwisted.logcodec.logwalk import LogWalk
from hatwisted.logcodec.recordsearch import records_after
from hatwisted.store.errors import DamagedLog, NoRecord, OtherFileSize
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.wire import layout


class Extent(Protocol):
    """Where a recovery began to follow the log, and where that ends."""

    start: int
    end: int


def damaged(files: FileQueue, walk: LogWalk) -> DamagedLog | OtherFileSize:
    """What a walk that ended at damage has met.

    - files: of the log
    - walk: along them
    """
    (damage,) = walk.damages
    size, magic = layout.RECORD_HEAD.unpack(
        files.read(damage.offset, layout.BLANK_HEAD_SIZE).ljust(layout.BLANK_HEAD_SIZE, b"\0")
    )
    if magic == layout.MAGIC_BLANK and damage.offset + size == damage.resumes_at:
        return OtherFileSize(damage.resumes_at, files.file_size)
    path = files.path_of(damage.offset)
    return DamagedLog(damage.offset, damage.resumes_at, walk.written, damage.reason, path)


def damaged_before(files: FileQueue, found: NoRecord, extent: Extent, check_crc: bool) -> DamagedLog:
    """The same in what wasn't followed, met by a dispatch that had to begin further back.

    - files: of the log
    - found: where no record was
    - extent: what was followed
    - check_crc: were bodies' checksums compared?
    """
    following = records_after(files, found.offset, extent.start, check_crc=check_crc)
    resumes_at = next((record.physical_offset for record in following), extent.start)
    return DamagedLog(found.offset, resumes_at, extent.end, found.reason, files.path_of(found.offset))


def is_whole(files: FileQueue, offset: int, end: int) -> bool:
    """Was all that begins at an offset there when the log had this end? By its length, or if that has gone bad.

    - files: of the log
    - offset: where a record should be
    - end: the log's, then
    """
    if end - offset < layout.BLANK_HEAD_SIZE:
        return False
    size, magic = layout.RECORD_HEAD.unpack(files.read(offset, layout.BLANK_HEAD_SIZE).ljust(8, b"\0"))
    return magic not in (layout.MAGIC_V1, layout.MAGIC_V2) or offset + size <= end
