"""Calls to servers without a socket: one channel per address, answers paired with calls by opaque.

Strategy: a `Channel` per address owns whatever is known of it: its socket if there is one, the calls under way,
the frames that wait for the socket. It dials when there is a request and no connection, and never on its own:
who calls decides how often a dead server is tried. The driver says what dials and what a socket is (`Dial`,
`Socket`).

A call's timer covers dialling as well, so a server that swallows SYNs costs its caller the same bounded time as
one that doesn't answer, and no other channel. A server that let several calls in a row time out without sending
one byte is taken for gone and its socket is dropped: TCP itself would need a quarter of an hour to find out.

Rejected: dropping the socket at the first timeout. A name server forgets a broker whose connection closes, so
one slow answer would take all of a broker's routes away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import msgspec

from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.driver import Answer, Log
from hatwisted.clientcore.errors import (
    BadSetting,
    CallFailed,
    CallTimedOut,
    ConnectFailed,
    ConnectionGone,
    TooManyCalls,
)
from hatwisted.clientcore.tasks import Task, Timer, Waiter
from hatwisted.wire.codes import FLAG_ONEWAY, FLAG_RESPONSE, ResponseCode
from hatwisted.wire.hostport import host_and_port
from hatwisted.wire.remoting import (
    MAX_ANSWER_HEADER,
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    encode_command,
)

CONNECT_TIMEOUT: Final = 3.0
"""Seconds for the TCP handshake; RocketMQ's clients give it the same."""
MAX_CALLS: Final = 1024
"""Calls without an answer on one channel, and frames that wait for its socket: more means that a program doesn't
wait."""
SILENT_CALLS: Final = 2
"""Timeouts in a row, without a byte from the server in between, after which a socket is dropped."""
CLOSE_LINGER: Final = 3.0
"""Seconds that a server has to take what was written before a close; then its socket is dropped. One that is gone
takes nothing, and TCP itself would need a quarter of an hour to find out."""
GRACE: Final = 0.5
"""Seconds more for a call whose time is over when bytes lie in its socket. Loops read after their timers, so what
a process that stood still was sent is unread when they fire; a send that was answered would be repeated, and its
message be there twice. Big answers take many reads, hence more than a turn."""

CallLater = Callable[[float, Callable[[], object]], Timer]
"""`call_later(seconds, work)`."""


class Socket(Protocol):
    """An open connection. The channel hears of its end, whoever wanted it."""

    def write(self, data: bytes) -> object:
        """Send."""

    def close(self) -> object:
        """End, when everything written has left."""

    def abort(self) -> object:
        """End now."""


Dial = Callable[["Channel", str, int], Callable[[], object]]
"""`dial(channel, host, port)` connects within CONNECT_TIMEOUT, reports to the channel what comes of it, and
gives what calls the attempt off."""


class _Call:
    """A request whose answer is awaited."""

    __slots__ = ("answer", "code", "timer")

    def __init__(self, code: int, answer: Waiter[RemotingCommand], timer: Timer) -> None:
        self.code = code
        self.answer = answer
        self.timer = timer


