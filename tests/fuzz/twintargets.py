"""Parts of the kernel that work on what has been decoded, beside the ordinary ways: the same, or they leave it.

Where the compiled twin isn't built, nothing is compared.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import msgspec
import numpy as np

from hatwisted.broker.send.admission import Admission
from hatwisted.ha import framecheck
from hatwisted.ha.firstsync import JoinPlan
from hatwisted.ha.framecheck import FrameCheck
from hatwisted.kernel import pure
from hatwisted.store.index import indexfile
from hatwisted.store.index.indexfile import HEADER, IndexFile
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.haframe import Frame
from hatwisted.wire.layout import SYS_TRANSACTION_MASK
from hatwisted.wire.remoting import (
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    SendCommand,
    SignedSendCommand,
)
from tests.fuzz.kerneltargets import KERNEL, PROOF, some_sends
from tests.fuzz.servertargets import Program
from tests.fuzz.target import Target

KNOWN = {"T": 4, "Wide": 400}
ODD = ("WAIT\x01", "DELAY\x01", "TRAN_MSG\x01")
"""What properties say of puts that have to be judged, or may have to be."""
LAST = (1 << 63) - 1
STORE_HOST = "7F00000100002A9F"
ANSWERED = struct.Struct(">BBqqqq")
"""Kind of a send, its flag, its number, queue, place there and in the log."""
KINDS = (SendCommand, SignedSendCommand, RemotingCommand, SendCommand)
STATUSES = (PutStatus.PUT_OK, PutStatus.PUT_OK, PutStatus.PUT_OK, PutStatus.FLUSH_SLAVE_TIMEOUT)
SLOTS, ITEMS = 7, 4000
BEGIN = struct.Struct(">iqB")
"""Number of the first item, begin of the file, and what is done to the slots' heads."""
LINKED = struct.Struct(">iqq")
FITTING = struct.Struct(">qh")
"""The log's end, and bytes of a file."""
JUDGE = Admission(
    cast(Any, None), cast(Any, SimpleNamespace(topics=None, groups=None)), "C", cast(Any, mock.Mock())
)
"""Has no tables: to judge what isn't usual, it would need them."""
USUAL = None if KERNEL.UsualPuts is None else KERNEL.UsualPuts(b"CLUSTER\x01C", Put)


def unusual(request: RemotingCommand) -> bool:
    """May a send that nothing was taken of be left?"""
    header = request.header if isinstance(request, SendCommand) else None
    return (
        header is None
        or request.code != RequestCode.SEND_MESSAGE_V2
        or header.batch
        or not header.properties.isascii()
        or any(odd in header.properties for odd in ODD)
        or bool(header.sys_flag & SYS_TRANSACTION_MASK)
        or not 0 <= header.queue_id < KNOWN.get(header.topic, 0)
    )


def puts(data: bytes) -> None:
    """Sends of a read; the first byte says from where and how, then each line is the header of one."""
    if USUAL is None or not data:
        return
    host = bytes(20 if data[0] & 1 else 8)
    options: dict[str, Any] = {"signed_sends": True} if data[0] & 2 else {"typed_sends": True}
    receiver = RemotingReceiver(**options)
    texts = data[1:].split(b"\n")
    try:
        requests = receiver.receive(
            b"".join(struct.pack(">II", 8 + len(text), len(text)) + text + b"body" for text in texts)
        )
    except RemotingProtocolError:
        return
    connection = cast(Any, SimpleNamespace(host_bytes=host, peer="1.2.3.4:5"))
    first = 0
    while first < len(requests):
        made: list[Put[Any]] = []
        after = USUAL.take(requests, first, KNOWN, host, made)
        assert len(made) == after - first
        for put, request in zip(made, requests[first:after], strict=True):
            judged = JUDGE.put(connection, request, dict(KNOWN))
            assert msgspec.structs.astuple(put) == msgspec.structs.astuple(judged)
            assert put.token is request
        assert after == len(requests) or unusual(requests[after]), requests[after]
        first = after + 1


