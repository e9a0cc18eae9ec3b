"""A port that speaks TLS, and plain bytes beside it if it may: RocketMQ's enforcing and permissive modes.

The first byte tells: a TLS record begins with 0x16, which no frame of ours can (its length would be 350 MiB). A
plain connection is given to its protocol from then on as if nothing had been between, so that it costs nothing.
The protocol exists from the beginning: it counts as a connection of the port before it has sent a byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast
from typing import Protocol as TypingProtocol

from twisted.internet.interfaces import (
    IAddress,
    IProtocol,
    IProtocolFactory,
    IPushProducer,
    IReactorTime,
    ITCPTransport,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.tls.contexts import ContextSource
from hatwisted.tls.handshakes import Handshakes
from hatwisted.tls.tlslayer import Handshaking, TlsLayer, server_layers

TLS_RECORD: Final = 0x16
"""First byte of a ClientHello: a record of type handshake."""
MAX_HELLO: Final = 32 << 10
"""Bytes of the first read of a client that speaks TLS: it says no more than its ClientHello before the server has
spoken: some hundred bytes, a few thousand with a ticket. It may wait for its turn with a thousand others."""


class Watched(TypingProtocol):
    """Something that is looked at while it's in use."""

    def start(self) -> None:
        """It's in use."""

    def stop(self) -> None:
        """By one less."""


@implementer(IProtocolFactory)
class WatchingFactory:
    """Another factory, and certificates that are looked at while its port is open.

    - factory: the server's
    - watched: the certificates
    """

    def __init__(self, factory: IProtocolFactory, watched: Sequence[Watched]) -> None:
        self._factory = factory
        self._watched = watched

    def doStart(self) -> None:
        """See IProtocolFactory."""
        for each in self._watched:
            each.start()
        self._factory.doStart()

    def doStop(self) -> None:
        """See IProtocolFactory."""
        for each in self._watched:
            each.stop()
        self._factory.doStop()

    def buildProtocol(self, addr: IAddress) -> IProtocol | None:
        """See IProtocolFactory."""
        return self._factory.buildProtocol(addr)


class TlsServerFactory(WatchingFactory):
    """Puts TLS before the connections of another factory.

    - factory: the server's
    - context: for each new connection
    - clock: the reactor's
    - plain: serve plain connections, too
    - watched: certificates that are looked at while the port is open
    """

    def __init__(
        self,
        factory: IProtocolFactory,
        context: ContextSource,
        clock: IReactorTime,
        *,
        plain: bool,
        watched: Sequence[Watched] = (),
    ) -> None:
        super().__init__(factory, watched)
        self.plain = plain
        self.handshakes = Handshakes(clock)
        self.layer = server_layers(context, clock)

    def doStop(self) -> None:
        """See IProtocolFactory."""
        self.handshakes.stop()
        super().doStop()

    def buildProtocol(self, addr: IAddress) -> IProtocol | None:
        """See IProtocolFactory."""
        behind = self._factory.buildProtocol(addr)
        return None if behind is None else FirstByte(self, behind)


class FirstByte(Protocol):
    """A connection of which nothing has been read yet, then its handshake.

    - port: the factory that accepted it
    - behind: the server's protocol

    `address` is the client's host.
    """

    def __init__(self, port: TlsServerFactory, behind: IProtocol) -> None:
        self._port = port
        self._handshakes = port.handshakes
        self._behind = behind
        self._hello = b""
        self._layer: TlsLayer | None = None
        self._peer = "?"
        self.address = "?"

    # ---- before

    def connectionMade(self) -> None:
        address = cast(ITCPTransport, self.transport).getPeer()
        self.address = address.host
        self._peer = f"{address.host}:{address.port}"
        if not self._port.plain:
            self._handshakes.begin(self)
        self._behind.makeConnection(cast(ITCPTransport, self.transport))

    def dataReceived(self, data: bytes) -> None:
        if data[0] == TLS_RECORD:
            self._wait(data)
        elif self._port.plain:
            cast(Any, self.transport).protocol = self._behind
            self._behind.dataReceived(data)
        else:
            self.give_up("it sends plain bytes, and this port speaks TLS alone")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._handshakes.end(self)
        self._behind.connectionLost(reason)

    # ---- the handshake

    def _wait(self, data: bytes) -> None:
        if len(data) > MAX_HELLO:
            self.give_up(f"{len(data)} bytes of a ClientHello, at most {MAX_HELLO} are read")
            return
        self._hello = data
        cast(IPushProducer, self.transport).pauseProducing()
        self._handshakes.begin(self)
        self._handshakes.turns.wait(self)

    def go_on(self) -> None:
        """It's this connection's turn."""
        if not self._handshakes.holds(self):
            return  # it has been given up
        turns = self._handshakes.turns
        began = turns.seconds()
        cast(IPushProducer, self.transport).resumeProducing()
        self._encrypt()
        turns.count(turns.seconds() - began)

    def _encrypt(self) -> None:
        transport = cast(Any, self.transport)
        layer = self._layer = self._port.layer(Handshaking(self._completed, self._ended))
        # Whoever is asked to pause has to be asked by the layer, which has bytes of its own.
        producer, streaming = transport.producer, transport.streamingProducer
        if producer is not None:
            transport.unregisterProducer()
        transport.protocol = layer
        layer.makeConnection(transport)
        if producer is not None:
            layer.registerProducer(producer, streaming)
        cast(Any, self._behind).transport = layer
        layer.dataReceived(self._hello)

    def _completed(self) -> IProtocol:
        self._handshakes.end(self)
        self._handshakes.completed_total += 1
        return self._behind

    def _ended(self, reason: str, failure: Failure) -> None:
        if self._handshakes.holds(self):
            self._handshakes.failed(self._peer, reason)
        self._handshakes.end(self)
        self._behind.connectionLost(failure)

    def give_up(self, reason: str) -> None:
        """Close at once."""
        self._handshakes.end(self)
        self._handshakes.failed(self._peer, reason)
        (cast(Any, self.transport) if self._layer is None else self._layer).abortConnection()