class Channel:
    """One address.

    Invariant: `_unsent` is empty while `_socket` is set, and every call in `_calls` has its frame either
    written to that socket or in `_unsent`.
    """

    def __init__(self, table: ChannelTable, address: str) -> None:
        self._table = table
        self._call_later = table.call_later
        self._address = address
        self._host, self._port = host_and_port(address)
        self._socket: Socket | None = None
        self._receiver = RemotingReceiver(max_header=MAX_ANSWER_HEADER)
        self._dialling = False
        self._call_off: Callable[[], object] | None = None
        self._closed: Waiter[None] | None = None
        self._linger: Timer | None = None
        self._calls: dict[int, _Call] = {}
        self._unsent: list[bytes] = []
        self._opaque = 0
        self._silent = 0
        self._reads = 0

    # ---- the client's side

    def call(self, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        """As Driver."""
        if len(self._calls) >= MAX_CALLS:
            refused: Waiter[RemotingCommand] = Waiter()
            refused.fail(TooManyCalls(self._address, f"{MAX_CALLS} calls are waiting for answers"))
            return refused
        opaque = request.opaque = self._next_opaque()
        self._table.sign(request)
        frame = encode_command(request)  # one that can't be isn't under way
        answer: Waiter[RemotingCommand] = Waiter(partial(self._forget, opaque))
        timer = self._call_later(timeout, partial(self._time_is_over, opaque, timeout))
        self._calls[opaque] = _Call(request.code, answer, timer)
        self._send(frame)
        return answer

    def oneway(self, request: RemotingCommand) -> None:
        """As Driver."""
        if len(self._unsent) >= MAX_CALLS:
            raise TooManyCalls(self._address, f"{MAX_CALLS} requests are waiting for the connection")
        flag = request.flag | FLAG_ONEWAY
        self._table.sign(request)
        self._send(encode_command(msgspec.structs.replace(request, opaque=self._next_opaque(), flag=flag)))

    def close(self) -> Waiter[None]:
        """Fail all calls; fires when the socket is closed, within CLOSE_LINGER."""
        closed = self._closed = Waiter()
        self._fail_all(ConnectionGone(self._address, "this client was closed"))
        if self._call_off is not None:
            self._call_off()
        if self._socket is None:
            closed.fire(None)
        else:
            self._linger = self._call_later(CLOSE_LINGER, self._linger_is_over)
            self._socket.close()
        return closed

    def _linger_is_over(self) -> None:
        self._linger = None
        if self._socket is not None:
            self._socket.abort()

    def _next_opaque(self) -> int:
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return self._opaque

    def _send(self, frame: bytes) -> None:
        if self._socket is not None:
            self._socket.write(frame)
            return
        self._unsent.append(frame)
        if not self._dialling:
            self._dial()

    def _dial(self) -> None:
        self._silent = 0
        # Set before: a connection refused at once has been reported when `dial` returns.
        self._dialling = True
        call_off = self._table.dial(self, self._host, self._port)
        if self._dialling:
            self._call_off = call_off

    def _dialled(self) -> None:
        self._dialling = False
        self._call_off = None

    def _forget(self, opaque: int) -> _Call | None:
        call = self._calls.pop(opaque, None)
        if call is not None:
            call.timer.cancel()
        return call

    def _fail_all(self, error: CallFailed) -> None:
        for opaque in list(self._calls):
            call = self._forget(opaque)
            if call is not None:
                call.answer.fail(error)

    # ---- time

    def _time_is_over(self, opaque: int, timeout: float) -> None:
        """Read the socket once before the call is given up."""
        looked = partial(self._looked, opaque, timeout, self._reads)
        self._calls[opaque].timer = self._call_later(0, looked)

    def _looked(self, opaque: int, timeout: float, reads: int) -> None:
        if self._reads == reads:
            self._timed_out(opaque, timeout)
        else:
            timed_out = partial(self._timed_out, opaque, timeout)
            self._calls[opaque].timer = self._call_later(GRACE, timed_out)

    def _timed_out(self, opaque: int, timeout: float) -> None:
        call = self._calls.pop(opaque)
        self._silent += 1
        if self._socket is not None and self._silent >= SILENT_CALLS:
            self._table.log.warn(
                "{address} has been silent for {n} calls, dropping the connection",
                address=self._address,
                n=self._silent,
            )
            self._socket.abort()
        call.answer.fail(
            CallTimedOut(self._address, f"no answer to request {call.code} within {timeout:g} s")
        )

    # ---- the socket's side

    def connected(self, socket: Socket) -> None:
        """Dialling came to this."""
        self._dialled()
        self._socket = socket
        self._receiver = RemotingReceiver(max_header=MAX_ANSWER_HEADER)
        unsent, self._unsent = self._unsent, []
        socket.write(b"".join(unsent))

    def not_connected(self, reason: str) -> None:
        """Dialling came to nothing."""
        self._dialled()
        self._unsent.clear()
        self._fail_all(ConnectFailed(self._address, f"can't connect: {reason}"))

    def received(self, data: bytes) -> None:
        """What one read brought, even if only a piece of a frame."""
        self._silent = 0
        self._reads += 1
        try:
            commands = self._receiver.receive(data)
        except RemotingProtocolError as error:
            text = "{address} doesn't speak the remoting protocol: {error}"
            self._table.log.warn(text, address=self._address, error=error)
            if self._socket is not None:
                self._socket.abort()
            return
        for command in commands:
            if not command.is_response:
                self._serve(command)
            elif (call := self._forget(command.opaque)) is not None:
                call.answer.fire(command)
            else:
                self._table.log.debug("{address}: late answer to an abandoned call", address=self._address)

    def disconnected(self, reason: str) -> None:
        """The socket is closed."""
        self._socket = None
        if self._closed is not None:
            if self._linger is not None:
                self._linger.cancel()
                self._linger = None
            self._closed.fire(None)
            return
        self._fail_all(ConnectionGone(self._address, f"connection closed: {reason}"))
        self._table.lost(self._address)

    # ---- what servers ask of their clients

    def _serve(self, request: RemotingCommand) -> None:
        asked_on = self._socket
        try:
            answer = self._table.on_request(self._address, request)
        except Exception as error:
            # A question that nobody here can answer must not cost the connection and the calls on it.
            self._answer(self._failed(request, error), request, asked_on)
            return
        if isinstance(answer, Waiter):
            answer.when_done(lambda done: self._answer_late(done, request, asked_on))
        else:
            self._answer(answer, request, asked_on)

    def _answer_late(
        self, done: Waiter[RemotingCommand], request: RemotingCommand, asked_on: Socket | None
    ) -> None:
        try:
            answer = done.result()
        except Exception as error:
            answer = self._failed(request, error)
        self._answer(answer, request, asked_on)

    def _failed(self, request: RemotingCommand, error: Exception) -> RemotingCommand:
        text = "request {code} of {address}"
        self._table.log.exception(text, error, code=request.code, address=self._address)
        return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=f"request {request.code}: {error}")

    def _answer(
        self, answer: RemotingCommand | None, request: RemotingCommand, asked_on: Socket | None
    ) -> None:
        """Only on the connection that asked: the next one's opaques are others'."""
        if request.is_oneway or asked_on is None or asked_on is not self._socket:
            return
        if answer is None:
            remark = f" request type {request.code} not supported"
            answer = RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        answer.opaque, answer.flag, answer.binary = request.opaque, FLAG_RESPONSE, request.binary
        asked_on.write(encode_command(answer))


