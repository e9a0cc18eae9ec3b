"""A network in memory: hosts, listening ports and TCP connections on a clock, without a socket.

    network = MemoryNetwork(clock)
    here, there = network.host("10.0.0.1"), network.host("10.0.0.2")
    port = there.listenTCP(10911, factory)
    endpoint = here.endpoint("10.0.0.2", 10911)

A `MemoryHost` listens and connects as a host's network does, and is an IReactorTCP for whatever takes a reactor
to that end. What is written arrives in order, in pieces, by calls of the clock: on a `task.Clock` a test decides
when (`advance(0)` is one turn), on the reactor it happens by itself. `latency` and `piece` decide how late and in
which pieces, `up`, `silent_hosts`, `held`, `cut` and `vanish` what breaks; whoever draws these from one seeded
Random gets runs that replay.

Transports keep Twisted's rules: a streaming producer is paused above `bufferSize`, a pull producer asked when the
buffer is empty, `loseConnection` writes what is queued first, `abortConnection` drops it, an exception in
`dataReceived` is logged and costs the connection. What they lack is the kernel: a peer that doesn't read leaves
everything in the writer's own buffer.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import (
    ConnectionAborted,
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
    TimeoutError,
    UserError,
)
from twisted.internet.interfaces import (
    IConnector,
    IConsumer,
    IDelayedCall,
    IHalfCloseableProtocol,
    IListeningPort,
    IProtocolFactory,
    IPushProducer,
    IReactorTCP,
    IReactorTime,
    ITCPTransport,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.remoting.interfaces import BACKLOG, IConnecting, IListening, PortUnavailable

FIRST_EPHEMERAL_PORT = 32768

RETRANSMIT = 0.2
"""Seconds between two tries to bring bytes over a way that is held."""

BUFFER_SIZE = 1 << 16
"""Bytes of one read at most, and bytes unsent above which a streaming producer is paused: Twisted's own."""


class MemoryNetwork:
    """Hosts that reach each other.

    Arguments:
        clock: delivers; a `task.Clock` or the reactor.
        latency: seconds until a piece, a connect or a close arrives; asked for each.
        piece: how many of so many waiting bytes arrive next.
        buffer_size: `bufferSize` of new transports, in bytes.
        held: does nothing get from one address to another at present? Asked at every arrival; bytes wait,
        closes and connects get lost.
    """

    def __init__(
        self,
        clock: IReactorTime,
        *,
        latency: Callable[[], float] = lambda: 0.0,
        piece: Callable[[int], int] = lambda waiting: waiting,
        buffer_size: int = BUFFER_SIZE,
        held: Callable[[str, str], bool] = lambda source, target: False,
    ) -> None:
        self.clock = clock
        self.latency = latency
        self.piece = piece
        self.buffer_size = buffer_size
        self.held = held
        self.up = True
        """Can connections be made? Otherwise they are refused."""
        self.silent_hosts: set[str] = set()
        """Hosts that don't answer a connect: it ends by its timeout."""
        self.names = {"localhost": "127.0.0.1"}
        """Addresses by host name; any other name is an address."""
        self.listening: dict[tuple[str, int], MemoryPort] = {}
        self.claimed: set[tuple[str, int]] = set()
        """Ports that belong to somebody who doesn't listen on them yet."""
        self.transports: list[MemoryTransport] = []
        """Both ends of all connections, in the order in which they were made."""
        self.dialling: dict[MemoryConnector, None] = {}
        """Connects under way, in the order in which they were begun."""
        self._ephemeral = itertools.count(FIRST_EPHEMERAL_PORT)

    def host(self, address: str = "127.0.0.1") -> MemoryHost:
        """The machine of that address."""
        return MemoryHost(self, address)

    def cut(self) -> None:
        """All connections break now: what is under way is lost, both ends notice."""
        for transport in list(self.transports):
            transport.lost(ConnectionLost())

    def vanish(self, address: str, *, told: bool) -> None:
        """The process at `address` is gone, with all it listened on and was connected to; nothing of it is
        called any more. told: its kernel lives and tells the peers; otherwise they learn it when they write and
        the host is up again."""
        for at in [at for at in self.listening if at[0] == address]:
            del self.listening[at]
        self.claimed = {at for at in self.claimed if at[0] != address}
        for connector in [each for each in self.dialling if each.dials_from(address)]:
            connector.vanish()
        for transport in [each for each in self.transports if each.getHost().host == address]:
            transport.vanish(told=told)

    def later(self, function: Callable[..., object], *args: object) -> IDelayedCall:
        """Call when something sent now arrives."""
        return self.clock.callLater(self.latency(), function, *args)

    def free_port(self) -> int:
        """A port number never used before."""
        return next(self._ephemeral)

    def listener(self, host: str, port: int) -> MemoryPort | None:
        """Who accepts connections to that address."""
        return self.listening.get((self.names.get(host, host), port))


