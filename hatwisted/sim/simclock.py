"""One clock for all machines of a simulation: a heap of calls, run in the order of their times, and for equal
times in the order in which they were made.

Whoever makes a call may own it: calls of an owner who is dead are dropped, those of one that is paused wait
until it goes on. So a process that is killed needs no list of its timers, and one that is paused wakes with
all that was due.

Rejected: `task.Clock`, which sorts its list of calls at each new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

import msgspec
from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer


class PowerLoss(BaseException):
    """The process that meets this ends here. Not an Exception: no program may take it for an error of its disk."""


class Owner(Protocol):
    """Who has made calls."""

    alive: bool
    paused_until: float
    """Clock seconds; its calls wait until then."""
    speed: float
    """Seconds of its own time in one of the clock's."""

    def shows(self, time: float) -> float:
        """Its own time at a time of the clock's."""


class _Always:
    alive = True
    paused_until = 0.0
    speed = 1.0

    def shows(self, time: float) -> float:
        return time


ALWAYS: Owner = _Always()
"""Owns what happens whatever becomes of machines."""


@implementer(IDelayedCall)
class SimCall(msgspec.Struct, eq=False):
    """A call to come: a struct, as thousands are made in a run.

    - clock: that it waits for
    - planned: when it's due, in the clock's seconds
    - owner: whose it is; nothing is called for a dead one
    - function, args, named: what is called; function is None once it was called or cancelled
    """

    clock: SimClock
    planned: float
    owner: Owner
    function: Callable[..., object] | None
    args: tuple[Any, ...]
    named: dict[str, Any] | None
    cancelled: bool = False

    def getTime(self) -> float:
        """See IDelayedCall: in its owner's time."""
        return self.owner.shows(self.planned)

    def cancel(self) -> None:
        """See IDelayedCall."""
        self._check()
        self.cancelled = True
        self.function = None
        self.args, self.named = (), None

    def reset(self, secondsFromNow: float) -> None:
        """See IDelayedCall."""
        self._check()
        self.move(self.clock.seconds() + secondsFromNow / self.owner.speed)

    def delay(self, secondsLater: float) -> None:
        """See IDelayedCall."""
        self._check()
        self.move(self.planned + secondsLater / self.owner.speed)

    def __str__(self) -> str:
        return f"{getattr(self.function, '__qualname__', self.function)}{self.args}"

    def active(self) -> bool:
        """See IDelayedCall."""
        return self.function is not None

    def move(self, time: float) -> None:
        """It's due then, in the clock's time."""
        self.planned = time
        self.clock.plan(self)

    def owned_by(self, owner: Owner) -> bool:
        """Is it still to come, and `owner`'s?"""
        return self.function is not None and self.owner is owner

    def _check(self) -> None:
        if self.cancelled:
            raise AlreadyCancelled
        if self.function is None:
            raise AlreadyCalled

    def put_off(self) -> None:
        """It's due, but its owner is paused, or dead: then it's dropped."""
        if self.owner.alive:
            self.move(self.owner.paused_until)
        else:
            self.function = None


@implementer(IReactorTime)
class SimClock:
    """start: seconds since the epoch."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.turns = 0
        """Calls that were due so far."""
        self.now = start
        """Its seconds."""
        self._made = 0
        self._heap: list[tuple[float, int, SimCall]] = []

    def seconds(self) -> float:
        """See IReactorTime."""
        return self.now

    def callLater(self, delay: float, callable: Callable[..., object], *args: Any, **kw: Any) -> SimCall:
        """See IReactorTime."""
        return self.call_for(ALWAYS, delay, callable, args, kw)

    def call_for(
        self,
        owner: Owner,
        delay: float,
        function: Callable[..., object],
        args: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> SimCall:
        """`callLater` for an owner.

        - owner: whose call it is
        - delay: seconds of the clock until then
        - function, args, named: what is called
        """
        if delay < 0:
            raise ValueError(f"a call {delay} s from now")
        time = self.now + delay
        call = SimCall(self, time, owner, function, args, named)
        self._made = made = self._made + 1
        heappush(self._heap, (time, made, call))
        return call

    def plan(self, call: SimCall) -> None:
        """Let `call` come at its time."""
        self._made += 1
        heappush(self._heap, (call.planned, self._made, call))

    def getDelayedCalls(self) -> Sequence[SimCall]:
        """See IReactorTime: in the order of the times they were set for."""
        # What was moved is still in the heap for the time that it had before.
        pending = (call for when, _, call in sorted(self._heap) if call.active() and when == call.planned)
        return list({id(call): call for call in pending}.values())

    def run_until(self, time: float, stop: Callable[[], bool] | None = None) -> None:
        """Let everything happen that is due by then, or until `stop` says so, asked after each call."""
        heap, pop = self._heap, heappop
        while heap and heap[0][0] <= time:
            planned, _, call = pop(heap)
            function, owner = call.function, call.owner
            if function is None:
                continue
            if planned > self.now:
                self.now = planned
            self.turns += 1
            if planned != call.planned:
                pass  # it was moved
            elif owner.alive and owner.paused_until <= planned:
                call.function = None
                try:  # a `suppress` costs as much as many a turn does
                    if call.named:
                        function(*call.args, **call.named)
                    else:
                        function(*call.args)
                except PowerLoss:
                    pass
            else:
                call.put_off()
            if stop is not None and stop():
                return
        self.now = max(self.now, time)
