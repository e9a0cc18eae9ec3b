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

"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import ConnectionLost, ConnectionRefusedError, TimeoutError, UserError
from twisted.internet.interfaces import (
    IConnector,
    IDelayedCall,
    IListeningPort,
    IProtocolFactory,
    IReactorTCP,
    IReactorTime,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.remoting.interfaces import BACKLOG, IConnecting, IListening, PortUnavailable
from hatwisted.sim.memorytransport import MemoryTransport

FIRST_EPHEMERAL_PORT = 32768

BUFFER_SIZE = 1 << 16
"""Most bytes of one read, and unsent bytes above which a streaming producer is paused: Twisted's own."""


class MemoryNetwork:
    """Hosts that reach each other.

    Arguments:
        clock: delivers; a `task.Clock` or the reactor.
        latency: seconds until a piece, a connect or a close arrives; asked for each.
        piece: how many of so many waiting bytes arrive next.
        room: how many bytes of one direct write a kernel takes at most; asked for each.
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
        room: Callable[[], int] = lambda: BUFFER_SIZE,
        buffer_size: int = BUFFER_SIZE,
        held: Callable[[str, str], bool] = lambda source, target: False,
    ) -> None:
        self.clock = clock
        self.latency = latency
        self.piece = piece
        self.room = room
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
        """Connects under way, in the order in which they began."""
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

    def half_open(self, address: str, peer: str) -> bool:
        """Is a connection from `address` to `peer` left whose other end has gone, unheard so far?"""
        ends = [end for end in self.transports if end.getHost().host == address]
        return any(end.getPeer().host == peer and not end.other.connected for end in ends)

    def ports_of(self, address: str) -> list[int]:
        """Ports that are listened on there, or claimed."""
        return sorted(port for host, port in (*self.listening, *self.claimed) if host == address)

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
    """A port that is listened on.

    - network: that carries what arrives
    - host: its IP address
    - port: its number
    - factory: makes the protocol of each connection
    """

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
    """A connection that a host makes.

    - host: it
    - to_host, to_port: where to
    - factory: makes the protocol
    - timeout: most seconds to connect
    """

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
        """Was it made by that host?"""
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