@implementer(IListening, IConnecting, IReactorTCP)
class MemoryHost:
    """One machine: what it listens on and where its connections come from."""

    def __init__(self, network: MemoryNetwork, address: str) -> None:
        self.network = network
        self.address = address

    def claim(self, port: int, interface: str = "") -> int:
        """See IListening: the port's number, a free one for 0; raises PortUnavailable for one that is taken."""
        if interface not in ("", "0.0.0.0", self.address):
            reason = OSError(errno.EADDRNOTAVAIL, f"not an address of {self.address}")
            raise PortUnavailable(interface, port, reason)
        taken = self.address, port or self.network.free_port()
        if taken in self.network.listening or taken in self.network.claimed:
            raise PortUnavailable(interface, port, OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)))
        self.network.claimed.add(taken)
        return taken[1]

    def release(self, port: int, interface: str = "") -> None:
        """See IListening."""
        self.network.claimed.discard((self.address, port))

    def listen(
        self, port: int, factory: IProtocolFactory, backlog: int = BACKLOG, interface: str = ""
    ) -> MemoryPort:
        """See IListening."""
        if (self.address, port) not in self.network.claimed:
            port = self.claim(port, interface)
        self.release(port)
        listening = MemoryPort(self.network, self.address, port, factory)
        listening.startListening()
        return listening

    def endpoint(self, host: str, port: int, timeout: float = 30) -> TCP4ClientEndpoint:
        """See IConnecting."""
        return TCP4ClientEndpoint(self, host, port, timeout)

    listenTCP = listen

    def connectTCP(
        self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: object = None
    ) -> MemoryConnector:
        """As the reactor's."""
        connector = MemoryConnector(self, host, port, factory, timeout)
        connector.connect()
        return connector


@implementer(IListeningPort)
class MemoryPort:
    """A port that is listened on."""

    def __init__(self, network: MemoryNetwork, host: str, port: int, factory: Any) -> None:
        self.factory = factory
        self._network = network
        self._at = host, port

    def startListening(self) -> None:
        self._network.listening[self._at] = self
        self.factory.doStart()

    def stopListening(self) -> Deferred[None]:
        if self._network.listening.get(self._at) is self:
            del self._network.listening[self._at]
            self.factory.doStop()
        return succeed(None)

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", *self._at)


