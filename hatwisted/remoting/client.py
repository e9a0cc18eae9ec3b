"""Asking other servers: one lasting connection per address, calls paired with answers by opaque.

Strategy: a `_Link` per address owns whatever is known of it (socket, calls under way, bytes waiting for the
socket). It dials when somebody asks and nobody is connected, and never by itself: the callers (registration
every 30 s, slave synchronisation every 10 s) are periodic and decide how often a dead peer is tried.

A call's timer covers dialling as well, so a peer that swallows SYNs costs its caller the same bounded time as
one that doesn't answer, and no other link. A peer that let several calls in a row time out without sending
one byte is taken for gone and its socket is dropped: TCP itself would need a quarter of an hour to find out.

Rejected: dropping the socket at the first timeout. A name server forgets a broker whose connection closes, so
one slow answer would take all of a broker's routes away.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import cast

import msgspec
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IProtocol,
    IReactorTime,
    IStreamClientEndpoint,
    ITCPTransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.remoting.eagerwrite import write_now
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.wire.codes import FLAG_ONEWAY, FLAG_RESPONSE, ResponseCode
from hatwisted.wire.remoting import (
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    encode_command,
)

CONNECT_TIMEOUT = 3.0
"""Seconds for the TCP handshake; RocketMQ's clients give it the same."""

MAX_CALLS = 1024
"""Calls without an answer on one link. Ours are a handful a second: more means that somebody doesn't wait."""

SILENT_CALLS = 2
"""Timeouts in a row, without a byte from the peer in between, after which a socket is dropped."""

GRACE = 0.5
"""Seconds more for a call whose time is over when bytes lie in its socket. The reactor reads after its timers, so
what a process that stood still was sent is unread when they fire; a send that was answered would be repeated,
and its message be there twice. Big answers take many reads, hence more than a turn."""


Answer = RemotingCommand | Deferred[RemotingCommand] | None
"""What is said to a server that asks: now, later, or that this isn't known here (or nothing, if it was oneway)."""


