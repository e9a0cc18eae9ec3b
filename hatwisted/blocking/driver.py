"""The client's logic on blocking sockets: calls go out at once, their answers are waited for when nothing
else is left to do.

A coroutine of the logic runs until it waits. Then the oldest call under way is waited for, or, if there's
none, the next timer; each wakes what waits for it, until the coroutine has ended. Between two `run`s nothing
happens: heartbeats and route updates are done at the program's next call.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple, TypeVar

from hatwisted.blocking.closing import Closing
from hatwisted.blocking.connection import MAX_IN_FLIGHT, Connection
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.driver import Answer, StandardLog
from hatwisted.clientcore.errors import CallFailed, ClientError, TooManyCalls
from hatwisted.clientcore.process import RANDOMNESS, LocalFile, process_name
from hatwisted.clientcore.tasks import Task, Timer, Waiter, Work
from hatwisted.wire.codes import FLAG_ONEWAY
from hatwisted.wire.remoting import RemotingCommand

T = TypeVar("T")


class _Call(NamedTuple):
    address: str
    connection: Connection
    number: int
    timeout: float
    answer: Waiter[RemotingCommand]


class _Timer:
    def __init__(self, at: float, work: Callable[[], object]) -> None:
        self.at = at
        self.work: Callable[[], object] | None = work

    def cancel(self) -> None:
        self.work = None


class BlockingDriver(Closing):
    """links: the connections; wall_clock: s since the epoch.

    In addition to what the logic needs of a driver there are `ask`, `post` and `wait`, for work that proceeds
    one step at a time anyway.
    """

    def __init__(self, links: Links, wall_clock: Callable[[], float] = time.time) -> None:
        self.log = StandardLog("hatwisted.blocking")
        self.randomness = RANDOMNESS
        self.process_name = process_name()
        self.file = LocalFile
        self._links = links
        self._wall_clock = wall_clock
        self._calls: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = count()

    def run(self, work: Work[T]) -> T:
        """The result of a coroutine of the logic; raises what it raises."""
        return self.wait(Task(work))

    def wait(self, waiter: Waiter[T]) -> T:
        """The waiter's result; raises its error."""
        while not waiter.done:
            if self._fire_timers():
                continue
            if self._calls:
                self._take_answer(self._calls.popleft())
            else:
                assert self._timers, "it waits for something that no call or timer will provide"
                self.pause(max(0.0, self._timers[0][0] - self._links.clock()))
        return waiter.result()

    # ---- step by step

    @property
    def settings(self) -> ClusterSettings:
        """Which cluster, as whom, and how long to wait."""
        return self._links.settings

    def post(self, address: str, request: RemotingCommand) -> Waiter[RemotingCommand]:
        """`call` with the settings' time for an answer."""
        return self.call(address, request, self.settings.answer_timeout)

    def ask(self, address: str, request: RemotingCommand) -> RemotingCommand:
        """The answer, whatever its code. BrokerGone or BadAnswer if there's none."""
        return self.wait(self.post(address, request))

    def ask_all(self, address: str, requests: Iterable[RemotingCommand]) -> list[RemotingCommand]:
        """The answers to `requests`, in their order; many are under way at once."""
        answers: list[RemotingCommand] = []
        under_way: deque[Waiter[RemotingCommand]] = deque()
        try:
            for request in requests:
                if len(under_way) == MAX_IN_FLIGHT:
                    answers.append(self.wait(under_way.popleft()))
                under_way.append(self.post(address, request))
            while under_way:
                answers.append(self.wait(under_way.popleft()))
        finally:
            for each in under_way:
                each.give_up()
        return answers

    def pause(self, seconds: float) -> None:
        """Wait."""
        self._links.sleep(seconds)

    def is_dead(self, address: str) -> bool:
        """Was it found unreachable a short while ago?"""
        return self._links.is_dead(address)

    # ---- as Driver

    def seconds(self) -> float:
        """The system's."""
        return self._wall_clock()

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        """While something runs."""
        timer = _Timer(self._links.clock() + seconds, work)
        heappush(self._timers, (timer.at, next(self._numbers), timer))
        return timer

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        """As Driver; dials at once."""
        answer: Waiter[RemotingCommand] = Waiter(lambda: self._give_up(call))
        try:
            connection = self._links.connection(address)
            if connection.in_flight >= MAX_IN_FLIGHT:
                raise TooManyCalls(address, f"{MAX_IN_FLIGHT} calls are waiting for answers")
            number = connection.post(request)
        except TooManyCalls as error:
            answer.fail(error)
        except ClientError as error:
            self._links.drop(address)
            answer.fail(error)
        else:
            call = _Call(address, connection, number, timeout, answer)
            self._calls.append(call)
        return answer

    def oneway(self, address: str, request: RemotingCommand) -> None:
        """As Driver."""
        request.flag |= FLAG_ONEWAY
        try:
            self._links.connection(address).post_oneway(request)
        except CallFailed:
            self._links.drop(address)

    def serve(
        self, on_request: Callable[[str, RemotingCommand], Answer], lost: Callable[[str], None]
    ) -> None:
        """Ignored: nothing runs in the background that could answer brokers."""

    def adopt(self, outcome: Any) -> Waiter[Any]:
        """A coroutine that awaits nothing but the logic's own waiters."""
        return outcome if isinstance(outcome, Waiter) else Task(outcome)

    def close(self) -> Waiter[None]:
        """As Driver."""
        self._links.close()
        closed: Waiter[None] = Waiter()
        closed.fire(None)
        return closed

    def _give_up(self, call: _Call) -> None:
        self._calls.remove(call)
        call.connection.give_up(call.number)

    def _take_answer(self, call: _Call) -> None:
        try:
            found = call.connection.answer(call.number, call.timeout)
        except ClientError as error:
            # Another call may have opened a new one by now.
            self._links.drop(call.address, call.connection)
            call.answer.fail(error)
        except BaseException:
            # Ctrl-C: a part of an answer may be lost, and whoever waits must hear of it when the program ends.
            self._links.drop(call.address, call.connection)
            self._calls.appendleft(call)
            raise
        else:
            call.answer.fire(found)

    def _fire_timers(self) -> bool:
        """Was one due?"""
        if not self._timers or self._timers[0][0] > self._links.clock():
            return False
        timer = heappop(self._timers)[2]
        if timer.work is not None:
            timer.work()
        return True
