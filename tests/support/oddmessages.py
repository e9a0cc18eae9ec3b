"""A log of messages that are hard to write as text: all that a record has room for."""

from __future__ import annotations

import zlib
from typing import Any, Final

import lz4.frame

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.storedrecord import Record
from tests.support.logbuilder import LogBuilder

TEXT: Final = b"much of the same " * 9
LONG_AGO: Final = -62198755200001
"""ms: before the year 1."""
FAR_AWAY: Final = 253402300800000
"""ms: after 9999."""
V6: Final = HostPort(bytes.fromhex("fd00000000000000000000000000abcd"), 10911)
RETRIED: Final = b"RETRY_TOPIC\x01Orders\x02UNIQ_KEY\x01U1\x02ORIGIN_MESSAGE_ID\x01O1"


def odd_log() -> LogBuilder:
    """The log; `sent_body` says what its producers sent."""
    log = LogBuilder()
    log.add("Orders", body="grün 𝄞".encode())
    log.add("Orders", 3, b"\xff\x00\r\n", raw=b"")
    log.add("%RETRY%desk", body=b"again", raw=RETRIED, reconsume_times=2)
    log.add("%DLQ%desk", body=b"never", raw=RETRIED, reconsume_times=16)
    log.add("Times", body=b"long ago", born_timestamp=LONG_AGO)
    log.add("Times", body=b"far away", born_timestamp=FAR_AWAY, flag=-7)
    log.add("Hosts", body=b"by IPv6", **_hosts(V6))
    log.add("Hosts", body=b"of IPv4, as IPv6", **_hosts(HostPort(bytes(10) + b"\xff\xff\x0a\x00\x00\x01", 1)))
    log.add("Packed", body=zlib.compress(TEXT), sys_flag=layout.SYS_COMPRESSED)
    log.add("Packed", body=zlib.compress(bytes(range(256))), sys_flag=layout.SYS_COMPRESSED)
    lz4_flag = layout.SYS_COMPRESSED | layout.SYS_COMPRESSION_LZ4
    log.add("Packed", body=lz4.frame.compress(TEXT), sys_flag=lz4_flag)
    log.add("Empty", body=b"", raw=b"KEYS\x01one two")
    return log


def _hosts(host: HostPort) -> dict[str, Any]:
    flags = layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6
    return {"store_host": host, "born_host": host, "sys_flag": flags}


def sent_body(record: Record) -> bytes:
    """What its producer sent; also of the golden store's, of which one is compressed."""
    if record.topic != "Packed":
        return zlib.decompress(record.body) if record.sys_flag & layout.SYS_COMPRESSED else record.body
    return bytes(range(256)) if record.queue_offset == 1 else TEXT
