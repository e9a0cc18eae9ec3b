"""How large requests' frames were, whichever way they have come and are decoded."""

from __future__ import annotations

import random

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.remoting.framesizes import FrameSizes
from hatwisted.remoting.portoptions import PortOptions
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.remoting.server import RemotingConnection
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand, RemotingReceiver, encode_command

SEND, LOOK = RequestCode.SEND_MESSAGE_V2, RequestCode.GET_MAX_OFFSET
FIELDS = {
    "a": "p", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "KEYS\x01k",
    "j": "0", "k": "false", "m": "false",
}  # fmt: skip


def frame(code: int, opaque: int, size: int = 0, spaces: int = 0, *, binary: bool = False) -> bytes:
    """A request with a body of that size, and so many spaces in its header."""
    command = RemotingCommand(code, opaque, ext=FIELDS, body=bytes(size), binary=binary)
    made = encode_command(command)
    header = int.from_bytes(made[4:8], "big") & 0xFFFFFF
    if not spaces:
        return made
    length = len(made) - 4 + spaces
    head = length.to_bytes(4, "big") + (header + spaces).to_bytes(4, "big")
    return head + made[8 : 8 + header - 1] + b" " * spaces + made[8 + header - 1 :]


FRAMES = [
    *(frame(SEND, 0), frame(SEND, 1, 10), frame(SEND, 2, 0, 5000), frame(LOOK, 3)),
    *(frame(LOOK, 4, 300, binary=True), frame(SEND, 5, 70_000), frame(SEND, 6), frame(LOOK, 7, 1, 1)),
]


class FrameSizesTests(SynchronousTestCase):
    def test_each_request_has_the_size_of_its_frame_however_reads_cut_them(self) -> None:
        chance, data = random.Random(7), b"".join(FRAMES)
        for _ in range(200):
            receiver, sizes, found = RemotingReceiver(typed_sends=True), FrameSizes(), list[int]()
            cuts = sorted(chance.choices(range(len(data) + 1), k=chance.randrange(12)))
            for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                requests = receiver.receive(data[begin:end])
                sizes.note(data[begin:end], requests)
                found += [sizes.size(each) for each in requests]
                sizes.forget()
            self.assertEqual(found, [len(each) for each in FRAMES])

    def test_byte_by_byte(self) -> None:
        receiver, sizes, found = RemotingReceiver(), FrameSizes(), list[int]()
        for byte in b"".join(FRAMES[:4]):
            requests = receiver.receive(bytes((byte,)))
            sizes.note(bytes((byte,)), requests)
            found += [sizes.size(each) for each in requests]
        self.assertEqual(found, [len(each) for each in FRAMES[:4]])


class ConnectionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.seen: list[int] = []
        table = ProcessorTable()
        table.register(LOOK, self.look)
        table.register_batch((SEND,), self.take)
        self.table = table

    def connect(self, *, sizes: bool = True, signed: bool = False) -> RemotingConnection:
        factory = RemotingServerFactory(
            self.table, Clock(), options=PortOptions(sizes=sizes), signed_sends=signed
        )
        connection = factory.buildProtocol(None)
        assert connection is not None
        self.transport = StringTransportWithDisconnection(peerAddress=IPv4Address("TCP", "10.0.0.7", 4711))
        self.transport.setTcpNoDelay = self.transport.setTcpKeepAlive = lambda on: None  # type: ignore[attr-defined]
        connection.makeConnection(self.transport)
        return connection

    def look(self, connection: RemotingConnection, request: RemotingCommand) -> None:
        self.seen.append(connection.size_of(request))

    def take(self, connection: RemotingConnection, batch: list[RemotingCommand]) -> None:
        self.seen += [connection.size_of(request) for request in batch]

    def test_requests_of_a_read_have_theirs_while_they_are_worked_on(self) -> None:
        for signed in (False, True):
            self.seen = []
            connection = self.connect(signed=signed)
            connection.dataReceived(b"".join(FRAMES))
            self.assertEqual(self.seen, [len(each) for each in FRAMES])
            assert connection._sizes is not None
            self.assertEqual(connection._sizes._of, {}, "they take no room on an idle connection")

    def test_those_that_wait_keep_theirs(self) -> None:
        connection = self.connect()
        connection.window.full = True
        connection.dataReceived(b"".join(FRAMES[:3]))
        connection.dataReceived(b"".join(FRAMES[3:]))
        self.assertEqual(self.seen, [])
        connection.window.full = False
        connection.go_on()
        self.assertEqual(self.seen, [len(each) for each in FRAMES])

    def test_without_a_rate_nobody_counts_them(self) -> None:
        connection = self.connect(sizes=False)
        connection.dataReceived(b"".join(FRAMES))
        self.assertEqual(self.seen, [0] * len(FRAMES))
