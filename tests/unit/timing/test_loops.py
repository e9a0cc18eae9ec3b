"""The pieces that every loop of a server is made of."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.throttle import LOG_INTERVAL, MAX_SOURCES, LogThrottle
from hatwisted.timing.timer import GuardedTimer


class Trouble(Exception):
    """What the work of these tests raises."""


class PeriodicCallTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.turns = 0
        self.raises: Exception | None = None
        self.answer: object = None
        self.loop = PeriodicCall(self.clock, "counting", self.turn)

    def turn(self) -> object:
        self.turns += 1
        if self.raises is not None:
            raise self.raises
        return self.answer

    def test_a_turn_that_raises_is_logged_and_the_next_one_comes(self) -> None:
        self.loop.start(1.0)
        self.raises = Trouble("once")
        self.clock.advance(1)
        self.raises = None
        self.clock.pump([1, 1])
        self.assertEqual(self.turns, 3)
        (failure,) = self.flushLoggedErrors(Trouble)
        self.assertIn("in turn", failure.getTraceback())

    def test_a_turn_whose_deferred_fails_likewise(self) -> None:
        self.loop.start(1.0)
        waiting: Deferred[None] = Deferred()
        self.answer = waiting
        self.clock.pump([1, 1, 1])
        self.assertEqual(self.turns, 1)
        self.answer = None
        waiting.errback(Trouble("later"))
        self.clock.advance(1)
        self.assertEqual(self.turns, 2)
        self.assertEqual(len(self.flushLoggedErrors(Trouble)), 1)

    def test_what_fails_at_every_turn_is_logged_once_a_minute_whatever_its_words(self) -> None:
        self.loop.start(0.01)
        for number in range(int(2 * LOG_INTERVAL / 0.01)):
            self.raises = Trouble(f"at offset {number}")
            self.clock.advance(0.01)
        self.assertGreater(self.turns, 11_000)
        self.assertIn(len(self.flushLoggedErrors(Trouble)), (2, 3))

    def test_another_kind_of_trouble_is_logged_at_once(self) -> None:
        self.loop.start(1.0)
        for error in (Trouble("a"), OSError("b"), Trouble("c")):
            self.raises = error
            self.clock.advance(1)
        self.assertEqual(len(self.flushLoggedErrors(Trouble)), 1)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    def test_at_once_if_wanted_and_no_more_once_stopped(self) -> None:
        self.loop.start(1.0, now=True)
        self.assertEqual(self.turns, 1)
        self.loop.stop()
        self.loop.stop()
        self.assertFalse(self.loop.running)
        self.clock.advance(10)
        self.assertEqual(self.turns, 1)

    def test_turns_keep_to_their_grid_and_missed_ones_are_left_out(self) -> None:
        self.loop.start(1.0)
        seen = []
        for pause in (1.0, 2.5, 0.25, 0.25, 0.75, 0.25):
            self.clock.advance(pause)
            seen.append(self.turns)
        self.assertEqual(seen, [1, 2, 2, 3, 3, 4])

    def test_started_again_while_a_turn_waits_there_is_one_row_of_turns(self) -> None:
        waiting: Deferred[None] = Deferred()
        self.answer = waiting
        self.loop.start(1.0)
        self.clock.advance(1)
        self.loop.stop()
        self.loop.start(1.0)
        self.answer = None
        waiting.callback(None)
        self.clock.advance(1)
        self.assertEqual(self.turns, 2)

    def test_it_isn_t_started_twice(self) -> None:
        self.loop.start(1.0)
        self.assertRaises(RuntimeError, self.loop.start, 1.0)


class GuardedTimerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.turns: list[float] = []
        self.work: object = lambda: None
        self.timer = GuardedTimer(self.clock, "counting", self.turn, retry=5.0)

    def turn(self) -> object:
        self.turns.append(self.clock.seconds())
        return self.work()  # type: ignore[operator]

    def trouble(self) -> None:
        raise Trouble("here")

    def test_set_again_replaces_the_call_to_come(self) -> None:
        self.timer.set(10)
        self.timer.set(2)
        self.assertEqual((self.timer.pending, self.timer.due), (True, 2.0))
        self.clock.pump([2, 10])
        self.assertEqual(self.turns, [2.0])
        self.assertEqual((self.timer.pending, self.timer.due), (False, None))

    def test_a_turn_that_raises_comes_again_after_the_retry(self) -> None:
        self.work = self.trouble
        self.timer.set(1)
        self.clock.advance(1)
        self.assertEqual(self.timer.due, 6.0)
        self.work = lambda: None
        self.clock.advance(5)
        self.assertEqual(self.turns, [1.0, 6.0])
        self.assertFalse(self.timer.pending)
        self.assertEqual(len(self.flushLoggedErrors(Trouble)), 1)

    def test_one_whose_deferred_fails_likewise(self) -> None:
        waiting: Deferred[None] = Deferred()
        self.work = lambda: waiting
        self.timer.set(0)
        self.clock.advance(1)
        self.assertFalse(self.timer.pending)
        waiting.errback(Trouble("later"))
        self.assertEqual(self.timer.due, 6.0)
        self.assertEqual(len(self.flushLoggedErrors(Trouble)), 1)

    def test_the_time_that_a_turn_set_before_it_raised_stands(self) -> None:
        def set_and_raise() -> None:
            self.timer.set(1)
            self.trouble()

        self.work = set_and_raise
        self.timer.fire()
        self.assertEqual(self.timer.due, 1.0)
        self.assertEqual(len(self.flushLoggedErrors(Trouble)), 1)

    def test_a_turn_that_cancels_and_raises_was_the_last(self) -> None:
        def cancel_and_raise() -> None:
            self.timer.cancel()
            self.trouble()

        self.work = cancel_and_raise
        self.timer.fire()
        self.assertFalse(self.timer.pending)
        self.assertEqual(len(self.flushLoggedErrors(Trouble)), 1)

    def test_cancelled_before_its_time(self) -> None:
        self.timer.set(1)
        self.timer.cancel()
        self.timer.cancel()
        self.clock.advance(10)
        self.assertEqual(self.turns, [])

    def test_a_turn_now_takes_the_place_of_the_one_to_come(self) -> None:
        self.timer.set(1)
        self.timer.fire()
        self.clock.advance(10)
        self.assertEqual(self.turns, [0.0])


class LogThrottleTests(SynchronousTestCase):
    def test_one_in_an_interval_for_each_source_and_the_number_left_out(self) -> None:
        clock = Clock()
        throttle = LogThrottle(clock, 10)
        self.assertEqual(throttle.admit("a"), 0)
        self.assertIsNone(throttle.admit("a"))
        self.assertIsNone(throttle.admit("a", 5))
        self.assertEqual(throttle.admit("b"), 0)
        clock.advance(10)
        self.assertEqual(throttle.admit("a"), 6)
        clock.advance(10)
        self.assertEqual(throttle.admit("a"), 0)

    def test_the_source_quiet_longest_is_forgotten(self) -> None:
        throttle = LogThrottle(Clock(), 10)
        for number in range(MAX_SOURCES + 1):
            throttle.admit(number)
        self.assertEqual(throttle.admit(0), 0)
        self.assertIsNone(throttle.admit(MAX_SOURCES))
