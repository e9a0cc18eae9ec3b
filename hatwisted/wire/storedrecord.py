"""A stored message as a value (RocketMQ's MessageExt), and what else a position of the log can hold.

`recordreader` decodes them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec
from isal.isal_zlib import crc32

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.properties import decode_properties


class Scan(Enum):
    """What a position can hold besides a record; use the module constants."""

    NEED_DATA = "the record continues past the buffer"
    END = "nothing is written here"


NEED_DATA: Final = Scan.NEED_DATA
END: Final = Scan.END


class CorruptRecord(ValueError):
    """These bytes aren't a record. `position` is where it would begin, in the buffer that was read."""

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
        """The properties as text; decoded again at every call."""
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
