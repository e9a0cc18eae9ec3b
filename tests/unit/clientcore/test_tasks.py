"""Waiters and tasks: the client's coroutines without an event loop."""

import weakref

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.driver import Repeating, in_background
from hatwisted.clientcore.tasks import Cancelled, Lock, Task, Waiter, ends_within, gather, settle_all, sleep
from tests.support.scripteddriver import ScriptedDriver


class TestTask(SynchronousTestCase):
    def test_it_runs_at_once_and_goes_on_when_what_it_waits_for_has_come(self):
        waiter, story = Waiter(), []

        async def work():
            story.append("begun")
            story.append(await waiter)
            return "end"

        task = Task(work())
        self.assertEqual((story, task.done), (["begun"], False))
        waiter.fire("come")
        self.assertEqual((story, task.result()), (["begun", "come"], "end"))

    def test_what_has_come_before_is_not_waited_for(self):
        waiter = Waiter()
        waiter.fire(1)

        async def work():
            return await waiter + await waiter

        self.assertEqual(Task(work()).result(), 2)

    def test_an_error_comes_out_where_it_is_waited_for(self):
        waiter = Waiter()

        async def work():
            try:
                await waiter
            except KeyError:
                raise ValueError("told on") from None

        task = Task(work())
        waiter.fail(KeyError("x"))
        self.assertRaises(ValueError, task.result)

    def test_only_the_first_word_counts(self):
        waiter = Waiter()
        waiter.fire(1)
        waiter.fire(2)
        waiter.fail(ValueError())
        self.assertEqual(waiter.result(), 1)

    def test_what_has_come_lets_go_of_how_it_was_to_be_given_up(self):
        class Kept:
            def give_up(self):
                """Whoever holds this holds all of it."""

        kept = Kept()
        waiter, seen = Waiter(kept.give_up), weakref.ref(kept)
        del kept
        self.assertIsNotNone(seen())
        waiter.fire(1)
        self.assertIsNone(seen())

    def test_cancelling_ends_the_wait_and_what_is_waited_for_hears_of_it(self):
        told, cleaned = [], []
        waiter = Waiter(lambda: told.append("given up"))

        async def work():
            try:
                await waiter
            except Exception:
                self.fail("being cancelled is no failure")
            finally:
                cleaned.append(True)

        task = Task(work())
        task.cancel()
        waiter.fire(None)
        self.assertRaises(Cancelled, task.result)
        self.assertEqual((told, cleaned), (["given up"], [True]))

    def test_one_that_outlives_being_cancelled_hears_no_more_of_what_it_gave_up(self):
        given_up, instead = Waiter(), Waiter()

        async def work():
            try:
                await given_up
            except Cancelled:
                return await instead

        task = Task(work())
        task.cancel()
        given_up.fire("late")
        self.assertFalse(task.done)
        instead.fire("end")
        self.assertEqual(task.result(), "end")

    def test_a_task_that_is_cancelled_by_what_it_calls_ends_at_its_next_wait(self):
        async def work():
            tasks[0].cancel()
            story.append("goes on")
            await Waiter()
            story.append("never")

        tasks, story, first = [], [], Waiter()

        async def begin():
            await first
            await work()

        tasks.append(Task(begin()))
        first.fire(None)
        self.assertRaises(Cancelled, tasks[0].result)
        self.assertEqual(story, ["goes on"])

    def test_a_foreign_awaitable_is_refused(self):
        class Foreign:
            def __await__(self):
                yield "something else"

        async def work():
            await Foreign()

        self.assertRaises(AssertionError, Task, work())


class TestTogether(SynchronousTestCase):
    def test_gather_runs_all_at_the_same_time_and_raises_the_first_error(self):
        waiters = [Waiter() for _ in range(3)]

        async def each(waiter):
            return await waiter

        task = Task(gather(each(waiter) for waiter in waiters))
        for number, waiter in reversed(list(enumerate(waiters))):
            waiter.fire(number)
        self.assertEqual(task.result(), [0, 1, 2])
        failing = Waiter()
        task = Task(gather([each(failing), each(Waiter())]))
        failing.fail(ValueError())
        self.assertRaises(ValueError, task.result)

    def test_settle_all_waits_for_the_last_however_it_ends(self):
        waiters = [Waiter(), Waiter()]

        async def each(waiter):
            await waiter

        task = Task(settle_all(each(waiter) for waiter in waiters))
        waiters[0].fail(ValueError())
        self.assertFalse(task.done)
        waiters[1].fire(None)
        self.assertIsNone(task.result())

    def test_a_lock_is_had_by_one_at_a_time_in_the_order_they_came(self):
        lock, inside, gates = Lock(), [], [Waiter() for _ in range(4)]

        async def enter(number):
            async with lock:
                inside.append(number)
                await gates[number]

        tasks = [Task(enter(number)) for number in range(4)]
        self.assertEqual((inside, lock.locked, lock.waiting), ([0], True, True))
        tasks[2].cancel()
        gates[0].fire(None)
        gates[1].fail(ValueError())
        self.assertEqual(inside, [0, 1, 3])
        gates[3].fire(None)
        self.assertEqual((lock.locked, lock.waiting), (False, False))


class CoreClock(Clock):
    """Twisted's, with the core's name for callLater."""

    def call_later(self, seconds, work):
        return self.callLater(seconds, work)


class TestTime(SynchronousTestCase):
    def setUp(self):
        self.clock = CoreClock()

    def test_a_sleep_that_is_cancelled_leaves_no_timer(self):
        task = Task(sleep(self.clock, 5))
        self.clock.advance(4.9)
        self.assertFalse(task.done)
        task.cancel()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_ends_within(self):
        for early in (True, False):
            waited = Waiter()
            task = Task(ends_within(self.clock, waited, 3))
            self.clock.advance(2)
            if early:
                waited.fail(ValueError("however"))
            self.clock.advance(2)
            self.assertEqual(task.result(), early)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class TestLoops(SynchronousTestCase):
    def test_one_that_raises_is_logged_and_called_again(self):
        driver, times = ScriptedDriver({}, None), []

        def work():
            times.append(driver.seconds())
            raise ValueError("once more")

        loop = Repeating(driver, 30, work, "heartbeat")
        loop.start()
        with self.assertLogs("scripted", "ERROR") as logged:
            driver.clock.pump([30, 30, 30])
        self.assertEqual(times, [30, 60, 90])
        self.assertEqual([each.message for each in logged.records], ["heartbeat failed"] * 3)
        loop.stop()
        driver.clock.pump([30, 30])
        self.assertEqual((len(times), loop.running), (3, False))

    def test_in_the_background_failures_are_logged_and_a_cancelled_task_is_not(self):
        driver, waiter = ScriptedDriver({}, None), Waiter()

        async def work():
            await waiter

        with self.assertLogs("scripted") as logged:
            in_background(driver, work(), "one").cancel()
            in_background(driver, work(), "two")
            waiter.fail(ValueError("x"))
        self.assertEqual([each.message for each in logged.records], ["two failed"])
        self.assertIsInstance(logged.records[0].exc_info[1], ValueError)
