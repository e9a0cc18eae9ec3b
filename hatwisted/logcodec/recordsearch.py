"""Looking for records where the chain of sizes doesn't lead: behind damage, behind a log's end, in mid-range.

A record is recognised by its magic, the physical offset it carries, its lengths and its body's checksum; all of
them together are never met by chance. Knows nothing of Twisted: whatever can read bytes at an offset will do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from hatwisted.logcodec.scan import LARGEST_RECORD
from hatwisted.wire import layout
from hatwisted.wire.record import CorruptRecord, Record, decode_record

CHUNK: Final = 1 << 20
"""Bytes of log read at once."""

_ZEROS: Final = bytes(CHUNK)

ZEROS_BEHIND: Final = 128 << 20
"""Zeros in a row (bytes) behind which nothing more is looked for. What was written last and lost while later
bytes were not is at most what a disk's cache may reorder; reading a file's untouched gigabyte takes seconds."""


class LogBytes(Protocol):
    """Log files as one stream of bytes; offsets are physical."""

    @property
    def file_size(self) -> int:
        """Bytes of each file."""

    @property
    def capacity_end(self) -> int:
        """Where the last file ends."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at a file's end."""


_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (layout.MAGIC_V1, layout.MAGIC_V2))


def written_end(files: LogBytes, offset: int, known: int = 0) -> int:
    """Offset behind the last byte at or behind `offset` that isn't zero; `offset` if there is none.

    known: something is said to have been written up to there, so it's looked at least that far.
    """
    end = offset
    for at, chunk in _chunks(files, offset, files.capacity_end):
        if chunk != _ZEROS[: len(chunk)]:
            end = at + len(chunk.rstrip(b"\0"))
        elif at - max(end, known) >= ZEROS_BEHIND:
            break
    return end


def _chunks(files: LogBytes, begin: int, end: int, overlap: int = 0) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of chunks from `begin` to `end`, each beginning `overlap` bytes before the last one's
    end. None crosses a file's end."""
    at = begin
    while at < end:
        chunk = files.read(at, min(CHUNK, end - at))
        yield at, chunk
        at += len(chunk)
        if at < end and at % files.file_size:
            at -= overlap


def valid_records_behind(
    files: LogBytes, offset: int, end: int, *, check_crc: bool = True
) -> Iterator[Record]:
    """Every valid record that begins in [offset, end), found by its magic and the offset it carries."""
    for at, chunk in _chunks(files, offset, end, overlap=layout.BLANK_HEAD_SIZE - 1):
        for position in _candidates(chunk):
            if (record := record_at(files, at + position, check_crc)) is not None:
                yield record


def _candidates(chunk: bytes) -> list[int]:
    """Positions of what looks like the size and magic of a record, ascending."""
    found = []
    for magic in _MAGICS:
        at = chunk.find(magic, 4)
        while at >= 0:
            found.append(at - 4)
            at = chunk.find(magic, at + 4)
    return sorted(found)


def begins_record(head: bytes, offset: int) -> bool:
    """Does a record of this very offset begin with `head` (FIXED_SIZE bytes)?"""
    physical = head[layout.PHYSICAL_OFFSET_AT : layout.PHYSICAL_OFFSET_AT + 8]
    return head[layout.MAGIC_AT : layout.MAGIC_AT + 4] in _MAGICS and physical == offset.to_bytes(8, "big")


def record_at(files: LogBytes, offset: int, check_crc: bool = True) -> Record | None:
    """The valid record that begins at `offset`, if there is one."""
    head = files.read(offset, layout.FIXED_SIZE)
    if head[layout.PHYSICAL_OFFSET_AT : layout.PHYSICAL_OFFSET_AT + 8] != offset.to_bytes(8, "big"):
        return None
    size = int.from_bytes(head[:4], "big")
    if size > LARGEST_RECORD:
        return None
    try:
        found = decode_record(files.read(offset, size), at=offset, check_crc=check_crc)
    except CorruptRecord:
        return None
    return found if isinstance(found, Record) else None
