"""One end of a connection in memory: what is written here arrives at the other end's protocol.

Transports keep Twisted's rules: a streaming producer is paused above `bufferSize`, a pull producer asked when the
buffer is empty, `loseConnection` writes what is queued first, `abortConnection` drops it, an exception in
`dataReceived` is logged and costs the connection. The kernel takes what `writeSomeData` gives it, as long as it
has room; what is queued by `write` it takes when the next piece arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, Protocol

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IConsumer,
    IDelayedCall,
    IHalfCloseableProtocol,
    IProtocolFactory,
    IPushProducer,
    IReactorTime,
    ITCPTransport,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.remoting.eagerwrite import DirectTransport

RETRANSMIT = 0.2
"""Seconds between two tries to bring bytes over a path that is held."""


class Carrier(Protocol):
    """The network between two ends; see `MemoryNetwork`."""

    clock: IReactorTime
    buffer_size: int
    piece: Callable[[int], int]
    room: Callable[[], int]
    held: Callable[[str, str], bool]
    transports: list[MemoryTransport]

    def later(self, function: Callable[..., object], *args: object) -> IDelayedCall:
        """Call when something sent now arrives."""


@implementer(ITCPTransport, IConsumer, IPushProducer)
class MemoryTransport(DirectTransport):
    """One end of a connection: what is written here arrives at the other end's protocol.

    - network: carries it
    - host: the address of this end
    - peer: that of the other
    """

    _log = Logger()

    def __init__(self, network: Carrier, host: IPv4Address, peer: IPv4Address) -> None:
        self.bufferSize = network.buffer_size
        self.connected = True
        self.disconnecting = False
        self.producer: Any = None
        self.producerPaused = False
        self.streamingProducer = False
        self.protocol: Any = None
        self.other: MemoryTransport
        self.on_lost: Callable[[Failure], None] = lambda reason: None
        self.most_unsent = 0
        self.stalled_until = 0.0
        """Clock seconds; nothing that is written here arrives until then."""
        self._network = network
        self._host = host
        self._peer = peer
        self._here, self._there = host.host, peer.host
        self._unsent = bytearray()
        self._queued = 0
        """Bytes at the end of these that the kernel hasn't taken."""
        self._under_way: IDelayedCall | None = None
        self._reading = True
        self._aborting = False
        self._write_closing = False
        self._write_closed = False
        self._read_closed = False
        """The other end has closed its side, and the protocol here lives on half-closed."""
        self._no_delay = False
        self._keep_alive = False

    def accept(self, factory: IProtocolFactory, peer: IPv4Address) -> None:
        """Start with a protocol of `factory`; without one the connection is closed."""
        self.protocol = factory.buildProtocol(peer)
        if self.protocol is None:
            self.abortConnection()
        else:
            self.protocol.makeConnection(self)

    @property
    def unsent(self) -> int:
        """Bytes that were written and haven't arrived."""
        return len(self._unsent)

    # -- DirectTransport

    @property
    def dataBuffer(self) -> Sized:
        """See DirectTransport: what the kernel hasn't taken."""
        return range(self._queued)

    def writeSomeData(self, data: bytes) -> int | Exception:
        """See DirectTransport: what the kernel has room for."""
        if not self.other.connected and not self._network.held(self._there, self._here):
            return ConnectionLost()  # the kernel knows before the protocol is told
        waiting = len(self._unsent)
        room = min(self._network.room(), self.bufferSize - waiting)
        taken = data if len(data) <= room else data[: max(0, room)]
        if taken:
            self._add(taken, waiting - self._queued)
            self._send()
        return len(taken)

    def startWriting(self) -> None:
        """See DirectTransport."""
        self._send()

    # -- ITransport, ITCPTransport

    def write(self, data: bytes) -> None:
        if not isinstance(data, bytes):
            raise TypeError(f"Data must be bytes, not {type(data).__name__}")
        if not data or not self._writable():
            return
        self._add(data, len(self._unsent))
        self._queued += len(data)
        if self.streamingProducer and not self.producerPaused and len(self._unsent) > self.bufferSize:
            self.producerPaused = True
            self.producer.pauseProducing()
        self._send()

    def _writable(self) -> bool:
        return self.connected and not self._write_closing and not self._aborting

    def _add(self, data: bytes, at: int) -> None:
        if self._writable():
            unsent = self._unsent
            unsent[at:at] = data
            if len(unsent) > self.most_unsent:
                self.most_unsent = len(unsent)

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            self._reading = False
            self._send()

    def loseWriteConnection(self) -> None:
        if self.connected and not self._write_closing:
            self._write_closing = True
            self._send()

    def abortConnection(self) -> None:
        if self.connected and not self._aborting:
            self._aborting = True
            self._reading = False
            self._unsent.clear()
            self._network.clock.callLater(0, self._abort)

    def _abort(self) -> None:
        self.lost(ConnectionAborted())
        self._reset_other()

    def _reset_other(self) -> None:
        """Tell the other end, once, that this one is gone."""
        if not self._network.held(self._here, self._there):
            self._network.later(self.other.lost, ConnectionLost())

    def getHost(self) -> IPv4Address:
        return self._host

    def getPeer(self) -> IPv4Address:
        return self._peer

    def getTcpNoDelay(self) -> bool:
        return self._no_delay

    def setTcpNoDelay(self, enabled: bool) -> None:
        self._no_delay = enabled

    def getTcpKeepAlive(self) -> bool:
        return self._keep_alive

    def setTcpKeepAlive(self, enabled: bool) -> None:
        self._keep_alive = enabled

    # -- IConsumer: who feeds this end

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        if self.producer is not None:
            raise RuntimeError(f"can't register {producer}: {self.producer} was never unregistered")
        if not self.connected:
            producer.stopProducing()
            return
        self.producer, self.streamingProducer = producer, streaming
        if not streaming:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:
        self.producer, self.streamingProducer = None, False
        if self.connected and self.disconnecting:
            self._send()

    # -- IPushProducer: whether this end reads

    def pauseProducing(self) -> None:
        self._reading = False

    def resumeProducing(self) -> None:
        if self.connected and not self.disconnecting:
            self._reading = True
            self.other._send()

    def stopProducing(self) -> None:
        self.loseConnection()

    stopReading = pauseProducing
    startReading = resumeProducing

    # -- the path to the other end

    def _send(self) -> None:
        """One piece at a time is under way, so that they arrive in order."""
        if self._under_way is None:
            self._under_way = self._network.later(self._arrive)

    def _arrive(self) -> None:
        self._under_way = None
        if self._aborting:
            return
        network = self._network
        if network.held(self._here, self._there) or (
            self.stalled_until and self.stalled_until > network.clock.seconds()
        ):
            self._under_way = network.clock.callLater(RETRANSMIT, self._arrive)
            return
        self._queued = 0
        if self._unsent:
            if not self.other.connected:
                self.lost(ConnectionLost())
                return
            if not self.other._take(self._unsent):
                return
            if self._unsent:
                self._send()
                return
        self._drained()

    def _take(self, unsent: bytearray) -> bool:
        """Read some of what the other end wrote; False: not now."""
        if not self.disconnecting:
            if not self._reading:
                return False
            size = min(len(unsent), self.bufferSize)
            size = max(1, min(size, self._network.piece(size)))
            data = bytes(unsent[:size])
            del unsent[:size]
            try:
                self.protocol.dataReceived(data)
            except Exception:
                reason = Failure()
                self._log.failure("dataReceived", reason)
                self._reset_other()
                self.lost(reason)
        else:
            unsent.clear()
        return True

    def _drained(self) -> None:
        """All that was written has arrived."""
        if not self.connected:
            if self.other.connected:
                self.other._ended()
        elif self.producer is not None and (not self.streamingProducer or self.producerPaused):
            self.producerPaused = False
            self.producer.resumeProducing()
        elif self.disconnecting:
            self.lost(ConnectionDone())
            self.other._ended()
        elif self._write_closing:
            half: Any = IHalfCloseableProtocol(self.protocol, None)
            if half is not None and not self._write_closed:
                half.writeConnectionLost()
            self._write_closed = True
            self.other._ended()

    def _ended(self) -> None:
        """The other end writes no more: noticed by who reads."""
        if not self.connected or self._read_closed:
            return
        if not self._reading and not self.disconnecting:
            return
        self._read_closed = True
        half: Any = IHalfCloseableProtocol(self.protocol, None)
        if half is not None:
            half.readConnectionLost()
        else:
            self.lost(ConnectionDone())
            self._network.later(self.other._ended)

    def vanish(self, *, told: bool) -> None:
        """This end's process is gone, now. What has left it arrives all the same: the piece under way; told: the
        kernel sends the rest, too, and the other end hears of the end."""
        if self._under_way is not None and self._unsent:
            size = len(self._unsent) if told else self._network.piece(len(self._unsent))
            self._network.later(self.other.take_last, bytearray(self._unsent[:size]))
        self._forget()
        if told:
            self._reset_other()

    def take_last(self, data: bytearray) -> None:
        """What the other end sent before it was gone."""
        if self._network.held(self._there, self._here):
            return
        while data and self.connected and self._take(data):
            pass

    def _forget(self) -> None:
        self.connected = False
        self.disconnecting = False
        self._network.transports.remove(self)
        if self._under_way is not None:
            self._under_way.cancel()
            self._under_way = None
        self._unsent.clear()

    def lost(self, reason: Exception | Failure) -> None:
        """This end is gone, now."""
        if not self.connected:
            return
        self._forget()
        if self.producer is not None:
            self.producer.stopProducing()
            self.producer = None
        failure = reason if isinstance(reason, Failure) else Failure(reason)
        if self.protocol is not None:
            self.protocol.connectionLost(failure)
        self.on_lost(failure)
