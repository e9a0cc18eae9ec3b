"""A worker whose calls run when the test says so, for orders of events that threads would leave to chance."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.store.interfaces import IWorker


@implementer(IWorker)
class ManualWorker:
    """Calls wait in `len(worker)`; `work()` runs them in order, in the test's thread; `fail()` lets one fail."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Deferred[object], Callable[..., object], tuple[object, ...]]] = deque()
        self.stopped = False

    def __len__(self) -> int:
        return len(self._calls)

    def run(self, function: Callable[..., object], *args: object) -> Deferred[object]:
        """See IWorker."""
        done: Deferred[object] = Deferred()
        self._calls.append((done, function, args))
        return done

    def work(self, count: int | None = None) -> int:
        """Run `count` waiting calls (None: until none waits, new ones included); how many ran."""
        ran = 0
        while self._calls and (count is None or ran < count):
            done, function, args = self._calls.popleft()
            ran += 1
            try:
                result = function(*args)
            except Exception:
                done.errback(Failure())
            else:
                done.callback(result)
        return ran

    def fail(self, error: Exception) -> None:
        """The call that has waited longest fails, without being run."""
        done, _, _ = self._calls.popleft()
        done.errback(Failure(error))

    def stop(self) -> None:
        """See IWorker."""
        self.stopped = True
        self.work()