class CallFailed(Exception):
    """No answer came. `address`: who was asked ("host:port"); the message says what happened."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address


class ConnectFailed(CallFailed):
    """The peer could not be reached; the request was not sent."""


class ConnectionGone(CallFailed):
    """The connection closed before the answer came; whether the peer acted on the request is unknown."""


class CallTimedOut(CallFailed):
    """No answer in time; whether the peer acted on the request is unknown."""


class TooManyCalls(CallFailed):
    """Our own mistake: MAX_CALLS calls are under way already; the request was not sent."""


class RequestRefused(Exception):
    """The peer answered with another code than SUCCESS. `response`: its answer."""

    def __init__(self, address: str, response: RemotingCommand) -> None:
        super().__init__(f"{address} answered with code {response.code}: {response.remark or 'no remark'}")
        self.address = address
        self.response = response


def parse_address(address: str) -> tuple[str, int]:
    """("host", port) of "host:port" (the host may be an IPv6 address); ValueError with the text otherwise."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"not an address of the form host:port: {address!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


class RemotingClient:
    """Calls to any number of servers.

    connecting: makes the connections; clock: times the calls out.
    """

    def __init__(self, connecting: IConnecting, clock: IReactorTime) -> None:
        self._connecting = connecting
        self._clock = clock
        self._links: dict[str, _Link] = {}
        self._opaques = itertools.count(1)
        self._closed = False
        self._lost_listeners: list[Callable[[str], None]] = []
        self.on_request: Callable[[str, RemotingCommand], Answer] | None = None
        """`on_request(address, request)` hears what servers ask of us and gives the answer, now or later; None:
        refused, or oneway. Unset, everything is refused."""

    def call(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        """Send a request and wait for its answer, whatever its code.

        - address: "host:port" of the server
        - command: the request; its opaque is set here
        - timeout: seconds

        Fails with a CallFailed, or ValueError for a bad address. Cancelling abandons the answer.
        """
        try:
            return self._link(address).call(self._numbered(command, 0), timeout)
        except (CallFailed, ValueError) as error:
            failed: Deferred[RemotingCommand] = Deferred()
            failed.errback(error)
            return failed

    def ask(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        """As `call`, but fails with RequestRefused when the answer's code isn't SUCCESS."""

        def check(response: RemotingCommand) -> RemotingCommand:
            if response.code != ResponseCode.SUCCESS:
                raise RequestRefused(address, response)
            return response

        return self.call(address, command, timeout).addCallback(check)

    def oneway(self, address: str, command: RemotingCommand) -> None:
        """Send `command` without an answer; it is lost without a word when the peer can't be reached.

        Raises ValueError for a bad address and TooManyCalls.
        """
        self._link(address).oneway(self._numbered(command, FLAG_ONEWAY))

    def on_lost(self, listener: Callable[[str], None]) -> None:
        """`listener(address)` whenever an established connection ends, unless `close` ended it."""
        self._lost_listeners.append(listener)

    def close(self) -> Deferred[None]:
        """Fail all calls, close all connections; fires when they are closed."""
        self._closed = True
        links, self._links = list(self._links.values()), {}
        done = DeferredList([link.close() for link in links], consumeErrors=True)
        return done.addCallback(lambda _: None)

    def _numbered(self, command: RemotingCommand, flag: int) -> RemotingCommand:
        opaque = next(self._opaques) & 0x7FFFFFFF
        return msgspec.structs.replace(command, opaque=opaque, flag=command.flag | flag)

    def _link(self, address: str) -> _Link:
        if self._closed:
            raise ConnectFailed(address, "this client is closed")
        link = self._links.get(address)
        if link is None:
            host, port = parse_address(address)
            endpoint = self._connecting.endpoint(host, port, CONNECT_TIMEOUT)
            link = self._links[address] = _Link(address, endpoint, self._clock, self._lost, self._on_request)
        return link

    def _on_request(self, address: str, request: RemotingCommand) -> Answer:
        return None if self.on_request is None else self.on_request(address, request)

    def _lost(self, address: str) -> None:
        if not self._closed:
            for listener in self._lost_listeners:
                listener(address)


class _Call:
    """A request whose answer is awaited."""

    __slots__ = ("answer", "code", "timer")

    def __init__(self, code: int, answer: Deferred[RemotingCommand], timer: IDelayedCall) -> None:
        self.code = code
        self.answer = answer
        self.timer = timer


class _Link:
    """One address: its socket if there is one, the calls under way, the frames that wait for the socket.

    Invariant: `_unsent` is empty while `_protocol` is set, and every call in `_calls` has its frame either
    written to that socket or in `_unsent`.
    """

    _log = Logger(namespace="hatwisted.remoting.client")

    def __init__(
        self,
        address: str,
        endpoint: IStreamClientEndpoint,
        clock: IReactorTime,
        lost: Callable[[str], None],
        on_request: Callable[[str, RemotingCommand], Answer],
    ) -> None:
        self._address = address
        self._endpoint = endpoint
        self._clock = clock
        self._on_lost = lost
        self._on_request = on_request
        self._protocol: _ClientProtocol | None = None
        self._dialling: Deferred[IProtocol] | None = None
        self._closed: Deferred[None] | None = None
        self._calls: dict[int, _Call] = {}
        self._unsent: list[bytes] = []
        self._silent = 0
        self._reads = 0

    def call(self, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        if len(self._calls) >= MAX_CALLS:
            raise TooManyCalls(self._address, f"{MAX_CALLS} calls are waiting for answers")
        opaque = command.opaque
        answer: Deferred[RemotingCommand] = Deferred(lambda _: self._cancelled(opaque))
        timer = self._clock.callLater(timeout, self._time_is_over, opaque, timeout)
        self._calls[opaque] = _Call(command.code, answer, timer)
        self._send(encode_command(command))
        return answer

    def oneway(self, command: RemotingCommand) -> None:
        if len(self._unsent) >= MAX_CALLS:
            raise TooManyCalls(self._address, f"{MAX_CALLS} requests are waiting for the connection")
        self._send(encode_command(command))

    def close(self) -> Deferred[None]:
        self._fail_all(ConnectionGone(self._address, "this client was closed"))
        if self._dialling is not None:
            self._dialling.cancel()
        if self._protocol is None:
            return succeed(None)
        self._closed = Deferred()
        self._protocol.socket.loseConnection()
        return self._closed

    def _send(self, frame: bytes) -> None:
        if self._protocol is not None:
            write_now(self._protocol.socket, frame)
            return
        self._unsent.append(frame)
        if self._dialling is None:
            self._dial()

    def _dial(self) -> None:
        self._silent = 0
        # Set before the callbacks: a connection refused at once has run them when addCallbacks returns.
        self._dialling = self._endpoint.connect(_ClientFactory(self))
        self._dialling.addCallbacks(self._connected, self._not_connected)

    def _connected(self, protocol: object) -> None:
        assert isinstance(protocol, _ClientProtocol)
        self._dialling = None
        self._protocol = protocol
        unsent, self._unsent = self._unsent, []
        protocol.socket.writeSequence(unsent)

    def _not_connected(self, failure: Failure) -> None:
        self._dialling = None
        self._unsent.clear()
        self._fail_all(ConnectFailed(self._address, f"can't connect: {failure.getErrorMessage()}"))

    def _forget(self, opaque: int) -> _Call | None:
        call = self._calls.pop(opaque, None)
        if call is not None and call.timer.active():
            call.timer.cancel()
        return call

    def _cancelled(self, opaque: int) -> None:
        self._forget(opaque)

    def _time_is_over(self, opaque: int, timeout: float) -> None:
        """Read the socket once before the call is given up."""
        self._calls[opaque].timer = self._clock.callLater(0, self._looked, opaque, timeout, self._reads)

    def _looked(self, opaque: int, timeout: float, reads: int) -> None:
        if self._reads == reads:
            self._timed_out(opaque, timeout)
        else:
            self._calls[opaque].timer = self._clock.callLater(GRACE, self._timed_out, opaque, timeout)

    def _timed_out(self, opaque: int, timeout: float) -> None:
        call = self._calls.pop(opaque)
        self._silent += 1
        if self._protocol is not None and self._silent >= SILENT_CALLS:
            self._log.warn(
                "{address} has been silent for {n} calls, dropping the connection",
                address=self._address,
                n=self._silent,
            )
            self._protocol.socket.abortConnection()
        call.answer.errback(
            CallTimedOut(self._address, f"no answer to request {call.code} within {timeout:g} s")
        )

    def _fail_all(self, error: CallFailed) -> None:
        for opaque in list(self._calls):
            call = self._forget(opaque)
            if call is not None:
                call.answer.errback(error)

    # ---- what the protocol reports

    def received(self, commands: list[RemotingCommand]) -> None:
        """What one read brought, be it only a piece of a frame."""
        self._silent = 0
        self._reads += 1
        for command in commands:
            if command.is_response:
                self._answered(command)
            else:
                self._serve(command)

    def _answered(self, response: RemotingCommand) -> None:
        call = self._forget(response.opaque)
        if call is None:
            self._log.debug("{address}: late answer to an abandoned call", address=self._address)
            return
        call.answer.callback(response)

    def _serve(self, request: RemotingCommand) -> None:
        """Servers may ask their clients."""
        asked_on = self._protocol
        try:
            answer = self._on_request(self._address, request)
        except Exception:
            # A question that nobody here is up to must not cost the connection and the calls on it.
            self._cannot_answer(Failure(), request, asked_on)
            return
        if isinstance(answer, Deferred):
            answer.addCallbacks(
                self._answer, self._cannot_answer, (request, asked_on), {}, (request, asked_on)
            )
        else:
            self._answer(answer, request, asked_on)

    def _answer(
        self, answer: RemotingCommand | None, request: RemotingCommand, asked_on: _ClientProtocol | None
    ) -> None:
        """Only on the connection that asked: the next one's opaques are others'."""
        if request.is_oneway or asked_on is None or asked_on is not self._protocol:
            return
        if answer is None:
            answer = RemotingCommand(
                code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                remark=f" request type {request.code} not supported",
            )
        answer.opaque, answer.flag, answer.binary = request.opaque, FLAG_RESPONSE, request.binary
        self._send(encode_command(answer))

    def _cannot_answer(
        self, failure: Failure, request: RemotingCommand, asked_on: _ClientProtocol | None
    ) -> None:
        self._log.failure("request {code} of {address}", failure, code=request.code, address=self._address)
        remark = f"request {request.code}: {failure.getErrorMessage()}"
        self._answer(RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=remark), request, asked_on)

    def lost(self, reason: Failure) -> None:
        self._protocol = None
        if self._closed is not None:
            self._closed.callback(None)
            return
        self._fail_all(ConnectionGone(self._address, f"connection closed: {reason.getErrorMessage()}"))
        self._on_lost(self._address)


class _ClientProtocol(Protocol):
    """Bytes to commands; everything else is the link's."""

    _log = Logger(namespace="hatwisted.remoting.client")
    socket: ITCPTransport

    def __init__(self, link: _Link) -> None:
        self._link = link
        self._receiver = RemotingReceiver()

    def connectionMade(self) -> None:
        self.socket = cast(ITCPTransport, self.transport)
        self.socket.setTcpNoDelay(True)
        self.socket.setTcpKeepAlive(True)

    def dataReceived(self, data: bytes) -> None:
        try:
            commands = self._receiver.receive(data)
        except RemotingProtocolError as error:
            self._log.warn(
                "{peer} doesn't speak the remoting protocol: {error}", peer=self.socket.getPeer(), error=error
            )
            self.socket.abortConnection()
            return
        self._link.received(commands)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._link.lost(reason)


class _ClientFactory(Factory):
    noisy = False

    def __init__(self, link: _Link) -> None:
        self._link = link

    def buildProtocol(self, addr: IAddress | None) -> _ClientProtocol:
        return _ClientProtocol(self._link)