class ChannelTable:
    """The channels of one client, by address.

    call_later: times the calls out
    dial: connects
    log: where complaints about servers go
    credentials: the account that every request is signed for, if any
    """

    def __init__(
        self, call_later: CallLater, dial: Dial, log: Log, credentials: Credentials | None = None
    ) -> None:
        self.call_later = call_later
        self.dial = dial
        self.log = log
        self._credentials = credentials
        self._channels: dict[str, Channel] = {}
        self._on_request: Callable[[str, RemotingCommand], Answer] | None = None
        self._on_lost: Callable[[str], None] | None = None
        self._closed = False

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        """As Driver."""
        channel = self._channels.get(address)
        if channel is None:
            try:
                channel = self._new(address)
            except (CallFailed, BadSetting) as error:
                failed: Waiter[RemotingCommand] = Waiter()
                failed.fail(error)
                return failed
        return channel.call(request, timeout)

    def oneway(self, address: str, request: RemotingCommand) -> None:
        """As Driver."""
        channel = self._channels.get(address) or self._new(address)
        channel.oneway(request)

    def serve(
        self, on_request: Callable[[str, RemotingCommand], Answer], lost: Callable[[str], None]
    ) -> None:
        """As Driver. Until then, everything that servers ask is refused."""
        self._on_request, self._on_lost = on_request, lost

    def close(self) -> Waiter[None]:
        """Fail all calls, close all connections; fires when they are closed, within CLOSE_LINGER."""
        self._closed = True
        return Task(self._close())

    async def _close(self) -> None:
        channels, self._channels = self._channels, {}
        for closing in [channel.close() for channel in channels.values()]:
            await closing

    def _new(self, address: str) -> Channel:
        if self._closed:
            raise ConnectFailed(address, "this client is closed")
        if not isinstance(address, str):
            raise BadSetting(f"an address is a string, not {address!r}")
        try:
            channel = self._channels[address] = Channel(self, address)
        except ValueError as error:
            raise BadSetting(str(error)) from None
        return channel

    # ---- as its channels see it

    def sign(self, request: RemotingCommand) -> None:
        """Before it is encoded."""
        if self._credentials is not None:
            self._credentials.sign(request)

    def on_request(self, address: str, request: RemotingCommand) -> Answer:
        """A server asks."""
        return None if self._on_request is None else self._on_request(address, request)

    def lost(self, address: str) -> None:
        """A connection has ended by itself."""
        if self._on_lost is not None and not self._closed:
            self._on_lost(address)
