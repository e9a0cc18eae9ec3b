"""One record of the commit log: decode, encode, and the four things that are not a message.

`decode_record` looks at the bytes of one position and says what is there: a `Record`, a `Blank` (rest of the
file is filler), `END` (zeros: nothing was written yet), `NEED_DATA` (the record continues past the buffer),
or it raises `CorruptRecord`. It is a careful reader: besides RocketMQ's checks (magic, sum of lengths, CRC of
the body) it compares the physical offset when told where it reads, and refuses properties that end in zero
bytes, which is how a record torn by a crash looks in a pre-sized file although every other check passes.

This is the reference that the vectorised scan of `logcodec.scan` is tested against; being per record it is
for single look-ups and tools, not for walking gigabytes.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final, Literal

import msgspec
from isal.isal_zlib import crc32

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.properties import decode_properties

_INT: Final = struct.Struct(">i")


class Scan(Enum):
    """What a position can hold besides a record; use the module constants."""

    NEED_DATA = "the record continues past the buffer"
    END = "nothing is written here"


NEED_DATA: Final = Scan.NEED_DATA
END: Final = Scan.END


class CorruptRecord(ValueError):
    """These bytes are no record. `position` is where it would begin, in the buffer that was read."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} at {position}")
        self.reason = reason
        self.position = position


class Record(msgspec.Struct, frozen=True):
    """A stored message. Times in ms since the epoch, sizes and offsets in bytes; `body` is as stored."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    queue_offset: int
    physical_offset: int
    born_timestamp: int
    born_host: HostPort
    store_timestamp: int
    store_host: HostPort
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    raw_properties: bytes
    body_crc: int
    total_size: int
    version: int = 1

    @property
    def properties(self) -> dict[str, str]:
        """The properties as text; decoded anew at every call."""
        return decode_properties(self.raw_properties)

    @property
    def transaction_type(self) -> int:
        """One of layout.SYS_TRANSACTION_*."""
        return self.sys_flag & layout.SYS_TRANSACTION_MASK


class Blank(msgspec.Struct, frozen=True):
    """Filler up to the file's end, `total_size` bytes including its 8-byte head."""

    total_size: int


def crc(body: bytes | memoryview) -> int:
    """The stored body checksum: CRC-32 with its top bit cleared (0 for an empty body)."""
    return crc32(body) & layout.CRC_MASK


def decode_record(
    data: bytes | bytearray | memoryview,
    position: int = 0,
    *,
    check_crc: bool = True,
    at: int | None = None,
    max_size: int = layout.MAX_RECORD_SIZE,
) -> Record | Blank | Literal[Scan.NEED_DATA, Scan.END]:
    """What lies at `position` of `data`; `at` is the physical offset it should carry, if known.

    Raises CorruptRecord; never any other error for any input.
    """
    available = len(data) - position
    if available < layout.BLANK_HEAD_SIZE:
        return NEED_DATA
    total, magic = layout.RECORD_HEAD.unpack_from(data, position)
    if magic == layout.MAGIC_V1:
        version = 1
    elif magic == layout.MAGIC_V2:
        version = 2
    elif magic == layout.MAGIC_BLANK:
        if total < layout.BLANK_MIN_SIZE:
            raise CorruptRecord(f"blank of {total} bytes", position)
        return Blank(total)
    elif total == 0 and magic == 0:
        return END
    else:
        raise CorruptRecord(f"unknown magic {magic:08x}", position)
    if not layout.FIXED_SIZE <= total <= max_size:
        raise CorruptRecord(f"impossible record size {total}", position)
    if available < total:
        return NEED_DATA
    return _decode_message(data, position, total, version, check_crc, at)


def _decode_message(
    data: bytes | bytearray | memoryview,
    position: int,
    total: int,
    version: int,
    check_crc: bool,
    at: int | None,
) -> Record:
    end = position + total
    # The host lengths decide the layout of what surrounds the sysFlag itself, so it is looked at first.
    hosts = data[position + layout.SYS_FLAG_AT + 3] >> 4 & 3
    fields = layout.FIXED_FIELDS[hosts]
    body_at = position + fields.size
    if body_at > end:
        raise CorruptRecord(f"record of {total} bytes is too small for its hosts", position)
    head = fields.unpack_from(data, position)
    body_length, body_crc, physical_offset = head[-1], head[2], head[6]
    topic_at, properties_at = _parts(data, body_at + body_length, position, total, version, body_length)
    if at is not None and physical_offset != at:
        raise CorruptRecord(f"record says physical offset {physical_offset}, it lies at {at}", position)
    if properties_at < end and data[end - 1] == 0:
        raise CorruptRecord("properties end in zero bytes: the record is torn", position)
    body = bytes(data[body_at : body_at + body_length])
    if check_crc and body_length and crc(body) != body_crc:
        raise CorruptRecord(f"body checksum {crc(body):08x}, stored {body_crc:08x}", position)
    try:
        topic = str(data[topic_at : properties_at - 2], "utf-8")
    except UnicodeDecodeError:
        raise CorruptRecord("topic is not UTF-8", position) from None
    _, _, _, queue_id, flag, queue_offset, _, sys_flag, born_timestamp, *rest = head
    born_address, born_port, store_timestamp, store_address, store_port, reconsume_times, prepared, _ = rest
    return Record(
        topic=topic,
        queue_id=queue_id,
        flag=flag,
        sys_flag=sys_flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        born_timestamp=born_timestamp,
        born_host=HostPort(born_address, born_port),
        store_timestamp=store_timestamp,
        store_host=HostPort(store_address, store_port),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
        body=body,
        raw_properties=bytes(data[properties_at:end]),
        body_crc=body_crc,
        total_size=total,
        version=version,
    )


