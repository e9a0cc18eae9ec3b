"""Asking clients something, on the connection they opened: requests out, answers paired by opaque.

Both sides of a connection number their own requests, so an answer is distinguished from a request by its direction
(the response bit) and paired within its connection only. A call ends with the answer, at its deadline, or with
the connection, whichever comes first; a client that never answers costs an entry in a bounded table.
"""

from __future__ import annotations

import itertools
from functools import partial

import msgspec
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from hatwisted.clientcore.errors import CallTimedOut, ConnectionGone, TooManyCalls
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import FLAG_ONEWAY
from hatwisted.wire.remoting import RemotingCommand, encode_command

CALL_TIMEOUT = 10.0
"""Seconds a client has for an answer (RocketMQ's Broker2Client.callClient)."""

STATUS_TIMEOUT = 5.0
"""Seconds it has to report its queues' offsets (221): many members are asked, and an operator waits."""

MAX_CALLS_PER_CLIENT = 64
"""Calls under way on one connection; tools ask one at a time, request-reply brings bursts."""

MAX_CALLS = 16_384
"""Calls under way in all, some 2 KiB each with the body that is being sent."""


class _Call:
    __slots__ = ("answer", "timer")

    def __init__(self, answer: Deferred[RemotingCommand], timer: IDelayedCall) -> None:
        self.answer = answer
        self.timer = timer


class ClientCalls:
    """Calls to clients. clock: times them out.

    Invariant: a connection has an entry in `_pending` from its first call until it closes, and its answers come
    here.
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._opaques = itertools.count(1)
        self._pending: dict[RemotingConnection, dict[int, _Call]] = {}
        self.count = 0
        """Calls under way."""

    def call(
        self, connection: RemotingConnection, command: RemotingCommand, timeout: float = CALL_TIMEOUT
    ) -> Deferred[RemotingCommand]:
        """Ask a client. Fires with the answer, whatever its code; fails with CallTimedOut, ConnectionGone or
        TooManyCalls. Cancelling gives the answer up.

        - connection: the client's
        - command: the question; its opaque is set here
        - timeout: seconds
        """
        peer = connection.peer
        if not connection.open:
            return fail(ConnectionGone(peer, "the client is gone"))
        if connection.paused:
            return fail(TooManyCalls(peer, "the client isn't reading what it was sent"))
        calls = self._pending.get(connection)
        if calls is None:
            calls = self._watch(connection)
        if len(calls) >= MAX_CALLS_PER_CLIENT or self.count >= MAX_CALLS:
            return fail(
                TooManyCalls(
                    peer, f"{len(calls)} calls to it and {self.count} in all are waiting for answers"
                )
            )
        opaque = next(self._opaques) & 0x7FFFFFFF
        answer: Deferred[RemotingCommand] = Deferred(lambda _: self._cancelled(connection, opaque))
        timer = self._clock.callLater(timeout, self._timed_out, connection, opaque, command.code, timeout)
        calls[opaque] = _Call(answer, timer)
        self.count += 1
        connection.send(encode_command(msgspec.structs.replace(command, opaque=opaque, flag=0, binary=False)))
        return answer

    def oneway(self, connection: RemotingConnection, command: RemotingCommand) -> None:
        """Send `command`; nobody will know whether it arrived. Whoever doesn't read gets nothing: his table of
        20,000 queues would lie here as often as somebody asks."""
        if connection.paused:
            self._log.info(
                "{peer} doesn't read: request {code} not sent", peer=connection.peer, code=command.code
            )
            return
        opaque = next(self._opaques) & 0x7FFFFFFF
        sent = msgspec.structs.replace(command, opaque=opaque, flag=FLAG_ONEWAY, binary=False)
        connection.send(encode_command(sent))

    def _watch(self, connection: RemotingConnection) -> dict[int, _Call]:
        calls = self._pending[connection] = {}
        connection.on_answer(partial(self._answered, connection))
        connection.on_close(self._closed)
        return calls

    def _forget(self, connection: RemotingConnection, opaque: int) -> _Call | None:
        call = self._pending.get(connection, {}).pop(opaque, None)
        if call is None:
            return None
        self.count -= 1
        if call.timer.active():
            call.timer.cancel()
        return call

    def _cancelled(self, connection: RemotingConnection, opaque: int) -> None:
        self._forget(connection, opaque)

    def _answered(self, connection: RemotingConnection, command: RemotingCommand) -> None:
        call = self._forget(connection, command.opaque)
        if call is None:
            self._log.debug("{peer}: late answer to an abandoned call", peer=connection.peer)
        else:
            call.answer.callback(command)

    def _timed_out(self, connection: RemotingConnection, opaque: int, code: int, timeout: float) -> None:
        call = self._forget(connection, opaque)
        assert call is not None
        call.answer.errback(
            CallTimedOut(connection.peer, f"no answer to request {code} within {timeout:g} s")
        )

    def _closed(self, connection: RemotingConnection) -> None:
        calls = self._pending.pop(connection)
        self.count -= len(calls)
        for call in calls.values():
            call.timer.cancel()
        for call in calls.values():
            call.answer.errback(ConnectionGone(connection.peer, "the client closed before it answered"))
