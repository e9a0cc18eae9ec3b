"""The channel of both pages: what a client that dawdles costs, and for how long."""

from __future__ import annotations

from typing import Any

from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from hatwisted.metrics.web import TIMEOUT, Folder, QuietSite, Words

GET = b"GET /page HTTP/1.1\r\nHost: x\r\n"


@implementer(IPushProducer)
class Unread(StringTransportWithDisconnection):
    """A client that takes nothing: a polite close waits for it."""

    aborted = False

    def loseConnection(self) -> None:
        self.disconnecting = True

    def abortConnection(self) -> None:
        self.aborted = True
        self.protocol.connectionLost(Failure(ConnectionAborted()))


class DawdlingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        root = Folder()
        root.putChild(b"page", Words(lambda: (True, "well\n")))
        self.site = QuietSite(root, timeout=TIMEOUT, reactor=self.clock)

    def connect(self, kind: type[StringTransportWithDisconnection]) -> Any:
        channel = self.site.buildProtocol(None)
        assert channel is not None
        transport = kind()
        transport.protocol = channel
        channel.makeConnection(transport)
        return transport

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.clock.advance(1)

    def test_a_request_has_its_time_however_often_a_byte_of_it_comes(self) -> None:
        transport = self.connect(StringTransportWithDisconnection)
        for byte in GET[: int(TIMEOUT) - 1]:
            transport.protocol.dataReceived(bytes((byte,)))
            self.pass_time(1)
        self.assertTrue(transport.connected)
        self.pass_time(1)
        self.assertFalse(transport.connected)

    def test_a_body_that_nobody_wants_has_no_more(self) -> None:
        transport = self.connect(StringTransportWithDisconnection)
        transport.protocol.dataReceived(GET + b"Content-Length: 1000\r\n\r\n")
        for _ in range(int(TIMEOUT) + 1):
            if transport.connected:
                transport.protocol.dataReceived(b"x")
            self.pass_time(1)
        self.assertFalse(transport.connected)

    def test_who_asks_now_and_then_stays(self) -> None:
        transport = self.connect(StringTransportWithDisconnection)
        for number in range(1, 4):
            transport.protocol.dataReceived(GET + b"\r\n")
            self.pass_time(TIMEOUT - 1)
            self.assertEqual(transport.value().count(b"200 OK"), number)

    def test_an_answer_that_isnt_taken_has_its_time(self) -> None:
        for more in (b"", b"Connection: close\r\n"):
            transport = self.connect(Unread)
            transport.protocol.dataReceived(GET + more + b"\r\n")
            self.pass_time(TIMEOUT - 1)
            self.assertFalse(transport.aborted)
            self.pass_time(2 + transport.protocol.abortTimeout)
            self.assertTrue(transport.aborted, more)
        self.assertEqual(self.clock.getDelayedCalls(), [])
