"""Where blocking calls go: results in the reactor thread, bounded, orderly at the end."""

from __future__ import annotations

import threading

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface.verify import verifyObject

from hatwisted.store.disk import worker as worker_module
from hatwisted.store.disk.worker import InlineWorker, ThreadWorker
from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IWorker


class ThreadWorkerTests(TestCase):
    def setUp(self) -> None:
        self.worker = ThreadWorker(reactor, threads=2, name="test")  # type: ignore[arg-type]
        self.addCleanup(self.worker.stop)

    def test_provides_its_interface(self) -> None:
        verifyObject(IWorker, self.worker)
        verifyObject(IWorker, InlineWorker())

    async def test_a_call_runs_elsewhere_and_its_result_comes_back_here(self) -> None:
        ran, fired = [], []

        def call(a: int, b: int) -> int:
            ran.append(threading.current_thread())
            return a + b

        done = self.worker.run(call, 1, 2).addCallback(
            lambda result: (fired.append(threading.current_thread()), result)[1]
        )
        self.assertEqual(await done, 3)
        self.assertIsNot(ran[0], threading.current_thread())
        self.assertIs(fired[0], threading.current_thread())
        self.assertEqual(self.worker.under_way, 0)

    async def test_a_failure_comes_back_too(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            await self.worker.run(divmod, 1, 0)
        self.assertEqual(self.worker.under_way, 0)

    async def test_a_slow_call_does_not_hold_the_others(self) -> None:
        go_on = threading.Event()
        slow = self.worker.run(go_on.wait, 20)
        self.assertEqual(await self.worker.run(len, "four"), 4)
        self.assertNoResult(slow)
        go_on.set()
        self.assertTrue(await slow)

    async def test_beyond_the_limit_calls_are_refused_at_once(self) -> None:
        self.patch(worker_module, "CALL_LIMIT", 3)
        go_on = threading.Event()
        waiting = [self.worker.run(go_on.wait, 20) for _ in range(3)]
        error = self.failureResultOf(self.worker.run(len, "x"), StoreError).value
        self.assertIn("seems to hang", str(error))
        go_on.set()
        self.assertEqual(await gatherResults(waiting), [True] * 3)
        self.assertEqual(await self.worker.run(len, "x"), 1)

    async def test_stop_waits_for_what_runs_and_for_what_waits(self) -> None:
        done: list[int] = []
        calls: list[Deferred[None]] = [self.worker.run(done.append, number) for number in range(20)]
        self.worker.stop()
        self.assertEqual(sorted(done), list(range(20)))
        self.failureResultOf(self.worker.run(len, "x"), StoreError)
        self.worker.stop()
        await gatherResults(calls)

    def test_one_that_never_worked_stops_as_well(self) -> None:
        self.worker.stop()


class InlineWorkerTests(SynchronousTestCase):
    def test_runs_at_once(self) -> None:
        worker = InlineWorker()
        self.assertEqual(self.successResultOf(worker.run(divmod, 7, 2)), (3, 1))
        self.failureResultOf(worker.run(divmod, 7, 0), ZeroDivisionError)
        worker.stop()
