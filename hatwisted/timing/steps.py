"""Long work in steps, a slice of time in each round of the loop: what looks through a great deal for one request.

The work is a generator that stops at every millisecond or so; its result is what it returns. All that is under way
goes on in turns, step by step, so that a short one isn't kept waiting by the long ones; the turns go round by
host, and a host's by work, and no host has all the room. A first step is done at once: most work needs no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from hatwisted.timing.rotation import Rotation
from hatwisted.timing.timer import GuardedTimer

SLICE = 0.002
"""Seconds of a round of the loop; one step more is begun within them."""

MAX_OF_ONE = 16
"""Works of one owner under way: tools ask one at a time."""

MAX_WORKS = 1024
"""Works under way in all; of one host half of them."""

RETRY = 0.1
"""Seconds until the next turn after one that failed."""

T = TypeVar("T")


class TooMuchWork(Exception):
    """So much is under way that no more is begun."""


class _Work:
    __slots__ = ("done", "host", "owner", "steps")

    def __init__(self, owner: Hashable, host: Hashable, steps: Generator[None, None, Any]) -> None:
        self.owner = owner
        self.host = host
        self.steps = steps
        self.done: Deferred[Any] = Deferred()


class Steps:
    """Works under way. clock: measures the slices; name: what the work is, for the log."""

    def __init__(self, clock: IReactorTime, name: str) -> None:
        self._clock = clock
        self._works = Rotation[_Work]()
        self._owned: Counter[Hashable] = Counter()
        self._timer = GuardedTimer(clock, name, self._turn, RETRY)

    def run(
        self, owner: Hashable, steps: Generator[None, None, T], host: Hashable | None = None
    ) -> Deferred[T]:
        """Fires with what `steps` returns, or fails with what they raise, or TooMuchWork.

        - owner: for whom
        - steps: the work
        - host: where he is; None: nobody else is there
        """
        host = owner if host is None else host
        own, all_works = self._owned[owner], self._owned.total()
        of_host = self._works.count(host)
        if all_works >= MAX_WORKS or own >= MAX_OF_ONE or of_host >= MAX_WORKS // 2:
            return fail(
                TooMuchWork(
                    f"{own} like it are under way for you, {of_host} for your host, {all_works} in all"
                )
            )
        try:
            next(steps)
        except StopIteration as end:
            return succeed(end.value)
        except Exception:
            return fail(Failure())
        work = _Work(owner, host, steps)
        self._works.add(host, work)
        self._owned[owner] += 1
        self._schedule()
        return work.done

    def forget(self, owner: Hashable) -> None:
        """Nobody waits for the owner's works any more; what they would have fired with never comes."""
        if self._owned.pop(owner, 0):
            for host, work in [*self._works]:
                if work.owner == owner:
                    self._works.discard(host, work)

    def _schedule(self) -> None:
        if not self._timer.pending:
            self._timer.set(0)

    def _turn(self) -> None:
        until = self._clock.seconds() + SLICE
        while self._works:
            work = self._works.take()
            try:
                next(work.steps)
            except StopIteration as end:
                self._ended(work)
                work.done.callback(end.value)
            except Exception:
                self._ended(work)
                work.done.errback(Failure())
            else:
                self._works.add(work.host, work)
            if self._clock.seconds() >= until:
                break
        if self._works:
            self._schedule()

    def _ended(self, work: _Work) -> None:
        self._owned[work.owner] -= 1
        if not self._owned[work.owner]:
            del self._owned[work.owner]
