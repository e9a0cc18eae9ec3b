"""The record layout of the commit log and the names, bits and limits around it, on one page.

Encoder, decoder, vectorised scan and command line all take their numbers from here, so this is the one place
to compare with the format's description (docs/formats.md, sections 2, 3 and 7). All integers are big-endian and
signed; magics are given unsigned because that is how hex dumps show them, with the signed value next to it.

A message record (version 1, both hosts IPv4; `b`, `t`, `p` = lengths of body, topic, properties):

    0 total  4 magic  8 body CRC  12 queue id  16 flag  20 queue offset  28 physical offset  36 sysFlag
    40 born time  48 born host  56 store time  64 store host  72 reconsume times  76 prepared offset
    84 b, body  88+b  t (one byte), topic  89+b+t  p (two bytes), properties

An IPv6 host makes its field 20 bytes instead of 8 and shifts what follows; version 2 has a two-byte `t`.
"""

from __future__ import annotations

import struct
from typing import Final

# ---- magics
MAGIC_V1: Final = 0xDAA320A7
MAGIC_V1_SIGNED: Final = MAGIC_V1 - (1 << 32)
MAGIC_V2: Final = 0xDAA320AB
"""Written by RocketMQ >= 5.1 for topics of more than 127 characters only."""
MAGIC_V2_SIGNED: Final = MAGIC_V2 - (1 << 32)
MAGIC_BLANK: Final = 0xCBD43194
"""Fills a log file's end when the next record doesn't fit."""
MAGIC_BLANK_SIGNED: Final = MAGIC_BLANK - (1 << 32)

# ---- byte offsets of the fields; from STORE_TIMESTAMP on they hold for an IPv4 born host
TOTAL_SIZE_AT: Final = 0
MAGIC_AT: Final = 4
BODY_CRC_AT: Final = 8
QUEUE_ID_AT: Final = 12
FLAG_AT: Final = 16
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_TIMESTAMP_AT: Final = 40
BORN_HOST_AT: Final = 48
STORE_TIMESTAMP_AT: Final = 56
STORE_HOST_AT: Final = 64
RECONSUME_TIMES_AT: Final = 72
PREPARED_OFFSET_AT: Final = 76
BODY_LENGTH_AT: Final = 84
BODY_AT: Final = 88
IPV6_EXTRA: Final = 12
"""A host field is 4 + 4 bytes, 16 + 4 for IPv6: every later field moves by this."""

CRC_MASK: Final = 0x7FFFFFFF
"""The stored checksum is CRC-32 with its top bit cleared."""
FIXED_SIZE: Final = 91
"""Bytes of a version 1 record in addition to body, topic, properties and IPv6 extras; version 2 has one more."""
RECORD_HEAD: Final = struct.Struct(">iI")
"""Total size and magic: all that a blank has, and all that skipping a record needs."""
BLANK_HEAD_SIZE: Final = 8
BLANK_MIN_SIZE: Final = 8
"""A file's last 8 bytes are never a message: total + 8 must fit, or a blank is written."""


def _fixed_fields(born_address: int, store_address: int) -> struct.Struct:
    return struct.Struct(f">iIIiiqqiq{born_address}siq{store_address}siiqi")


FIXED_FIELDS: Final = (_fixed_fields(4, 4), _fixed_fields(16, 4), _fixed_fields(4, 16), _fixed_fields(16, 16))
"""All fields up to and including the body length, chosen by `sys_flag >> 4 & 3`."""


def _head(born_host: int, store_host: int) -> struct.Struct:
    return struct.Struct(f">iIIiiqqiq{born_host}sq{store_host}siqi")


HEADS: Final = (_head(8, 8), _head(20, 8), _head(8, 20), _head(20, 20))
"""The same with each host as it is stored: address and port in one field."""
TOPIC_LENGTH: Final = {1: struct.Struct(">b"), 2: struct.Struct(">h")}
PROPERTIES_LENGTH: Final = struct.Struct(">h")

