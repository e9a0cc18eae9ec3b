"""The kernel's compiled twin beside the ordinary ways: the same of any bytes, or it leaves them alone.

Where it isn't built, the ordinary ways are compared with themselves.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from types import MappingProxyType

from hatwisted.kernel import pure
from hatwisted.wire.batch import CorruptBatch, encode_batch
from hatwisted.wire.haframe import encode_frames
from hatwisted.wire.record import encode_record, make_record
from tests.fuzz.target import Target
from tests.support.kerneltwins import (
    PARTS,
    by_columns,
    compiled,
    frames_of_reads,
    received,
    received_signed,
    told,
)

BASE = 1 << 20
FIELDS = {
    "a": "g",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "17",
    "h": "0",
    "i": 'A\x01"b\x02',
}
PROOF = {"AccessKey": "k", "SecurityToken": "t", "Signature": "s"}
KERNEL = compiled() if PARTS else pure


def sends(data: bytes) -> None:
    """What a connection reads."""
    assert received(data, KERNEL.take_sends) == received(data)


def signed_sends(data: bytes) -> None:
    assert received_signed(data, KERNEL.take_signed_sends) == received_signed(data)


def batch(data: bytes) -> None:
    try:
        expected, unended = pure.decode_batch(data)
    except CorruptBatch as error:
        try:
            KERNEL.decode_batch(data)
        except CorruptBatch as other:
            assert str(other) == str(error)
            raise
        raise AssertionError(f"taken, although {error}") from None
    found, also = KERNEL.decode_batch(data)
    assert (list(found), also) == (list(expected), unended)


def usual(data: bytes) -> None:
    if KERNEL.usual_records is None:
        return
    found = KERNEL.usual_records([data], BASE, True, KERNEL.QueueMap(), [])
    cut = len(data) * 3 // 5
    assert KERNEL.usual_records([data[:cut], data[cut:]], BASE, True, KERNEL.QueueMap(), []) == found
    if found is not None:
        assert 0 < found.size <= len(data)
        assert told(found) == by_columns(data[: found.size], BASE, True)


def link_frames(data: bytes) -> None:
    """Two reads of the HA link; the first byte says where the first ends."""
    if data:
        reads = [data[1 : 1 + data[0]], data[1 + data[0] :]]
        assert frames_of_reads(reads, KERNEL.take_frames) == frames_of_reads(reads)


def some_sends(proof: Mapping[str, str] = MappingProxyType({})) -> list[bytes]:
    found = []
    for opaque in (7, -(1 << 31), 1 << 31):
        head = {"code": 310, "extFields": FIELDS | proof, "flag": 0, "language": "JAVA", "opaque": opaque}
        text = json.dumps(
            {**head, "serializeTypeCurrentRPC": "JSON", "version": 407}, separators=(",", ":")
        ).encode()
        found.append(2 * (struct.pack(">II", 8 + len(text), len(text)) + text + b"body"))
    return found


def some_records() -> list[bytes]:
    areas = [b"TAGS\x01t\x02KEYS\x01a b\x02UNIQ_KEY\x017F\x02", b""]
    at, found = BASE, b""
    for number, area in enumerate(areas):
        found += encode_record(
            make_record("T", b"x", raw_properties=area, queue_offset=number, physical_offset=at)
        )
        at = BASE + len(found)
    return [found]


KERNELS = {
    "kernel-sends": Target(sends, (), some_sends),
    "kernel-signed-sends": Target(signed_sends, (), lambda: some_sends(PROOF)),
    "kernel-batch": Target(
        batch, (CorruptBatch,), lambda: [encode_batch([(0, b"body", b"TAGS\x01t"), (1, b"", b"")])]
    ),
    "kernel-frames": Target(
        link_frames, (), lambda: [b"\x14" + b"".join(map(bytes, encode_frames(7, b"some bytes of a log", 8)))]
    ),
    "kernel-records": Target(usual, (), some_records),
}
