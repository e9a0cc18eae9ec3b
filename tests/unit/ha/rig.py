"""One side of the HA link on a test clock, with the other side played by the test."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.haconnection import HAConnection
from hatwisted.ha.interfaces import IMasterLog
from hatwisted.ha.master import HAService
from hatwisted.ha.settings import MasterSettings, SlaveSettings
from hatwisted.ha.slave import HAClientService, SlaveParts
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.wire.haframe import FrameReceiver, encode_frames, encode_report
from tests.support.memorylog import MemoryLog

_ports = itertools.count(40000)
_HEADER = struct.Struct(">qi")


class LogCatcher:
    """Texts of what was logged while it's in use, by level name."""

    def __init__(self, case: Any) -> None:
        self.events: list[tuple[str, str]] = []

        def observe(event: Any) -> None:
            if "log_level" in event:
                self.events.append((event["log_level"].name, formatEvent(event)))

        globalLogPublisher.addObserver(observe)
        case.addCleanup(globalLogPublisher.removeObserver, observe)

    def texts(self, level: str) -> list[str]:
        """Messages of one level, oldest first."""
        return [text for name, text in self.events if name == level]


@implementer(IListeningPort)
class FakePort:
    """A port that's open until stopped."""

    def __init__(self) -> None:
        self.open = True

    def startListening(self) -> None: ...

    def stopListening(self) -> Deferred[None]:
        self.open = False
        return succeed(None)

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", 10912)


class Wire(StringTransport):
    """A transport that the test reads, that can be full, and that knows how it was closed."""

    def __init__(self, host: str) -> None:
        super().__init__(peerAddress=IPv4Address("TCP", host, next(_ports)))
        self.aborted = False
        self.closed = False
        self.full = False

    def write(self, data: bytes) -> None:
        """As Twisted's: pauses the producer at every write while the buffer is full."""
        super().write(data)
        if self.full and self.producer is not None:
            self.producer.pauseProducing()

    def abortConnection(self) -> None:
        self.aborted = True

    def loseConnection(self) -> None:
        self.closed = True

    def fill(self) -> None:
        """The transport's buffer is full from now on."""
        self.full = True
        self.producer.pauseProducing()

    def drain(self) -> None:
        """The buffer is empty again."""
        self.full = False
        self.producer.resumeProducing()

    def take(self) -> bytes:
        """What was written since the last call."""
        data = self.value()
        self.clear()
        return data


class SlavePeer:
    """A slave played by the test, on a master's link."""

    def __init__(self, link: HAConnection, host: str) -> None:
        self.link = link
        self.wire = Wire(host)
        self._receiver = FrameReceiver()
        link.makeConnection(self.wire)

    def report(self, *offsets: int) -> None:
        """Send reports in one piece."""
        self.send(b"".join(map(encode_report, offsets)))

    def send(self, data: bytes) -> None:
        """Send any bytes."""
        self.link.dataReceived(data)

    def frames(self) -> list[tuple[int, bytes]]:
        """Frames received since the last call."""
        return [(frame.offset, bytes(frame.body)) for frame in self._receiver.receive(self.wire.take())]

    def body(self) -> bytes:
        """Log bytes received since the last call."""
        return b"".join(body for _, body in self.frames())

    def lose(self) -> None:
        """The connection ends."""
        reason = ConnectionLost() if self.wire.aborted else ConnectionDone()
        self.link.connectionLost(Failure(reason))

    @property
    def gone(self) -> bool:
        """Was it closed by the master?"""
        return self.wire.aborted or self.wire.closed


