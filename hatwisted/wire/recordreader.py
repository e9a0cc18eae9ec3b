"""The record at a position: all its fields, or what is there instead.

`decode_record` looks at the bytes at a position and says what is there: a `Record`, a `Blank` (rest of the
file is filler), `END` (zeros: nothing has been written yet), `NEED_DATA` (the record continues after the buffer),
or it raises `CorruptRecord`. It is strict: in addition to RocketMQ's checks (magic, sum of lengths, CRC of
the body) it compares the physical offset when told which to expect, and refuses properties that end in zero
bytes, which is how a record torn by a crash looks in a pre-sized file although every other check passes.

Some microseconds a record: for look-ups, and for clients that need every field of what they pull. The tests
compare it with `record`, which is written for readability.
"""

from __future__ import annotations

import struct
from typing import Final, Literal

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.storedrecord import END, NEED_DATA, Blank, CorruptRecord, Record, Scan, crc

_INT: Final = struct.Struct(">i")


def decode_record(
    data: bytes | bytearray | memoryview,
    position: int = 0,
    *,
    check_crc: bool = True,
    at: int | None = None,
    max_size: int = layout.MAX_RECORD_SIZE,
    whole: bool = False,
) -> Record | Blank | Literal[Scan.NEED_DATA, Scan.END]:
    """What lies at a position. Raises CorruptRecord; never any other error for any input.

    - data: a piece of log
    - position: in it
    - check_crc: compare the body's checksum
    - at: the physical offset it should carry; None: any
    - max_size: bytes; a longer one is damage
    - whole: it's known not to be torn, as others follow it or a broker has given it out: zeros at its end are a
      property's
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
    found = _decode_message(data, position, total, version, check_crc, at)
    if not whole and found.raw_properties.endswith(b"\0"):
        raise CorruptRecord("properties end in zero bytes: the record is torn", position)
    return found


def _decode_message(
    data: bytes | bytearray | memoryview,
    position: int,
    total: int,
    version: int,
    check_crc: bool,
    at: int | None,
) -> Record:
    end = position + total
    # The host lengths in sysFlag determine the layout around it, so it is read first.
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
    """Where topic and properties begin, after checking that all lengths add up."""
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
