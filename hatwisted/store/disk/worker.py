"""Where blocking calls go: a few threads beside the reactor, or nowhere at all.

The threads are the worker's own rather than the reactor's shared pool: a name lookup that hangs must not keep
an fdatasync waiting, nor the other way round. Results come back in the reactor thread as Deferreds, so
nothing but the blocking call itself runs elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred, execute, fail
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IWorker

T = TypeVar("T")

DEFAULT_THREADS = 4
"""Threads: one for the flush that puts wait for, one for files made ahead, two for the slow rest (flushes of
queues and checkpoint, deletions, disk usage)."""

CALL_LIMIT = 1024
"""Calls under way or waiting for a thread. Each user has a few at most: more means that the disk hangs."""


@implementer(IWorker)
class ThreadWorker:
    """Runs calls in threads of its own; the first call starts them.

    - reactor: where results are delivered
    - threads: how many at most
    - name: of the threads
    """

    def __init__(
        self, reactor: IReactorFromThreads, threads: int = DEFAULT_THREADS, name: str = "store"
    ) -> None:
        self._reactor = reactor
        self._pool = ThreadPool(minthreads=0, maxthreads=threads, name=name)
        self._stopped = False
        self.under_way = 0
        """Calls whose Deferred hasn't fired yet."""

    def run(self, function: Callable[..., T], *args: object) -> Deferred[T]:
        """See IWorker. Fails with StoreError, without running anything, after `stop` and beyond
        CALL_LIMIT."""
        if self._stopped:
            return fail(StoreError("the store's worker threads have been stopped"))
        if self.under_way >= CALL_LIMIT:
            return fail(
                StoreError(f"{self.under_way} disk calls are waiting for a thread: the disk seems to hang")
            )
        if not self._pool.started:
            self._pool.start()
        self.under_way += 1
        return deferToThreadPool(self._reactor, self._pool, function, *args).addBoth(self._finished)

    def _finished(self, result: T) -> T:
        self.under_way -= 1
        return result

    def stop(self) -> None:
        """See IWorker. Calls that still wait for a thread run too; results arrive if the reactor goes on."""
        if not self._stopped:
            self._stopped = True
            if self._pool.started:
                self._pool.stop()


@implementer(IWorker)
class InlineWorker:
    """Runs a call at once, in the caller's thread: for offline tools and for tests that own the clock."""

    def run(self, function: Callable[..., T], *args: object) -> Deferred[T]:
        """See IWorker."""
        return execute(function, *args)

    def stop(self) -> None:
        """See IWorker."""