@implementer(IConnector)
class MemoryConnector:
    """A connection that a host makes."""

    def __init__(self, host: MemoryHost, to_host: str, to_port: int, factory: Any, timeout: float) -> None:
        self.factory = factory
        self._host = host
        self._network = host.network
        self._to = to_host, to_port
        self._timeout = timeout
        self._attempt: IDelayedCall | None = None
        self._transport: MemoryTransport | None = None

    def connect(self) -> None:
        if self._attempt is not None or self._transport is not None:
            raise RuntimeError("can't connect in this state")
        self.factory.doStart()
        self.factory.startedConnecting(self)
        self._network.dialling[self] = None
        near, far = self._host.address, self._network.names.get(self._to[0], self._to[0])
        held = self._network.held(near, far) or self._network.held(far, near)
        if held or self._to[0] in self._network.silent_hosts:
            self._attempt = self._network.clock.callLater(self._timeout, self._failed, TimeoutError())
        else:
            self._attempt = self._network.later(self._arrived)

    def stopConnecting(self) -> None:
        if self._attempt is None:
            raise RuntimeError("not connecting")
        self._attempt.cancel()
        self._failed(UserError())

    def disconnect(self) -> None:
        if self._attempt is not None:
            self.stopConnecting()
        elif self._transport is not None:
            self._transport.loseConnection()

    def getDestination(self) -> IPv4Address:
        return IPv4Address("TCP", *self._to)

    def dials_from(self, address: str) -> bool:
        """Is it that host's?"""
        return self._host.address == address

    def vanish(self) -> None:
        """Whoever connects is gone."""
        if self._attempt is not None:
            self._attempt.cancel()
            self._attempt = None
        self._network.dialling.pop(self, None)

    def _arrived(self) -> None:
        listener = self._network.listener(*self._to) if self._network.up else None
        if listener is None:
            self._failed(ConnectionRefusedError())
            return
        self._attempt = None
        self._network.dialling.pop(self, None)
        near = IPv4Address("TCP", self._host.address, self._network.free_port())
        far = listener.getHost()
        here, there = MemoryTransport(self._network, near, far), MemoryTransport(self._network, far, near)
        here.other, there.other = there, here
        self._network.transports += (here, there)
        here.on_lost = self._lost
        self._transport = here
        there.accept(listener.factory, near)
        here.accept(self.factory, far)

    def _failed(self, reason: Exception) -> None:
        self._attempt = None
        self._network.dialling.pop(self, None)
        self.factory.clientConnectionFailed(self, Failure(reason))
        self.factory.doStop()

    def _lost(self, reason: Failure) -> None:
        self._transport = None
        self.factory.clientConnectionLost(self, reason)
        self.factory.doStop()


@implementer(ITCPTransport, IConsumer, IPushProducer)
class MemoryTransport:
    """One end of a connection: what is written here arrives at the other end's protocol."""

    _log = Logger()

    def __init__(self, network: MemoryNetwork, host: IPv4Address, peer: IPv4Address) -> None:
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
        self._network = network
        self._host = host
        self._peer = peer
        self._unsent = bytearray()
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
        """Begin with a protocol of `factory`; without one the connection is closed."""
        self.protocol = factory.buildProtocol(peer)
        if self.protocol is None:
            self.abortConnection()
        else:
            self.protocol.makeConnection(self)

    @property
    def unsent(self) -> int:
        """Bytes that were written and haven't arrived."""
        return len(self._unsent)

    # -- ITransport, ITCPTransport

    def write(self, data: bytes) -> None:
        if not isinstance(data, bytes):
            raise TypeError(f"Data must be bytes, not {type(data).__name__}")
        if not data or not self.connected or self._write_closing or self._aborting:
            return
        self._unsent += data
        self.most_unsent = max(self.most_unsent, len(self._unsent))
        if self.streamingProducer and not self.producerPaused and len(self._unsent) > self.bufferSize:
            self.producerPaused = True
            self.producer.pauseProducing()
        self._send()

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
        if not self._network.held(self._host.host, self._peer.host):
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

    # -- the way to the other end

    def _send(self) -> None:
        """One piece at a time is under way, so that they arrive in order."""
        if self._under_way is None:
            self._under_way = self._network.later(self._arrive)

    def _arrive(self) -> None:
        self._under_way = None
        if self._aborting:
            return
        if self._network.held(self._host.host, self._peer.host):
            self._under_way = self._network.clock.callLater(RETRANSMIT, self._arrive)
            return
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
        if self._network.held(self._peer.host, self._host.host):
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