# ---- sysFlag bits
SYS_COMPRESSED: Final = 0x1
SYS_MULTI_TAG: Final = 0x2
SYS_TRANSACTION_MASK: Final = 0xC
SYS_TRANSACTION_NONE: Final = 0x0
SYS_TRANSACTION_PREPARED: Final = 0x4
SYS_TRANSACTION_COMMIT: Final = 0x8
SYS_TRANSACTION_ROLLBACK: Final = 0xC
SYS_UNQUEUED: Final = SYS_TRANSACTION_PREPARED
"""The bit that prepared and rolled-back messages share: they appear in no queue and take no queue offset."""
SYS_BORN_HOST_V6: Final = 0x10
SYS_STORE_HOST_V6: Final = 0x20
SYS_INNER_BATCH: Final = 0x40
SYS_NEED_UNWRAP: Final = 0x80
SYS_COMPRESSION_MASK: Final = 0x700
SYS_COMPRESSION_LZ4: Final = 0x100
SYS_COMPRESSION_ZSTD: Final = 0x200
SYS_COMPRESSION_ZLIB: Final = 0x300
"""0 in the mask also means zlib: older clients send that."""

# ---- properties
NAME_END: Final = 0x01
PAIR_END: Final = 0x02
PROPERTY_KEYS: Final = "KEYS"
PROPERTY_UNIQ_KEY: Final = "UNIQ_KEY"
PROPERTY_TAGS: Final = "TAGS"
PROPERTY_WAIT: Final = "WAIT"
PROPERTY_CLUSTER: Final = "CLUSTER"
PROPERTY_DELAY: Final = "DELAY"
PROPERTY_REAL_TOPIC: Final = "REAL_TOPIC"
PROPERTY_REAL_QUEUE_ID: Final = "REAL_QID"
PROPERTY_TRANSACTION: Final = "TRAN_MSG"
PROPERTY_PRODUCER_GROUP: Final = "PGROUP"
PROPERTY_MSG_REGION: Final = "MSG_REGION"
PROPERTY_TRACE_ON: Final = "TRACE_ON"
PROPERTY_RETRY_TOPIC: Final = "RETRY_TOPIC"
"""Of a message that was sent back: the topic it came from."""
PROPERTY_ORIGIN_ID: Final = "ORIGIN_MESSAGE_ID"
"""Of a message that was sent back: the id of the first copy."""
PROPERTY_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
"""Of a half message: how often its producer has been asked."""
PROPERTY_RECORD_CRC: Final = "__CRC32#"
BROKERS_PROPERTIES: Final = frozenset(
    (
        PROPERTY_CLUSTER,
        PROPERTY_REAL_TOPIC,
        PROPERTY_REAL_QUEUE_ID,
        PROPERTY_TRANSACTION,
        PROPERTY_PRODUCER_GROUP,
        PROPERTY_MSG_REGION,
        PROPERTY_TRACE_ON,
        PROPERTY_RECORD_CRC,
    )
)
"""Those that brokers set: a copy that is sent to another broker goes without them."""
KEY_SEPARATOR: Final = " "
"""Between the keys inside KEYS."""

# ---- topics the store itself treats specially
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"

# ---- limits
MAX_TOPIC_LENGTH: Final = 127
"""Bytes; the one-byte length is signed."""
MAX_TOPIC_LENGTH_V2: Final = 0x7FFF
MAX_PROPERTIES_LENGTH: Final = 0x7FFF
"""Bytes; the two-byte length is signed."""
MAX_MESSAGE_SIZE: Final = 4 * 1024 * 1024
"""RocketMQ's default `maxMessageSize`: bytes of one body."""
MAX_RECORD_OVERHEAD: Final = 64 * 1024
"""Bytes that RocketMQ allows a record on top of `maxMessageSize`."""
MAX_RECORD_SIZE: Final = 1 << 30
"""Bytes; a record lies within one log file and those are 1 GiB by default. A larger size field means damage."""

# ---- consume queue entries
QUEUE_ENTRY: Final = struct.Struct(">qiq")
QUEUE_ENTRY_SIZE: Final = 20
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
"""Size field of the entries that fill a queue before its first real one."""

FILE_NAME_DIGITS: Final = 20


def file_name(offset: int) -> str:
    """Name of the log or queue file that begins at `offset` (bytes into its stream): 20 decimal digits."""
    if offset < 0:
        raise ValueError(f"a file can't begin at the negative offset {offset}")
    return f"{offset:020d}"


def parse_file_name(name: str) -> int | None:
    """The offset a file name stands for, or None when it isn't exactly 20 ASCII digits within int64."""
    if len(name) != FILE_NAME_DIGITS or not (name.isascii() and name.isdigit()):
        return None
    offset = int(name)
    return offset if offset < 1 << 63 else None
