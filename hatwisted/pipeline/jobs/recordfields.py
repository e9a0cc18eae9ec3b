"""Which field of a record a byte belongs to: what an audit says about the first byte that differs."""

from __future__ import annotations

from collections.abc import Iterator

from hatwisted.logcodec.onerecord import whole_record
from hatwisted.wire import layout
from hatwisted.wire.storedrecord import Record

_V4 = 8
"""Bytes of a host field with an IPv4 address."""

_BEFORE_HOSTS = (
    ("total size", 4),
    ("magic", 4),
    ("body CRC", 4),
    ("queue id", 4),
    ("flag", 4),
    ("queue offset", 8),
    ("physical offset", 8),
    ("sysFlag", 4),
    ("born timestamp", 8),
)


def field_at(raw: bytes, position: int) -> tuple[str, int]:
    """(field, position in it) of a byte of a record; bytes that aren't a whole record are all "record"."""
    record = whole_record(raw)
    if record is None:
        return "record", position
    start = 0
    for name, size in _sizes(record):
        if position < start + size:
            return name, position - start
        start += size
    return "record", position


def _sizes(record: Record) -> Iterator[tuple[str, int]]:
    """The fields in their order on disk, with their lengths in bytes."""
    born_v6 = bool(record.sys_flag & layout.SYS_BORN_HOST_V6) * layout.IPV6_EXTRA
    store_v6 = bool(record.sys_flag & layout.SYS_STORE_HOST_V6) * layout.IPV6_EXTRA
    yield from _BEFORE_HOSTS
    yield "born host", _V4 + born_v6
    yield "store timestamp", 8
    yield "store host", _V4 + store_v6
    yield "reconsume times", 4
    yield "prepared transaction offset", 8
    yield "body length", 4
    yield "body", len(record.body)
    yield "topic length", layout.TOPIC_LENGTH[record.version].size
    yield "topic", len(record.topic.encode())
    yield "properties length", layout.PROPERTIES_LENGTH.size
    yield "properties", len(record.raw_properties)
