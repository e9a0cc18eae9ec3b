"""One address of the asyncio client: its socket if there is one, the calls under way, the frames that wait for it.

It dials when somebody asks and nobody is connected, and never by itself. A call's timer covers dialling as
well. After two calls in a row without a byte from the server its socket is dropped: TCP itself would need a
quarter of an hour to find out.

Invariant: `_unsent` is empty while `_transport` is set, and every call in `_calls` has its frame either
written to that socket or in `_unsent`.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from hatwisted.clientcore.address import parse_address
from hatwisted.clientcore.driver import Answer, Log
from hatwisted.clientcore.errors import CallFailed, CallTimedOut, ConnectFailed, ConnectionGone, TooManyCalls
from hatwisted.clientcore.tasks import Waiter
from hatwisted.wire.codes import FLAG_ONEWAY, FLAG_RESPONSE, ResponseCode
from hatwisted.wire.remoting import (
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    encode_command,
)

CONNECT_TIMEOUT: Final = 3.0
"""Seconds for the TCP handshake; RocketMQ's clients give it the same."""
MAX_CALLS: Final = 1024
"""Calls without an answer on one link."""
SILENT_CALLS: Final = 2
"""Timeouts in a row, without a byte from the server in between, after which a socket is dropped."""
GRACE: Final = 0.5
"""Seconds more for a call whose time is over when bytes have just come: an answer may take several reads."""


class Owner(Protocol):
    """The driver, as a link sees it."""

    @property
    def log(self) -> Log:
        """The client's."""

    def on_request(self, address: str, request: RemotingCommand) -> Answer:
        """A server asks."""

    def lost(self, address: str) -> None:
        """An established connection has ended, and nobody closed it."""


class _Call(NamedTuple):
    code: int
    answer: Waiter[RemotingCommand]
    timer: asyncio.TimerHandle