def _parts(
    data: bytes | bytearray | memoryview,
    topic_at: int,
    position: int,
    total: int,
    version: int,
    body_length: int,
) -> tuple[int, int]:
    """Where topic and properties begin, once all lengths are found to add up."""
    end = position + total
    topic_length = layout.TOPIC_LENGTH[version]
    if body_length < 0 or topic_at + topic_length.size > end:
        raise CorruptRecord(f"body length {body_length} in a record of {total} bytes", position)
    (topic_size,) = topic_length.unpack_from(data, topic_at)
    topic_at += topic_length.size
    properties_at = topic_at + topic_size + layout.PROPERTIES_LENGTH.size
    if topic_size < 0 or properties_at > end:
        raise CorruptRecord(f"topic length {topic_size} in a record of {total} bytes", position)
    (properties_size,) = layout.PROPERTIES_LENGTH.unpack_from(data, properties_at - 2)
    if properties_size < 0 or properties_at + properties_size != end:
        raise CorruptRecord(f"lengths don't add up to the record's {total} bytes", position)
    return topic_at, properties_at


def raw_properties(record: bytes | bytearray | memoryview) -> bytes:
    """The properties of a whole record that is known to be valid, without decoding the rest."""
    hosts = record[layout.SYS_FLAG_AT + 3] >> 4 & 3
    body_at = layout.FIXED_FIELDS[hosts].size
    (body_length,) = _INT.unpack_from(record, body_at - _INT.size)
    (_, magic) = layout.RECORD_HEAD.unpack_from(record)
    topic_length = layout.TOPIC_LENGTH[2 if magic == layout.MAGIC_V2 else 1]
    topic_at = body_at + body_length + topic_length.size
    (topic_size,) = topic_length.unpack_from(record, topic_at - topic_length.size)
    return bytes(record[topic_at + topic_size + layout.PROPERTIES_LENGTH.size :])


def record_size(body: int, topic: int, properties: int, sys_flag: int = 0, version: int = 1) -> int:
    """Total bytes of a record from the byte lengths of its parts."""
    hosts = (sys_flag >> 4 & 1) + (sys_flag >> 5 & 1)
    return layout.FIXED_SIZE + body + topic + properties + hosts * layout.IPV6_EXTRA + version - 1


def encode_record(record: Record) -> bytes:
    """The stored bytes. Sizes are computed, the checksum is taken as it is (so damaged ones can be built).

    ValueError when a part is too long for its length field or `sys_flag` contradicts the hosts.
    """
    topic = record.topic.encode()
    limit = layout.MAX_TOPIC_LENGTH if record.version == 1 else layout.MAX_TOPIC_LENGTH_V2
    if len(topic) > limit:
        raise ValueError(f"topic of {len(topic)} bytes, at most {limit} fit")
    if len(record.raw_properties) > layout.MAX_PROPERTIES_LENGTH:
        raise ValueError(f"properties of {len(record.raw_properties)} bytes, at most 32767 fit")
    if host_bits(record.born_host, record.store_host) != record.sys_flag & 0x30:
        raise ValueError(f"sysFlag {record.sys_flag:#x} contradicts the hosts' address lengths")
    total = record_size(
        len(record.body), len(topic), len(record.raw_properties), record.sys_flag, record.version
    )
    head = layout.FIXED_FIELDS[record.sys_flag >> 4 & 3].pack(
        *(total, layout.MAGIC_V1 if record.version == 1 else layout.MAGIC_V2, record.body_crc),
        *(record.queue_id, record.flag, record.queue_offset, record.physical_offset, record.sys_flag),
        *(record.born_timestamp, *record.born_host, record.store_timestamp, *record.store_host),
        *(record.reconsume_times, record.prepared_transaction_offset, len(record.body)),
    )
    topic_length = layout.TOPIC_LENGTH[record.version].pack(len(topic))
    properties_length = layout.PROPERTIES_LENGTH.pack(len(record.raw_properties))
    return b"".join((head, record.body, topic_length, topic, properties_length, record.raw_properties))


def host_bits(born_host: HostPort, store_host: HostPort) -> int:
    """The sysFlag bits that say which hosts are IPv6."""
    born = layout.SYS_BORN_HOST_V6 if born_host.is_ipv6 else 0
    return born | (layout.SYS_STORE_HOST_V6 if store_host.is_ipv6 else 0)


LOOPBACK: Final = HostPort(b"\x7f\x00\x00\x01", 10911)


def make_record(
    topic: str,
    body: bytes,
    *,
    raw_properties: bytes = b"",
    queue_id: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    born_timestamp: int = 0,
    born_host: HostPort = LOOPBACK,
    store_timestamp: int = 0,
    store_host: HostPort = LOOPBACK,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    version: int = 1,
) -> Record:
    """A consistent record: checksum, size and the host bits of `sys_flag` are worked out here."""
    sys_flag = sys_flag & ~0x30 | host_bits(born_host, store_host)
    return Record(
        topic=topic,
        queue_id=queue_id,
        flag=flag,
        sys_flag=sys_flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        born_timestamp=born_timestamp,
        born_host=born_host,
        store_timestamp=store_timestamp,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
        body=body,
        raw_properties=raw_properties,
        body_crc=crc(body),
        total_size=record_size(len(body), len(topic.encode()), len(raw_properties), sys_flag, version),
        version=version,
    )


def encode_blank(size: int) -> bytes:
    """The 8-byte head of a blank that fills `size` bytes; what follows it may be anything."""
    if size < layout.BLANK_MIN_SIZE:
        raise ValueError(f"a blank needs {layout.BLANK_MIN_SIZE} bytes, not {size}")
    return layout.RECORD_HEAD.pack(size, layout.MAGIC_BLANK)
