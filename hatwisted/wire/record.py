"""One record of the commit log, field by field as docs/formats.md lists them: the oracle that the tests
compare all codecs with.

Nothing but tests and benchmarks imports this. It shares no step with the codecs of `logcodec` (no table of
offsets, no precompiled struct, no shortcut), and is as slow as it takes to be obviously right.
"""

from __future__ import annotations

from typing import Final, Literal

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.storedrecord import END, NEED_DATA, Blank, CorruptRecord, Record, Scan, crc


class _Fields:
    """Takes one field after another from some bytes, which begin at `position` of the input."""

    def __init__(self, data: bytes, position: int) -> None:
        self._position = position
        self.left = data

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if not 0 <= size <= len(self.left):
            raise CorruptRecord(f"a field of {size} bytes where {len(self.left)} are left", self._position)
        field, self.left = self.left[:size], self.left[size:]
        return field

    def number(self, size: int) -> int:
        """The next signed number."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def host(self, is_ipv6: bool) -> HostPort:
        """The next address, and the port after it."""
        return HostPort(self.take(16 if is_ipv6 else 4), self.number(4))


def decode_record(
    data: bytes | bytearray | memoryview,
    position: int = 0,
    *,
    check_crc: bool = True,
    at: int | None = None,
    max_size: int = layout.MAX_RECORD_SIZE,
) -> Record | Blank | Literal[Scan.NEED_DATA, Scan.END]:
    """As recordreader.decode_record, field by field."""
    if len(data) - position < 8:
        return NEED_DATA
    head = _Fields(bytes(data[position : position + 8]), position)
    total, magic = head.number(4), head.number(4) & 0xFFFFFFFF
    if (total, magic) == (0, 0):
        return END
    if magic == layout.MAGIC_BLANK:
        if total < layout.BLANK_MIN_SIZE:
            raise CorruptRecord("a blank shorter than its head", position)
        return Blank(total)
    if magic not in (layout.MAGIC_V1, layout.MAGIC_V2):
        raise CorruptRecord("unknown magic", position)
    if not layout.FIXED_SIZE <= total <= max_size:
        raise CorruptRecord("impossible size", position)
    if position + total > len(data):
        return NEED_DATA
    fields = _Fields(bytes(data[position + 8 : position + total]), position)
    record = _record(fields, total, 1 if magic == layout.MAGIC_V1 else 2)
    if fields.left:
        raise CorruptRecord("the lengths end before the record", position)
    if at is not None and record.physical_offset != at:
        raise CorruptRecord("another physical offset", position)
    if record.raw_properties.endswith(b"\0"):
        raise CorruptRecord("torn in its properties", position)
    if check_crc and record.body and crc(record.body) != record.body_crc:
        raise CorruptRecord("wrong body checksum", position)
    return record


def _record(fields: _Fields, total: int, version: int) -> Record:
    """The fields after the magic, in their order."""
    body_crc = int.from_bytes(fields.take(4), "big")
    queue_id, flag = fields.number(4), fields.number(4)
    queue_offset, physical_offset = fields.number(8), fields.number(8)
    sys_flag = fields.number(4)
    born_timestamp = fields.number(8)
    born_host = fields.host(bool(sys_flag & layout.SYS_BORN_HOST_V6))
    store_timestamp = fields.number(8)
    store_host = fields.host(bool(sys_flag & layout.SYS_STORE_HOST_V6))
    reconsume_times, prepared = fields.number(4), fields.number(8)
    body = fields.take(fields.number(4))
    topic = fields.take(fields.number(version))
    raw_properties = fields.take(fields.number(2))
    try:
        name = topic.decode()
    except UnicodeDecodeError:
        raise CorruptRecord("topic is not UTF-8", 0) from None
    return Record(
        topic=name,
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
        prepared_transaction_offset=prepared,
        body=body,
        raw_properties=raw_properties,
        body_crc=body_crc,
        total_size=total,
        version=version,
    )


def record_size(body: int, topic: int, properties: int, sys_flag: int = 0, version: int = 1) -> int:
    """Total bytes of a record.

    - body, topic, properties: bytes of each
    - sys_flag: says which hosts are IPv6
    - version: 2 for topics longer than 127 bytes
    """
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
    """A consistent record of the given fields; size and checksum are computed.

    - topic, body, queue_id, queue_offset, physical_offset, flag, reconsume_times, version: as Record
    - prepared_transaction_offset, born_host, store_host: as Record
    - raw_properties: as they lie in the record
    - sys_flag: without the bits that say which hosts are IPv6
    - born_timestamp, store_timestamp: ms
    """
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
