"""A network on a test clock that delivers late, in pieces, with little room for what is under way, and
breaks.

Everything random comes from one Random, so a seed replays a run exactly.
"""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import (
    IConsumer,
    IListeningPort,
    IProtocol,
    IProtocolFactory,
    IPushProducer,
    IStreamClientEndpoint,
    ITransport,
)
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.remoting.interfaces import IConnecting

BUFFER_LIMIT = 2000
"""Bytes that a pipe buffers before it pauses its producer."""


@implementer(IConnecting)
class FaultyNetwork:
    """Links between services of one clock."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.max_delay = 0.02
        """Seconds a piece is under way at most."""
        self.max_piece = 700
        """Bytes of a piece at most."""
        self.up = True
        """Can links be made?"""
        self._factory: IProtocolFactory | None = None
        self._pipes: list[Pipe] = []
        self._ports = 50000

    def listen(self, factory: IProtocolFactory) -> IListeningPort:
        """The one listening port of this network."""
        self._factory = factory
        return _Port()

    def endpoint(self, host: str, port: int, timeout: float) -> IStreamClientEndpoint:
        """See IConnecting."""
        return _Endpoint(self)

    def connect(self, factory: IProtocolFactory) -> IProtocol:
        """Make a link between `factory` and who listens."""
        assert self._factory is not None
        self._ports += 1
        near, far = Pipe(self, "10.0.0.1", 10912), Pipe(self, "10.0.0.2", self._ports)
        near.other, far.other = far, near
        client = factory.buildProtocol(near.getPeer())
        server = self._factory.buildProtocol(far.getPeer())
        near.protocol, far.protocol = client, server
        self._pipes += (near, far)
        server.makeConnection(far)
        client.makeConnection(near)
        return client

    def cut(self) -> None:
        """All links break now: what is under way is lost, both ends are told."""
        for pipe in self._pipes:
            pipe.die(ConnectionLost())
        self._pipes = []

    @property
    def most_buffered(self) -> int:
        """The most bytes that any pipe of the present links had to hold."""
        return max((pipe.most_buffered for pipe in self._pipes), default=0)


@implementer(ITransport, IConsumer)
class Pipe:
    """One end of a link: what is written here arrives at the other end's protocol."""

    def __init__(self, network: FaultyNetwork, peer: str, port: int) -> None:
        self._network = network
        self._peer = IPv4Address("TCP", peer, port)
        self._buffer = bytearray()
        self._under_way: Any = None
        self._producer: IPushProducer | None = None
        self._paused = False
        self._closing = False
        self.dead = False
        self.most_buffered = 0
        self.protocol: Any = None
        self.other: Any = None

    def write(self, data: bytes) -> None:
        if self.dead or self._closing:
            return
        self._buffer += data
        self.most_buffered = max(self.most_buffered, len(self._buffer))
        if len(self._buffer) > BUFFER_LIMIT and self._producer is not None:
            self._paused = True
            self._producer.pauseProducing()
        self._send()

    def writeSequence(self, data: Any) -> None:
        self.write(b"".join(data))

    def _send(self) -> None:
        if self._under_way is None and not self.dead and (self._buffer or self._closing):
            delay = self._network.random.random() * self._network.max_delay
            self._under_way = self._network.clock.callLater(delay, self._arrive)

    def _arrive(self) -> None:
        self._under_way = None
        size = self._network.random.randint(1, self._network.max_piece)
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        if piece and not self.other.dead:
            self.other.protocol.dataReceived(piece)
        if self._closing and not self._buffer:
            self.die(ConnectionDone())
            return
        if self._paused and not self._buffer and self._producer is not None:
            self._paused = False
            self._producer.resumeProducing()
        self._send()

    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None:
        self._producer = producer

    def unregisterProducer(self) -> None:
        self._producer = None

    def loseConnection(self) -> None:
        self._closing = True
        self._send()

    def abortConnection(self) -> None:
        self._network.clock.callLater(0, self.die, ConnectionAborted())

    def die(self, reason: Exception) -> None:
        """This end and the other are gone."""
        for pipe in (self, self.other):
            if not pipe.dead:
                pipe.dead = True
                if pipe._under_way is not None:
                    pipe._under_way.cancel()
                    pipe._under_way = None
                pipe.protocol.connectionLost(Failure(reason))

    def getPeer(self) -> IPv4Address:
        return self._peer

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "10.0.0.3", 1)


@implementer(IListeningPort)
class _Port:
    def startListening(self) -> None: ...

    def stopListening(self) -> Deferred[None]:
        return succeed(None)

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "10.0.0.1", 10912)


@implementer(IStreamClientEndpoint)
class _Endpoint:
    def __init__(self, network: FaultyNetwork) -> None:
        self._network = network

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        if not self._network.up:
            return fail(ConnectionRefusedError())
        return succeed(self._network.connect(factory))
