"""What a RocketMQ slave is told of progress waits until it has acknowledged the messages that this speaks of.

A slave of ours holds such a table by itself, see `tablehold`. RocketMQ's takes it when it comes; promoted then, it
passes over messages that it has and that were delivered on the lost master alone. So the master holds the answer,
which it has made, until the slave has acknowledged the log as it was at that moment. One that doesn't come so far
within ANSWER_WAIT is refused, keeps the table that it has, and asks again in ten seconds.

A RocketMQ slave doesn't say who it is. Whoever asks from the host of a linked slave is taken for one, and the
slowest link from there counts; where none is linked, whoever asks is a tool, or a slave whose link is yet to come,
and is answered at once.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.consumer.offsetsync import joins_offsets
from hatwisted.remoting.processortable import Handler, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.timer import GuardedTimer
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand

ANSWER_WAIT = 2.0
"""Seconds; RocketMQ's slave waits 3 s for an answer."""

LOOK = 0.05
"""Seconds between two looks at what is acknowledged, while an answer waits."""

MAX_WAITS = 64
"""Answers that wait at a time; further ones are refused at once."""


class _Wait:
    """An answer, and what its slave has to acknowledge until `limit` (clock seconds)."""

    def __init__(self, host: str, end: int, limit: float, request: RemotingCommand) -> None:
        self.host = host
        self.end = end
        self.limit = limit
        self.request = request
        self.answered: Deferred[RemotingCommand] = Deferred()


class ProgressAnswers:
    """Of one master.

    - clock: limits the waits
    - log_end: where the log ends now
    - acked_from: the least offset that slaves linked from a host have acknowledged, None without any
    """

    def __init__(
        self, clock: IReactorTime, log_end: Callable[[], int], acked_from: Callable[[str], int | None]
    ) -> None:
        self._clock = clock
        self._log_end = log_end
        self._acked_from = acked_from
        self._waits: dict[_Wait, RemotingCommand] = {}
        self._timer = GuardedTimer(clock, "holding progress back for slaves", self._look, LOOK)

    def over(self, handler: Handler) -> Handler:
        """`handler`, whose answers are at hand, with those to RocketMQ slaves held."""

        def held(
            connection: RemotingConnection, request: RemotingCommand
        ) -> RemotingCommand | Deferred[RemotingCommand] | None:
            answer = handler(connection, request)
            if not isinstance(answer, RemotingCommand) or joins_offsets(request):
                return answer
            return self._hold(connection.peer.rpartition(":")[0], request, answer)

        return held

    def stop(self) -> None:
        """Nobody is waited for any more."""
        self._timer.cancel()
        for wait in list(self._waits):
            self._refuse(wait)

    def _hold(
        self, host: str, request: RemotingCommand, answer: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        wait = _Wait(host, self._log_end(), self._clock.seconds() + ANSWER_WAIT, request)
        if self._has_come(wait):
            return answer
        self._waits[wait] = answer
        if len(self._waits) > MAX_WAITS:
            self._refuse(wait)
        elif not self._timer.pending:
            self._timer.set(LOOK)
        return wait.answered

    def _has_come(self, wait: _Wait) -> bool:
        acked = self._acked_from(wait.host)
        return acked is None or acked >= wait.end

    def _look(self) -> None:
        for wait, answer in list(self._waits.items()):
            if self._has_come(wait):
                del self._waits[wait]
                wait.answered.callback(answer)
            elif self._clock.seconds() >= wait.limit:
                self._refuse(wait)
        if self._waits:
            self._timer.set(LOOK)

    def _refuse(self, wait: _Wait) -> None:
        del self._waits[wait]
        remark = (
            f"a slave at {wait.host} has yet to acknowledge the log up to {wait.end}, which this speaks of"
        )
        wait.answered.callback(response(wait.request, ResponseCode.SYSTEM_BUSY, remark))
