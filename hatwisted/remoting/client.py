"""Asking other servers over Twisted: the channels of `clientcore.calls` on endpoints, answers as Deferreds.

Which calls are under way, when a silent server is given up and who hears of what is `clientcore.calls`, as
under asyncio; here are the sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IReactorTime, ITCPTransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from hatwisted.clientcore.calls import CONNECT_TIMEOUT, Channel, ChannelTable
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.driver import Answer, Log
from hatwisted.clientcore.errors import Refused
from hatwisted.remoting.deferreds import fired
from hatwisted.remoting.eagerwrite import write_now
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.remoting.twistedlog import TwistedLog
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand


def channel_table(
    connecting: IConnecting, clock: IReactorTime, log: Log, credentials: Credentials | None = None
) -> ChannelTable:
    """The connections of a client, by address.

    - connecting: makes their sockets
    - clock: ends calls that have timed out
    - log: gets what goes wrong
    - credentials: as ChannelTable
    """

    def dial(channel: Channel, host: str, port: int) -> Callable[[], object]:
        endpoint = connecting.endpoint(host, port, CONNECT_TIMEOUT)
        attempt = endpoint.connect(_ClientFactory(channel))
        attempt.addCallbacks(
            channel.connected, lambda failure: channel.not_connected(failure.getErrorMessage())
        )
        return attempt.cancel

    return ChannelTable(clock.callLater, dial, log, credentials)


class RemotingClient:
    """Calls to any number of servers.

    connecting: makes the connections
    clock: times the calls out
    on_request: called with (address, request) of a server; what it gives is the answer. By default all
        are refused
    credentials: the account that every request is signed for, if any
    """

    def __init__(
        self,
        connecting: IConnecting,
        clock: IReactorTime,
        on_request: Callable[[str, RemotingCommand], Answer] = lambda address, request: None,
        credentials: Credentials | None = None,
    ) -> None:
        log = TwistedLog("hatwisted.remoting.client")
        self._channels = channel_table(connecting, clock, log, credentials)
        self._channels.serve(on_request, self._lost)
        self._lost_listeners: list[Callable[[str], None]] = []

    def call(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        """Send a request and wait for its answer, whatever its code.

        - address: "host:port" of the server
        - command: the request; its opaque is set here
        - timeout: seconds

        Fails with a CallFailed, or BadSetting (a ValueError) for a bad address. Cancelling abandons the
        answer.
        """
        return fired(self._channels.call(address, command, timeout))

    def ask(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        """As `call`, but fails with Refused when the answer's code isn't SUCCESS."""

        def check(response: RemotingCommand) -> RemotingCommand:
            if response.code != ResponseCode.SUCCESS:
                raise Refused.of(address, response)
            return response

        return self.call(address, command, timeout).addCallback(check)

    def oneway(self, address: str, command: RemotingCommand) -> None:
        """Send `command` without an answer; it is lost without a word when the peer can't be reached.

        Raises BadSetting (a ValueError) for a bad address and TooManyCalls.
        """
        self._channels.oneway(address, command)

    def on_lost(self, listener: Callable[[str], None]) -> None:
        """`listener(address)` whenever an established connection ends, unless `close` ended it."""
        self._lost_listeners.append(listener)

    def _lost(self, address: str) -> None:
        for listener in self._lost_listeners:
            listener(address)

    def close(self) -> Deferred[None]:
        """Fail all calls, close all connections; fires when they are closed, those whose peer takes nothing any
        more after CLOSE_LINGER."""
        return fired(self._channels.close())


class _ClientProtocol(Protocol):
    """Bytes to the channel, and its Socket."""

    _socket: ITCPTransport

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def connectionMade(self) -> None:
        self._socket = cast(ITCPTransport, self.transport)
        self._socket.setTcpNoDelay(True)
        self._socket.setTcpKeepAlive(True)

    def dataReceived(self, data: bytes) -> None:
        self._channel.received(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._channel.disconnected(reason.getErrorMessage())

    def write(self, data: bytes) -> None:
        write_now(self._socket, data)

    def close(self) -> None:
        self._socket.loseConnection()

    def abort(self) -> None:
        self._socket.abortConnection()


class _ClientFactory(Factory):
    noisy = False

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def buildProtocol(self, addr: IAddress | None) -> _ClientProtocol:
        return _ClientProtocol(self._channel)
