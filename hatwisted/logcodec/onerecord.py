"""One record, by an offset from outside.

Nothing here trusts that offset: a peer may send any number, and a wrong one lands in the middle of a record.
Magic, physical offset and size have to agree before bytes are handed out as a record. (A body may hold bytes that
do: whether something is a record of the log, only the chain and the queues say; see `recordsearch`.)
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

from hatwisted.logcodec.scan import LARGEST_RECORD
from hatwisted.wire import layout
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import CorruptRecord, Record

NO_TIME: Final = -1
"""RocketMQ's answer where there is no record to take a time from."""

_LONG: Final = struct.Struct(">q")
_HEAD_BYTES: Final = layout.BODY_AT + layout.IPV6_EXTRA
"""Enough of a record to see its store timestamp, however its born host is written."""
_MAGICS: Final = (layout.MAGIC_V1, layout.MAGIC_V2)


class ReadableBytes(Protocol):
    """Whatever reads a log."""

    def read(self, offset: int, size: int, /) -> bytes:
        """Up to `size` bytes at a physical offset."""


def whole_record(raw: bytes, *, offset: int | None = None, check_crc: bool = False) -> Record | None:
    """The record that these bytes begin with, if it's whole; `offset`: the physical one it has to carry."""
    try:
        found = decode_record(raw, check_crc=check_crc, at=offset)
    except CorruptRecord:
        return None
    return found if isinstance(found, Record) else None


def record_at(log: ReadableBytes, offset: int, *, check_crc: bool = True) -> Record | None:
    """The whole record that begins at `offset`, if there is one."""
    raw = raw_record_at(log, offset)
    return None if raw is None else whole_record(raw, offset=offset, check_crc=check_crc)


def raw_record_at(log: ReadableBytes, offset: int) -> bytes | None:
    """The bytes of the record whose head is at `offset`, if all of them are there."""
    head = _head_at(log, offset)
    if head is None:
        return None
    size, _ = layout.RECORD_HEAD.unpack_from(head)
    record = log.read(offset, size) if size <= LARGEST_RECORD else b""
    return record if len(record) == size else None


def store_timestamp_at(log: ReadableBytes, offset: int) -> int:
    """storeTimestamp (ms) of the record whose head is at `offset`, NO_TIME if none is."""
    head = _head_at(log, offset)
    if head is None:
        return NO_TIME
    born_v6 = head[layout.SYS_FLAG_AT + 3] & layout.SYS_BORN_HOST_V6
    timestamp: int = _LONG.unpack_from(
        head, layout.STORE_TIMESTAMP_AT + (layout.IPV6_EXTRA if born_v6 else 0)
    )[0]
    return timestamp


def _head_at(log: ReadableBytes, offset: int) -> bytes | None:
    """The begin of the record at `offset`, if magic, physical offset and size can be those of one."""
    head = log.read(offset, _HEAD_BYTES)
    if len(head) < layout.FIXED_SIZE:
        return None
    size, magic = layout.RECORD_HEAD.unpack_from(head)
    (physical,) = _LONG.unpack_from(head, layout.PHYSICAL_OFFSET_AT)
    return head if magic in _MAGICS and physical == offset and size >= layout.FIXED_SIZE else None