class MasterRig:
    """A master's HA service on a test clock."""

    def __init__(self, log: MemoryLog | None = None, timeout: float = 5.0, **settings: Any) -> None:
        self.clock = Clock()
        self.log = log or MemoryLog()
        self.group = GroupTransferService(self.clock, timeout)
        self.port = FakePort()
        self.factory: IProtocolFactory | None = None
        self.service = HAService(self.log, self.clock, self._listen, self.group, MasterSettings(**settings))
        self.service.startService()

    def _listen(self, factory: IProtocolFactory) -> IListeningPort:
        self.factory = factory
        return self.port

    def slave(self, *reports: int, host: str = "10.0.0.2") -> SlavePeer:
        """A slave connects (and reports)."""
        assert self.factory is not None
        link = self.factory.buildProtocol(IPv4Address("TCP", host, 1))
        peer = SlavePeer(link, host)
        if reports:
            peer.report(*reports)
        return peer

    def seconds(self, count: float) -> None:
        """Time passes, in ticks of an eighth of a second (which floats can add up)."""
        self.clock.pump([0.125] * round(count * 8))


@implementer(IStreamClientEndpoint)
class FakeEndpoint:
    """Where a slave dials; the rig decides what comes of it."""

    def __init__(self, rig: SlaveRig, host: str, port: int) -> None:
        self._rig = rig
        self.address = f"{host}:{port}"

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        self._rig.dialled.append((round(self._rig.clock.seconds(), 3), self.address))
        waiting: Deferred[Any] = Deferred()
        if self._rig.mute:
            return waiting
        if not self._rig.reachable:
            self._rig.clock.callLater(0, waiting.errback, Failure(ConnectionRefusedError()))
            return waiting
        link = factory.buildProtocol(None)
        self._rig.wire = Wire("10.0.0.1")
        self._rig.link = link
        link.makeConnection(self._rig.wire)
        return succeed(link)


@implementer(IMasterLog)
class ToldMasterLog:
    """A master that answers what the test says; one that isn't told doesn't know."""

    def __init__(self, bounds: Callable[[], Deferred[tuple[int, int]]]) -> None:
        self.bounds = bounds


@implementer(IConnecting)
class SlaveRig:
    """A slave's HA client on a test clock, its master played by the test."""

    def __init__(
        self,
        log: MemoryLog | None = None,
        address: str | None = "10.0.0.1:10912",
        seed: int = 1,
        **settings: Any,
    ) -> None:
        self.clock = Clock()
        self.log = log or MemoryLog()
        self.reachable = True
        self.mute = False
        """Do connection attempts get no answer at all?"""
        self.dialled: list[tuple[float, str]] = []
        self.wire: Wire = Wire("nobody")
        self.link: Any = None
        self.master_address = address
        bounds = settings.pop("master_range", None)
        objection = settings.pop("objection", None)
        parts = SlaveParts(
            log=self.log,
            clock=self.clock,
            connecting=self,
            random=Random(seed),
            master_address=lambda: self.master_address,
            master_log=ToldMasterLog(bounds) if bounds else None,
            flush_now=self.log.flush_now,
            objection=objection,
        )
        self.service = HAClientService(parts, SlaveSettings(**settings))
        self.service.startService()

    def endpoint(self, host: str, port: int, timeout: float) -> FakeEndpoint:
        """See IConnecting."""
        return FakeEndpoint(self, host, port)

    def send(self, start: int, body: bytes, batch: int = 32768) -> None:
        """The master sends log bytes."""
        self.link.dataReceived(b"".join(encode_frames(start, body, batch)))

    def header(self, offset: int, size: int = 0) -> None:
        """The master sends a header alone."""
        self.link.dataReceived(_HEADER.pack(offset, size))

    def reports(self) -> list[int]:
        """Reports since the last call."""
        return [offset for (offset,) in struct.iter_unpack(">q", self.wire.take())]

    def lose(self) -> None:
        """The connection ends, as the transport would tell it."""
        self.link.connectionLost(Failure(ConnectionLost() if self.wire.aborted else ConnectionDone()))

    def seconds(self, count: float) -> None:
        """Time passes, in ticks of an eighth of a second (which floats can add up)."""
        self.clock.pump([0.125] * round(count * 8))

    @property
    def state(self) -> str:
        """As monitoring sees it."""
        return self.service.status().state
