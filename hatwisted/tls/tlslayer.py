"""The TLS of one connection: Twisted's, with what this program's protocols need on top.

All that one read of the socket brings is handed on in one piece, because a read is a batch here; Twisted's layer
hands on a record at a time, of 16 KiB at most. And what is written goes to the socket in the same call
(`remoting.eagerwrite`): Twisted's own buffering waits for the next turn, in order to join small writes, which
those who write here have done already.

While the handshake lasts, the protocol behind the layer is `Handshaking`: it notices the end of it, either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from OpenSSL import SSL
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import (
    IHandshakeListener,
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
    IProtocol,
    IReactorTime,
    ITransport,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.remoting.eagerwrite import write_now
from hatwisted.tls.contexts import ContextSource, error_text

RECORD: Final = 1 << 14
"""Most bytes of a TLS record."""

PIECE: Final = 1 << 17
"""Bytes that are encrypted before they are written; of a longer write, what follows the first piece waits for the
reactor's turn. Joined, a mebibyte would be copied three times more on its way to the socket."""


class TlsLayer(TLSMemoryBIOProtocol):
    """Between a transport and the protocol behind it."""

    wrappedProtocol: Any
    below: ITransport
    """What carries the encrypted bytes."""

    def makeConnection(self, transport: ITransport) -> None:
        """Begin the handshake on `transport`."""
        self.below = transport
        self._socket = _WritesNow(transport)
        super().makeConnection(cast(ITransport, self._socket))

    def write(self, data: bytes) -> None:
        """Encrypt; what makes several records leaves in one piece all the same."""
        if len(data) <= RECORD:
            super().write(data)
            return
        view = memoryview(data)
        for begin in range(0, len(data), PIECE):
            self._socket.hold()
            try:
                super().write(view[begin : begin + PIECE])
            finally:
                self._socket.release(now=begin == 0)

    def dataReceived(self, data: bytes) -> None:
        """From the socket, encrypted."""
        super().dataReceived(data)
        self.wrappedProtocol.hand_on()

    def loseConnection(self) -> None:
        """Say that this is the end, and close once that has been written.

        Twisted's waits for the peer to say so, too, and for the producer to leave; RocketMQ's servers don't
        answer.
        """
        if self.connected and not self.disconnecting:
            self.unregisterProducer()
            super().loseConnection()
            cast(ITransport, self.transport).loseConnection()

    def certificate_refused(self, reason: str) -> None:
        """See RefusalListener."""
        self.wrappedProtocol.problem = reason


class _WritesNow:
    """A transport whose `write` doesn't wait for the reactor's next turn."""

    def __init__(self, transport: ITransport) -> None:
        self._transport = transport
        self._held: list[bytes] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._held is None:
            write_now(self._transport, data)
        else:
            self._held.append(data)

    def hold(self) -> None:
        """Write nothing before `release`."""
        self._held = []

    def release(self, *, now: bool) -> None:
        """Write what was held. now: from this very call."""
        held, self._held = self._held, None
        if held and now:
            write_now(self._transport, b"".join(held))
        elif held:
            self._transport.write(b"".join(held))


@implementer(IHandshakeListener)
class Handshaking(Protocol):
    """Stands between the layer and the real protocol.

    - completed: called when the handshake is done; gives the protocol that gets what follows, or None if it has
      closed the connection
    - failed: called with the reason in words if the connection ends before that
    """

    def __init__(
        self, completed: Callable[[], IProtocol | None], failed: Callable[[str, Failure], object]
    ) -> None:
        self.problem: str | None = None
        """Why the peer's certificate wasn't accepted, if it wasn't."""
        self._completed = completed
        self._failed = failed
        self._real: IProtocol | None = None
        self._pieces: list[bytes] = []

    def handshakeCompleted(self) -> None:
        """Twisted's: both sides have the keys."""
        self._real = self._completed()

    def dataReceived(self, data: bytes) -> None:
        self._pieces.append(data)

    def hand_on(self) -> None:
        """Give the real protocol all that has come."""
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            if self._real is not None:
                self._real.dataReceived(b"".join(pieces) if len(pieces) > 1 else pieces[0])

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.hand_on()
        real, self._real = self._real, None
        if real is not None:
            if isinstance(reason.value, SSL.Error):
                reason = Failure(ConnectionLost(error_text(reason.value)))
            real.connectionLost(reason)
        else:
            self._failed(self._reason(reason), reason)

    def _reason(self, reason: Failure) -> str:
        if self.problem is not None:
            return f"the certificate isn't accepted: {self.problem}"
        return error_text(cast(BaseException, reason.value))


@implementer(IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator)
class _Connections:
    """Gives each layer its OpenSSL connection, whose app data is the layer."""

    def __init__(self, context: ContextSource, server_name: str | None) -> None:
        self._context = context
        self._server_name = server_name

    def serverConnectionForTLS(self, layer: TLSMemoryBIOProtocol) -> SSL.Connection:
        connection = SSL.Connection(self._context(), None)
        connection.set_app_data(layer)
        return connection

    def clientConnectionForTLS(self, layer: TLSMemoryBIOProtocol) -> SSL.Connection:
        connection = self.serverConnectionForTLS(layer)
        if self._server_name is not None:
            connection.set_tlsext_host_name(self._server_name.encode("idna"))
        return connection


def server_layers(context: ContextSource, clock: IReactorTime) -> Callable[[Handshaking], TlsLayer]:
    """Makes the layers of connections that are accepted.

    - context: for each new one
    - clock: the reactor's
    """
    factory = TLSMemoryBIOFactory(_Connections(context, None), False, None, clock)  # type: ignore[arg-type]
    return lambda behind: TlsLayer(factory, behind, False)


def client_layer(
    context: ContextSource, clock: IReactorTime, server_name: str | None, behind: Handshaking
) -> TlsLayer:
    """The layer of a connection that we make.

    - context: gives what it is encrypted with
    - clock: the reactor's
    - server_name: host name that the server is to know it's called by; None: none, for an IP address
    - behind: gets what comes through it
    """
    creator = _Connections(context, server_name)
    return TlsLayer(TLSMemoryBIOFactory(creator, True, None, clock), behind, False)  # type: ignore[arg-type]
