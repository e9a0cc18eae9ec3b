"""The ports of figures and of the live page: whatever comes instead of a request, plain or as TLS.

An input is what one client sends, in pieces as its first byte says. Nothing may be logged with a traceback, an
honest client's probe is answered after it, and once the time limits have passed nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from OpenSSL import SSL
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure

from hatwisted.metrics.exposition import Exposition
from hatwisted.metrics.families import Figures as Samples
from hatwisted.metrics.families import gauge
from hatwisted.metrics.livepage import Access, Answer
from hatwisted.metrics.web import TIMEOUT, Figures, Folder, Gate, QuietSite, Words
from hatwisted.tls.certificates import self_signed
from hatwisted.tls.contexts import server_context
from hatwisted.tls.handshakes import HANDSHAKE_TIMEOUT
from hatwisted.tls.tlsport import TlsServerFactory
from tests.fuzz.target import Target
from tests.fuzz.turns import TURNS, TurnClock

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HELLO = bytes.fromhex(
    "1603010086010000820303118423c219eacd2925286a46e832b260b700a53cc6bd278ec6a31eee52af4374000004c02bc02f"
    "01000055ff01000100000b00020100000a000c000a001d0017001e00180019002300000016000000170000000d002a002804"
    "0305030603080708080809080a080b080408050806040105010601030303010302040205020602"
)
"""What OpenSSL's client says first; that of TLS 1.3 is in the corpus, it's long."""
NOW = 1_795_221_957.0


class Wire(StringTransport):
    """The server's end of a connection."""

    protocol: Any
    bufferSize = 1 << 16

    def __init__(self, clock: Clock) -> None:
        super().__init__(peerAddress=IPv4Address("TCP", "10.0.0.66", 4711))
        self._clock = clock
        self.open = True

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Of no interest here."""

    @property
    def streamingProducer(self) -> bool:
        """As a socket's."""
        return bool(self.streaming)

    def loseConnection(self) -> None:
        self._end(ConnectionDone())

    def abortConnection(self) -> None:
        self._end(ConnectionAborted())

    def _end(self, why: Exception) -> None:
        if not self.disconnecting:
            self.disconnecting = True
            self._clock.callLater(0, self._ended, Failure(why))

    def _ended(self, failure: Failure) -> None:
        self.open = False
        self.protocol.connectionLost(failure)


class Port:
    """Of pages, which serves plain clients and TLS."""

    def __init__(self) -> None:
        self.clock = TurnClock()
        self.clock.advance(NOW)
        root = Folder()
        root.putChild(b"healthz", Words(lambda: (True, "ok\n")))
        root.putChild(b"metrics", Figures(Exposition(self.clock, [_samples])))
        root.putChild(b"", Answer(lambda: "<p>", Access("operator:secret"), "text/html"))
        gate = Gate(QuietSite(root, timeout=TIMEOUT, reactor=self.clock), None)
        self.factory = TlsServerFactory(gate, _context, self.clock, plain=True)
        self.factory.doStart()
        self.timers = len(self.clock.getDelayedCalls())
        """Twisted's own, of the date in its log."""

    def connect(self) -> Wire:
        """One more client."""
        wire = Wire(self.clock)
        wire.protocol = self.factory.buildProtocol(wire.getPeer())
        wire.protocol.makeConnection(wire)
        return wire

    def turn(self) -> None:
        """A few rounds of the loop."""
        for _ in range(4):
            self.clock.advance(0.001)


@cache
def _context() -> SSL.Context:
    return server_context(self_signed("hatwisted", NOW))


def _samples() -> Samples:
    yield gauge("a", "One.", 1)


def _feed(port: Port, data: bytes) -> None:
    wire = port.connect()
    size = data[0] or len(data) if data else 1
    for at in range(1, len(data), size):
        if wire.open and not wire.disconnecting:
            TURNS.take(wire.protocol.dataReceived, data[at : at + size])
            port.turn()
    honest = port.connect()
    honest.protocol.dataReceived(GET)
    port.turn()
    answer = honest.value()
    if not (answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"ok\n")):
        raise AssertionError(f"an honest client is answered {answer[:200]!r}")
    honest.loseConnection()
    # A client that has sent nothing more is gone by then; so is all that was kept for it.
    for _ in range(8):
        port.clock.advance((TIMEOUT + HANDSHAKE_TIMEOUT) / 4)
    if wire.open:
        raise AssertionError("a client that says nothing more stays")
    if len(port.clock.getDelayedCalls()) > port.timers:
        raise AssertionError(f"left behind: {port.clock.getDelayedCalls()}")


def run(data: bytes) -> None:
    """Feed it to a port. Raises AssertionError for what is logged as a failure, too."""
    failures: list[str] = []

    def observe(event: LogEvent) -> None:
        if "log_failure" in event:
            failures.append(f"{formatEvent(event)}\n{event['log_failure'].getTraceback()}")

    globalLogPublisher.addObserver(observe)
    try:
        _feed(_port(), data)
    finally:
        globalLogPublisher.removeObserver(observe)
    if failures:
        raise AssertionError("\n".join(failures))


@cache
def _port() -> Port:
    return Port()


def _seeds() -> Iterable[bytes]:
    paths = (b"/healthz", b"/metrics", b"/", b"/nowhere", b"*", b"http://h/healthz")
    yield from (b"\0" + GET.replace(b"/healthz", path) for path in paths)
    yield b"\0" + GET * 5
    yield b"\7" + GET
    for header in (
        b"Authorization: Basic b3BlcmF0b3I6c2VjcmV0",
        b"Authorization: Basic \xff",
        b"Content-Length: 5",
        b"Content-Length: -1",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Expect: 100-continue",
        b"Upgrade: h2c",
    ):
        yield b"\0GET / HTTP/1.1\r\nHost: localhost\r\n" + header + b"\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
    yield b"\0POST /metrics HTTP/1.0\r\n\r\n"
    yield b"\0PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield b"\0" + HELLO
    yield b"\x20" + HELLO[:60]
    yield b"\1\x16\x03"


RUN: Callable[[bytes], object] = run
PAGES = {"pages": Target(RUN, (), _seeds, tries=300, turns=TURNS)}