class Link(asyncio.Protocol):
    """To `address`; loop: where it lives."""

    def __init__(self, owner: Owner, address: str, loop: asyncio.AbstractEventLoop) -> None:
        """One connection, dialled with the first call.

        - owner: what it reports to
        - address: "host:port" of the server
        - loop: the event loop it lives in
        """
        self._owner = owner
        self._address = address
        self._host, self._port = parse_address(address)
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._receiver = RemotingReceiver()
        self._calls: dict[int, _Call] = {}
        self._unsent: list[bytes] = []
        self._opaque = 0
        self._silent = 0
        self._reads = 0
        self._closed: Waiter[None] | None = None

    # ---- the driver's side

    def call(self, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        """As Driver."""
        answer: Waiter[RemotingCommand] = Waiter()
        if len(self._calls) >= MAX_CALLS:
            answer.fail(TooManyCalls(self._address, f"{MAX_CALLS} calls are waiting for answers"))
            return answer
        opaque = self._numbered(request)
        answer.on_cancel = lambda: self._forget(opaque)
        timer = self._loop.call_later(timeout, self._time_is_over, opaque, timeout)
        self._calls[opaque] = _Call(request.code, answer, timer)
        self._send(encode_command(request))
        return answer

    def oneway(self, request: RemotingCommand) -> None:
        """As Driver."""
        if len(self._unsent) >= MAX_CALLS:
            raise TooManyCalls(self._address, f"{MAX_CALLS} requests are waiting for the connection")
        self._numbered(request)
        request.flag |= FLAG_ONEWAY
        self._send(encode_command(request))

    def close(self) -> Waiter[None]:
        """Fail all calls; fires when the socket is closed."""
        self._closed = Waiter()
        if self._dialling is not None:
            self._dialling.cancel()
        self._fail_all(ConnectionGone(self._address, "this client was closed"))
        if self._transport is None:
            self._closed.fire(None)
        else:
            self._transport.close()
        return self._closed

    def _numbered(self, request: RemotingCommand) -> int:
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        request.opaque = self._opaque
        return self._opaque

    def _send(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)
            return
        self._unsent.append(frame)
        if self._dialling is None and self._closed is None:
            self._dialling = self._loop.create_task(self._dial())

    async def _dial(self) -> None:
        self._silent = 0
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await self._loop.create_connection(lambda: self, self._host, self._port)
        except OSError as error:  # asyncio's TimeoutError is one
            self._undialled(str(error.strerror or error or f"no answer in {CONNECT_TIMEOUT:g} s"))
        except UnicodeError:  # what the codec for host names says of an empty or overlong label
            self._undialled(f"{self._host!r} is not a host name")
        else:
            self._dialling = None

    def _undialled(self, reason: str) -> None:
        self._unsent.clear()
        self._dialling = None
        self._fail_all(ConnectFailed(self._address, f"can't connect: {reason}"))

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
        timer = self._loop.call_later(0, self._looked, opaque, timeout, self._reads)
        self._calls[opaque] = self._calls[opaque]._replace(timer=timer)

    def _looked(self, opaque: int, timeout: float, reads: int) -> None:
        if self._reads == reads:
            self._timed_out(opaque, timeout)
            return
        timer = self._loop.call_later(GRACE, self._timed_out, opaque, timeout)
        self._calls[opaque] = self._calls[opaque]._replace(timer=timer)

    def _timed_out(self, opaque: int, timeout: float) -> None:
        call = self._calls.pop(opaque)
        self._silent += 1
        if self._transport is not None and self._silent >= SILENT_CALLS:
            self._owner.log.warn(
                "{address} has been silent for {n} calls, dropping the connection",
                address=self._address,
                n=self._silent,
            )
            self._transport.abort()
        call.answer.fail(
            CallTimedOut(self._address, f"no answer to request {call.code} within {timeout:g} s")
        )

    # ---- the socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's: the socket is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._receiver = RemotingReceiver()
        unsent, self._unsent = self._unsent, []
        transport.writelines(unsent)

    def data_received(self, data: bytes) -> None:
        """asyncio's: bytes have come, be they only a piece of a frame."""
        self._silent = 0
        self._reads += 1
        try:
            commands = self._receiver.receive(data)
        except RemotingProtocolError as error:
            self._owner.log.warn("{peer} doesn't speak remoting: {error}", peer=self._address, error=error)
            assert self._transport is not None
            self._transport.abort()
            return
        for command in commands:
            if command.is_response:
                call = self._forget(command.opaque)
                if call is not None:
                    call.answer.fire(command)
            else:
                self._serve(command)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: the socket is closed."""
        self._transport = None
        if self._closed is not None:
            self._closed.fire(None)
            return
        self._fail_all(ConnectionGone(self._address, f"connection closed: {exc or 'by the server'}"))
        self._owner.lost(self._address)

    def _serve(self, request: RemotingCommand) -> None:
        """Servers may ask their clients."""
        asked_on = self._transport
        try:
            found = self._owner.on_request(self._address, request)
        except Exception as error:
            # A request that nobody here is up to must not cost the connection and the calls on it.
            self._answer(self._failed(request, error), request, asked_on)
            return
        if isinstance(found, Waiter):
            found.when_done(lambda done: self._answer_late(done, request, asked_on))
        else:
            self._answer(found, request, asked_on)

    def _answer_late(
        self, done: Waiter[RemotingCommand], request: RemotingCommand, asked_on: asyncio.Transport | None
    ) -> None:
        try:
            answer = done.result()
        except Exception as error:
            answer = self._failed(request, error)
        self._answer(answer, request, asked_on)

    def _failed(self, request: RemotingCommand, error: Exception) -> RemotingCommand:
        text = "request {code} of {address}"
        self._owner.log.exception(text, error, code=request.code, address=self._address)
        return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=f"request {request.code}: {error}")

    def _answer(
        self, answer: RemotingCommand | None, request: RemotingCommand, asked_on: asyncio.Transport | None
    ) -> None:
        """Only on the connection that asked: the next one's opaques are others'."""
        if request.is_oneway or asked_on is None or asked_on is not self._transport:
            return
        if answer is None:
            remark = f" request type {request.code} not supported"
            answer = RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        answer.opaque, answer.flag, answer.binary = request.opaque, FLAG_RESPONSE, request.binary
        asked_on.write(encode_command(answer))