def answered(twin: Any, held: Any, ordinary: Any) -> tuple[bytes, list[int]]:
    """All answers, and which puts had another status. What this twin leaves is answered in the ordinary way."""
    encoder = twin.SendAnswers(STORE_HOST, Put, PutStatus.PUT_OK)
    whole, others, index = b"", [], 0
    while index < len(held):
        data, after = encoder.encode(held, index)
        assert index <= after <= len(held)
        whole, index = whole + data, after
        if index < len(held):
            data, taken = ordinary.encode([held[index]], 0)
            whole += data
            if not taken:
                others.append(index)
            index += 1
    return whole, others


def settled(data: bytes) -> list[Put[Any]]:
    found = []
    for kind, flag, opaque, queue_id, queue_offset, offset in ANSWERED.iter_unpack(
        data[: len(data) // ANSWERED.size * ANSWERED.size]
    ):
        number = opaque << 1 if kind & 64 else opaque  # some don't fit in 64 bits
        request = KINDS[kind & 3](310, number, flag, binary=kind & 0x30 == 0x30)
        put = Put[Any]("T", 0, (), bytes(8), 0, token=request, answer_queue_id=queue_id)
        put.offset = offset & LAST
        put.record_offsets = [put.offset] if kind & 128 else [put.offset, put.offset // 2, put.offset // 3]
        put.queue_offset, put.status = queue_offset, STATUSES[kind >> 2 & 3]
        found.append(put)
    return found


def answers(data: bytes) -> None:
    """One send after the other: answered as they are, and as those that were held and settled together."""
    ordinary = pure.SendAnswers(STORE_HOST, Put, PutStatus.PUT_OK)
    stored = settled(data)
    assert answered(KERNEL, stored, ordinary) == answered(pure, stored, ordinary)
    for status in (PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT):
        told = []
        for twin in (KERNEL, pure):
            waiting = settled(data)
            for put in waiting:
                put.status = None
            held = twin.SettledPuts(Put, PutStatus.PUT_OK).hold(waiting)
            held.settle(status)
            told.append(answered(twin, held, ordinary))
        assert told[0] == told[1]


class _Pages:
    """An index file in memory, as its mapping."""

    def __init__(self, heads: bytes, first: int, begin: int) -> None:
        self.first, self.begin = first, begin
        size = indexfile.file_length(SLOTS, 0)
        self.view = memoryview(HEADER.pack(begin, begin, 0, 0, 0, 1) + heads + bytes(size))[:size]

    def pages(self) -> _Pages:
        return self

    def pread(self, size: int, at: int) -> bytes:
        return bytes(self.view[at : at + size])


def linked(file: IndexFile, first: int, columns: tuple[Any, ...]) -> tuple[Any, ...]:
    file.count = first
    file._mapped()
    items, slots, values, new = file._linked(*columns)
    return items, dict(zip(slots.tolist(), np.asarray(values).tolist(), strict=True)), new


def items(data: bytes) -> None:
    """Items that come behind others, whose file says anything."""
    head = BEGIN.size + 4 * SLOTS
    if KERNEL.ItemLinker is None or len(data) < head + LINKED.size:
        return
    first, begin, small = BEGIN.unpack_from(data)
    first = max(2, first & 0x3FFFFFFF)
    heads = data[BEGIN.size : head]
    if small & 1:  # as in a file that was written by one of us
        heads = struct.pack(f">{SLOTS}i", *(each % (2 * first) for each in heads[::4]))
    rows = list(LINKED.iter_unpack(data[head : head + (len(data) - head) // LINKED.size * LINKED.size]))[
        :ITEMS
    ]
    hashes, physical, stamps = zip(*rows, strict=True)
    columns = (
        np.array(hashes, np.int32),
        np.array(physical, np.int64),
        np.array(stamps, np.int64),
    )
    found = []
    for linker in (KERNEL.ItemLinker, None):
        with mock.patch.object(indexfile, "ItemLinker", linker):
            file = IndexFile(cast(Any, _Pages(heads, first, begin)), "", SLOTS, 0)
        found.append(linked(file, first, columns))
    assert found[0] == found[1]


def fitting(data: bytes) -> None:
    """Frames behind a log's end: each is a byte that says where it begins, and a byte of its size."""
    if KERNEL.fitting_frames is None or len(data) < FITTING.size:
        return
    expected, file_size = FITTING.unpack_from(data)
    expected, file_size = expected & LAST, 1 + (file_size & 0x7FFF)
    program, at, frames = Program(data[FITTING.size :]), expected, []
    while program.left:
        where, size = program.byte(), program.byte()
        if where >= 0xF0:  # somewhere else
            at += (-1, 1, file_size, -file_size, 1 << 62, -(1 << 62), 256, -256)[where & 7]
        elif where >= 0x80:
            size *= where - 0x7F
        if not -(1 << 63) <= at < 1 << 63:
            break
        frames.append(Frame(at, memoryview(bytes(size))))
        at += size
    assert checked(expected, file_size, frames, KERNEL.fitting_frames) == checked(
        expected, file_size, frames, None
    )


def checked(expected: int, file_size: int, frames: list[Frame], quicker: Any) -> list[Any]:
    """What the slave's check makes of two reads' frames, and of a mismatch its text."""
    check = FrameCheck(JoinPlan(0, expected), file_size)
    told = list[Any]()
    with mock.patch.object(framecheck, "fitting_frames", quicker):
        for part in (frames[: len(frames) // 2], frames[len(frames) // 2 :]):
            start, bodies, mismatch = check.take(part)
            told.append(
                (start, [len(body) for body in bodies], str(mismatch), check.accepted, check.expected)
            )
    return told


def some_puts() -> Iterator[bytes]:
    for signed, proof in ((b"\0", {}), (b"\3", PROOF)):
        texts = [frame[8 : 4 + int.from_bytes(frame[:4])] for frame in some_sends(proof)]
        texts = [text.removesuffix(b"body") for text in texts]
        yield signed + b"\n".join(texts)
        for properties in (
            *(b"WAIT\\u0001true\\u0002b\\u0001c", b"WAIT\\u0001false\\u0002", b"DELAY\\u00013\\u0002"),
            *(
                b"a\\u0001b\\u0002WAIT\\u0001true\\u0002c\\u0001d",
                b"TRAN_MSG\\u0001true\\u0002",
                "ü".encode(),
            ),
        ):
            changed = texts[0].replace(b'A\\u0001\\"b\\u0002', properties)
            assert changed != texts[0]
            yield signed + changed + b"\n" + texts[1]


def some_answers() -> Iterator[bytes]:
    usual = ANSWERED.pack(128, 0, 7, 3, 1 << 40, 1 << 50)
    for odd in (
        (0, 0, -1, -1, -1, 5),
        (128, 2, 7, 0, 0, 9),
        (128 | 0x30, 0, 1, 2, 3, 4),
        (64, 0, 1 << 62, 0, 0, 1),
    ):
        yield usual + ANSWERED.pack(*odd) + usual


def some_items() -> Iterator[bytes]:
    for begin, small in ((1000, 1), (0, 1), (-(1 << 63), 0), ((1 << 63) - 1, 0)):
        yield (
            BEGIN.pack(9, begin, small)
            + bytes(range(4 * SLOTS))
            + LINKED.pack(5, 70, 5000)
            + LINKED.pack(-1, 71, 1 << 62)
            + LINKED.pack(5, 72, -(1 << 63))
        )


def some_fitting() -> Iterable[bytes]:
    return [
        FITTING.pack(0, 999) + bytes([0, 100, 0, 0, 0x81, 250, 0, 200, 0xF1, 3]),
        FITTING.pack(LAST - 20, 0x7FFF) + bytes([0, 10, 0, 10, 0, 0, 0, 0]),
        FITTING.pack(LAST - 19, 0x7FFF) + bytes([0, 10, 0, 10, 0xF1, 0, 0, 0]),
    ]


TWINS = {
    "kernel-puts": Target(puts, (), some_puts),
    "kernel-answers": Target(answers, (), some_answers),
    "kernel-items": Target(items, (), some_items),
    "kernel-fitting": Target(fitting, (), some_fitting),
}
