"""What stands on every driver: work in the background, work that repeats, words through the standard library."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.client.driver import TwistedDriver
from hatwisted.clientcore.driver import Repeating, StandardLog, in_background
from hatwisted.clientcore.tasks import Waiter, sleep
from hatwisted.sim.memorynet import MemoryNetwork
from tests.support.scripteddriver import ScriptedDriver


class LoopCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.driver = ScriptedDriver({}, lambda address, request: None)
        self.told: list[tuple[str, BaseException]] = []

        def told(format: str, error: BaseException, **fields: object) -> None:
            self.told.append((format.format(**fields), error))

        self.patch(self.driver.log, "exception", told)


class RepeatingTests(LoopCase):
    def start(self, work: Callable[[], object]) -> Repeating:
        loop = Repeating(self.driver, 10, work, "looking")
        self.assertFalse(loop.running)
        loop.start()
        self.assertTrue(loop.running)
        return loop

    def test_the_first_call_is_an_interval_away_and_a_stop_ends_it(self) -> None:
        called: list[float] = []
        loop = self.start(lambda: called.append(self.driver.seconds()))
        self.driver.pass_time(35)
        self.assertEqual(called, [10, 20, 30])
        for _ in range(2):
            loop.stop()
        self.assertFalse(loop.running)
        self.driver.pass_time(35)
        self.assertEqual(len(called), 3)
        loop.start()
        self.driver.pass_time(10)
        self.assertEqual(len(called), 4)

    def test_one_that_raises_is_reported_and_called_again(self) -> None:
        error = ValueError("bad")
        self.start(lambda: (_ for _ in ()).throw(error))
        self.driver.pass_time(20)
        self.assertEqual(self.told, [("looking failed", error)] * 2)

    def test_it_may_end_itself(self) -> None:
        called: list[None] = []

        def end() -> None:
            called.append(None)
            loop.stop()

        loop = self.start(end)
        self.driver.pass_time(30)
        self.assertEqual((called, self.driver.clock.getDelayedCalls()), ([None], []))


class BackgroundTests(LoopCase):
    async def wait(self, waiter: Waiter[None]) -> None:
        await waiter

    def test_a_failure_is_reported_and_a_cancellation_isnt(self) -> None:
        waiter: Waiter[None] = Waiter()
        failing = in_background(self.driver, self.wait(waiter), "looking")
        error = ValueError("bad")
        waiter.fail(error)
        self.assertEqual((failing.done, self.told), (True, [("looking failed", error)]))
        cancelled = in_background(self.driver, sleep(self.driver, 1), "looking")
        cancelled.cancel()
        self.assertEqual((cancelled.done, len(self.told)), (True, 1))
        self.assertEqual(self.driver.clock.getDelayedCalls(), [])


class TwistedDriverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.driver = TwistedDriver(Clock(), MemoryNetwork(Clock()).host("10.0.0.1"))  # type: ignore[arg-type]

    def test_a_deferred_and_a_coroutine_are_waited_for_alike(self) -> None:
        async def waits(given: Deferred[int]) -> int:
            return await given + 1

        for adopted, result in ((lambda given: given, 5), (waits, 6)):
            given: Deferred[int] = Deferred()
            waiter = self.driver.adopt(adopted(given))
            self.assertFalse(waiter.done)
            given.callback(5)
            self.assertEqual(waiter.result(), result)
            failing: Deferred[int] = Deferred()
            waiter = self.driver.adopt(adopted(failing))
            failing.errback(ValueError("bad"))
            self.assertRaises(ValueError, waiter.result)

    def test_its_name_is_the_processs_unless_it_has_another(self) -> None:
        self.assertEqual(self.driver.process_name, f"{socket.gethostname()}@{os.getpid()}")
        named = TwistedDriver(Clock(), MemoryNetwork(Clock()).host("10.0.0.1"), process_name="h@1")  # type: ignore[arg-type]
        self.assertEqual(named.process_name, "h@1")


class LogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.records: list[logging.LogRecord] = []
        logger = logging.getLogger("tests.clientcore")
        handler = logging.Handler()
        self.patch(handler, "emit", self.records.append)
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        self.patch(logger, "propagate", False)
        self.logger = logger
        self.log = StandardLog("tests.clientcore")

    def test_levels_words_and_traceback(self) -> None:
        self.logger.setLevel(logging.DEBUG)
        error = ValueError("bad")
        for say in (self.log.debug, self.log.info, self.log.warn, self.log.error):
            say("{n} {what}", n=5, what="100 %")
        self.log.exception("{n} {what}", error, n=5, what="100 %")
        levels = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.ERROR]
        self.assertEqual([each.levelno for each in self.records], levels)
        self.assertEqual({each.getMessage() for each in self.records}, {"5 100 %"})
        shown = [each.exc_info[1] if each.exc_info else None for each in self.records]
        self.assertEqual(shown, [None] * 4 + [error])

    def test_what_nobody_wants_isnt_put_into_words(self) -> None:
        self.logger.setLevel(logging.WARNING)
        self.log.info("{missing}")
        self.assertEqual(self.records, [])
