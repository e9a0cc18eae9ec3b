"""One record, at an offset that a peer names.

Nothing here trusts that offset: a peer may send any number, and a wrong one may be in the middle of a record.
Magic, physical offset and size have to agree before bytes are handed out as a record. (A body may contain bytes
that do: only the chain and the queues can tell whether something is a record of the log; see `recordsearch`.)
"""

from __future__ import annotations

from typing import Final, Protocol

from hatwisted.logcodec.recordhead import LARGEST_HEAD, MAGICS, RecordHead, read_head
from hatwisted.logcodec.scan import LARGEST_RECORD
from hatwisted.wire import layout
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import CorruptRecord, Record

AT_ONCE: Final = 1 << 10
"""Bytes that are read of a record before its size is known: most have no more, and take one read."""

NO_TIME: Final = -1
"""RocketMQ's answer where there is no record to take a time from."""


class ReadableBytes(Protocol):
    """Anything that reads a log."""

    def read(self, offset: int, size: int, /) -> bytes:
        """Up to `size` bytes at a physical offset."""


def whole_record(raw: bytes, *, offset: int | None = None, check_crc: bool = False) -> Record | None:
    """The record that these bytes begin with, if it's complete.

    - raw: the bytes
    - offset: the physical one it has to carry; None: any
    - check_crc: compare its body's checksum
    """
    try:
        found = decode_record(raw, check_crc=check_crc, at=offset)
    except CorruptRecord:
        return None
    return found if isinstance(found, Record) else None


def record_at(log: ReadableBytes, offset: int, *, check_crc: bool = True) -> Record | None:
    """The whole record that begins at an offset, if there is one.

    - log: its bytes
    - offset: physical; may be any number
    - check_crc: compare its body's checksum
    """
    raw = raw_record_at(log, offset)
    return None if raw is None else whole_record(raw, offset=offset, check_crc=check_crc)


def raw_record_at(log: ReadableBytes, offset: int) -> bytes | None:
    """The bytes of the record whose head is at `offset`, if all of them are there."""
    start = log.read(offset, AT_ONCE)
    head = _head_of(start, offset)
    if head is None or head.size > LARGEST_RECORD:
        return None
    record = start[: head.size] if head.size <= len(start) else log.read(offset, head.size)
    return record if len(record) == head.size else None


def store_timestamp_at(log: ReadableBytes, offset: int) -> int:
    """storeTimestamp (ms) of the record whose head is at `offset`, NO_TIME if none is."""
    head = _head_of(log.read(offset, LARGEST_HEAD), offset)
    return NO_TIME if head is None else head.store_timestamp


def _head_of(start: bytes, offset: int) -> RecordHead | None:
    """The head that bytes at `offset` begin with, if magic, physical offset and size can be those of a record
    there."""
    head = read_head(start)
    if head is None or head.magic not in MAGICS or head.physical_offset != offset:
        return None
    return head if head.size >= layout.FIXED_SIZE else None
