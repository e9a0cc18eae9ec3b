"""Records one by one: the scan for a handful, when a batch of numpy calls would cost more than it saves.

Same rules and same results as `scan` and `dispatchscan` (a property test compares them), as plain
values instead of columns. About 8 us a record, whereas the columns take some 150 us for one record and 260 us
for two hundred.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from hatwisted.logcodec.delaylevel import deliver_time
from hatwisted.logcodec.dispatchscan import topic_prefix
from hatwisted.logcodec.keyhash import index_hash
from hatwisted.logcodec.octets import Buffer
from hatwisted.logcodec.scan import MAX_RECORDS, ScanEnd, look, walk
from hatwisted.wire import layout
from hatwisted.wire.javahash import java_hash
from hatwisted.wire.properties import find_property

FEW: Final = 20
"""Records up to which this is cheaper than the columns."""


class Entry(NamedTuple):
    """What one record means to its consume queue and to the index.

    physical_offset, size: bytes; store_timestamp: ms; key_hashes: of its index items, UNIQ_KEY's first.
    """

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    tags_code: int
    key_hashes: tuple[int, ...]


_SKIPPED: Final = "8x"
"""A host: address and port."""
_FIXED: Final = struct.Struct(f">ii4xi4xqqi8x{_SKIPPED}q{_SKIPPED}4x8xi").unpack_from
_TIMESTAMP: Final = struct.Struct(">q").unpack_from
_LENGTH: Final = struct.Struct(">i").unpack_from
_SHORT: Final = struct.Struct(">h").unpack_from
_V6_HOSTS: Final = layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6
_KEYS: Final = layout.PROPERTY_KEYS.encode()
_UNIQ_KEY: Final = layout.PROPERTY_UNIQ_KEY.encode()
_TAGS: Final = layout.PROPERTY_TAGS.encode()
_DELAY: Final = layout.PROPERTY_DELAY.encode()


def scan_few(
    buf: Buffer, base: int, delay_levels: Sequence[int], *, start: int = 0, limit: int = MAX_RECORDS
) -> tuple[list[Entry], ScanEnd]:
    """The records of a piece of log, and why there are no more.

    - buf: the piece
    - base: physical offset of its first byte
    - delay_levels: ms by level, from level 1 on
    - start: position of the first record
    - limit: records at most
    """
    positions, end = walk(buf, start, limit)
    return decode_few(buf, base, positions, end, delay_levels)


def decode_few(
    buf: Buffer, base: int, positions: Sequence[int], end: ScanEnd, delay_levels: Sequence[int]
) -> tuple[list[Entry], ScanEnd]:
    """The entries of walked records, cut before the first that isn't valid.

    - buf: the piece of log
    - base: physical offset of its first byte
    - positions: where in it the records begin
    - end: why there are no more
    - delay_levels: ms by level, from level 1 on
    """
    entries: list[Entry] = []
    for at in positions:
        entry = _entry(buf, at, base + at, delay_levels)
        if entry is None:
            return entries, look(buf, at, base)
        entries.append(entry)
    return entries, end


def _entry(buf: Buffer, at: int, offset: int, delay_levels: Sequence[int]) -> Entry | None:
    """The record at `at`, which carries `offset`; None if it isn't valid."""
    size, magic, queue_id, queue_offset, physical, sys_flag, store_timestamp, body = _FIXED(buf, at)
    end = at + size
    topic_at = at + layout.BODY_AT + body
    if sys_flag & _V6_HOSTS:
        born = (sys_flag >> 4 & 1) * layout.IPV6_EXTRA
        both = born + (sys_flag >> 5 & 1) * layout.IPV6_EXTRA
        if size < layout.FIXED_SIZE + both:
            return None
        (store_timestamp,) = _TIMESTAMP(buf, at + layout.STORE_TIMESTAMP_AT + born)
        (body,) = _LENGTH(buf, at + layout.BODY_LENGTH_AT + both)
        topic_at = at + layout.BODY_AT + both + body
    if body < 0 or physical != offset or topic_at + 3 > end:
        return None
    length = buf[topic_at]
    topic_at += 1
    if magic == layout.MAGIC_V2_SIGNED:
        (length,) = _SHORT(buf, topic_at - 1)
        topic_at += 1
    elif length > layout.MAX_TOPIC_LENGTH:
        return None
    properties_at = topic_at + length + 2
    if length < 0 or properties_at > end or _SHORT(buf, properties_at - 2)[0] != end - properties_at:
        return None
    topic = _topic(bytes(buf[topic_at : topic_at + length]))
    if topic is None:
        return None
    raw = bytes(buf[properties_at:end])
    tags_code = _tags_code(raw, topic, store_timestamp, delay_levels)
    rolled_back = sys_flag & layout.SYS_TRANSACTION_MASK == layout.SYS_TRANSACTION_ROLLBACK
    hashes = () if rolled_back else _key_hashes(raw, topic)
    return Entry(physical, size, topic, queue_id, queue_offset, sys_flag, store_timestamp, tags_code, hashes)


@lru_cache(maxsize=4096)
def _topic(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


@lru_cache(maxsize=4096)
def _tag_hash(tags: bytes) -> int:
    return java_hash(tags.decode("utf-8", "replace"))


def _tags_code(raw: bytes, topic: str, store_timestamp: int, delay_levels: Sequence[int]) -> int:
    if topic == layout.SCHEDULE_TOPIC:
        due = deliver_time(find_property(raw, _DELAY) or b"", store_timestamp, delay_levels)
        if due is not None:
            return due
    tags = find_property(raw, _TAGS)
    return _tag_hash(tags) if tags else 0


def key_hash(topic: str, key: str) -> int:
    """The hash under which the index has this key of this topic."""
    return index_hash(topic_prefix(topic), key.encode("utf-8", "replace"))


def _key_hashes(raw: bytes, topic: str) -> tuple[int, ...]:
    uniq_key, keys = find_property(raw, _UNIQ_KEY), find_property(raw, _KEYS)
    names = keys.split(b" ") if keys else []
    if uniq_key:
        names.insert(0, uniq_key)
    prefix = topic_prefix(topic)
    return tuple([index_hash(prefix, name) for name in names if name])
