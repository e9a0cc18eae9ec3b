"""Threads of a simulated process: a call runs somewhat later, and its result comes somewhat later still."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IWorker

_Waiting = tuple["Deferred[Any]", Callable[..., object], tuple[object, ...]]


@implementer(IWorker)
class SimWorker:
    """A limited number of calls at a time, each whole at one instant; the others wait in order.

    - clock: the process's
    - random: draws the delays
    - threads: most calls under way
    - delay: most seconds that half a call takes
    """

    def __init__(self, clock: IReactorTime, random: Random, threads: int, delay: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random
        self._free = threads
        self._delay = delay
        self._waiting: deque[_Waiting] = deque()
        self._begun: dict[Deferred[Any], tuple[_Waiting, IDelayedCall]] = {}
        """Calls that are yet to run."""
        self._ended: dict[Deferred[Any], IDelayedCall] = {}
        """Calls that have run, until their results arrive."""
        self.stopped = False
        """Takes no more calls."""

    @property
    def under_way(self) -> int:
        """Calls whose result hasn't been told yet."""
        return len(self._waiting) + len(self._begun) + len(self._ended)

    def run(self, function: Callable[..., object], *args: object) -> Deferred[Any]:
        """See IWorker."""
        if self.stopped:
            return fail(StoreError("the store's worker threads have been stopped"))
        done: Deferred[Any] = Deferred()
        self._waiting.append((done, function, args))
        self._begin()
        return done

    def _begin(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            call = self._waiting.popleft()
            pause = self._random.random() * self._delay()
            self._begun[call[0]] = call, self._clock.callLater(pause, self._work, call)

    def _work(self, call: _Waiting) -> None:
        del self._begun[call[0]]
        done, result = self._result(call)
        pause = self._random.random() * self._delay()
        self._ended[done] = self._clock.callLater(pause, self._finish, done, result)

    def _result(self, call: _Waiting) -> tuple[Deferred[Any], Any]:
        done, function, args = call
        try:
            return done, function(*args)
        except Exception:
            return done, Failure()

    def _finish(self, done: Deferred[Any], result: Any) -> None:
        del self._ended[done]
        self._free += 1
        self._begin()
        done.callback(result)

    def stop(self) -> None:
        """See IWorker."""
        self.stopped = True
        for result in self._ended.values():
            result.reset(0)
        for _, due in self._begun.values():
            due.cancel()
        pending = [*(call for call, _ in self._begun.values()), *self._waiting]
        self._begun.clear()
        self._waiting.clear()
        for call in pending:
            done, result = self._result(call)
            self._clock.callLater(0, done.callback, result)
