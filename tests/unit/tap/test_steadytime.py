"""Timers and times of a server whose system clock is set."""

from __future__ import annotations

from typing import Any

from twisted.internet.selectreactor import SelectReactor
from twisted.internet.task import Clock, LoopingCall
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.tap.steadytime import (
    FASTEST,
    FOLLOW_INTERVAL,
    LEAP,
    LEAP_PROOF,
    SLOWEST,
    SteadyTime,
    SteadyTimeService,
)

NOW = 1_795_221_233.0
HOUR = 3600.0


class SystemClocks:
    """A machine: `passes` lets time go by, `step` sets its clock."""

    def __init__(self) -> None:
        self.monotonic = 1000.0
        self.wall = NOW

    def passes(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds

    def step(self, seconds: float) -> None:
        self.wall += seconds


class SteadyCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.machine = SystemClocks()
        self.steady = SteadyTime(lambda: self.machine.monotonic, lambda: self.machine.wall)
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self.note)
        self.addCleanup(globalLogPublisher.removeObserver, self.note)

    def note(self, event: dict[str, Any]) -> None:
        if "step" in event:
            self.lines.append(event["log_format"].format(**event))

    def follows(self, seconds: int) -> list[float]:
        """Let time pass, with a look at the clock each second; how far our time got in each."""
        advances = []
        for _ in range(seconds):
            before = self.steady.seconds()
            self.steady.follow()
            self.machine.passes(FOLLOW_INTERVAL)
            advances.append(self.steady.seconds() - before)
        return advances

    @property
    def ahead(self) -> float:
        return self.steady.seconds() - self.machine.wall


class SteadyTimeTests(SteadyCase):
    def test_an_even_clock_is_the_systems(self) -> None:
        self.follows(100)
        self.assertAlmostEqual(self.ahead, 0, places=6)
        self.assertEqual(self.lines, [])

    def test_set_back_it_never_runs_backwards_and_comes_to_agree(self) -> None:
        self.machine.step(-HOUR)
        self.assertAlmostEqual(self.ahead, HOUR, places=5)
        advances = self.follows(int(HOUR / (1 - SLOWEST)) + 1)
        self.assertGreaterEqual(min(advances), SLOWEST * FOLLOW_INTERVAL - 1e-6)
        self.assertAlmostEqual(self.ahead, 0, places=5)
        self.assertEqual(
            self.lines,
            ["the system clock was set back by 3600 s: timers and store times follow in 7200 s"],
        )

    def test_set_forward_it_hurries_without_a_leap(self) -> None:
        self.machine.step(60)
        advances = self.follows(31)
        self.assertLessEqual(max(advances), FASTEST * FOLLOW_INTERVAL + 1e-6)
        self.assertAlmostEqual(self.ahead, 0, places=5)
        self.assertIn("set forward by 60 s", self.lines[0])

    def test_after_a_long_sleep_of_the_machine_it_leaps(self) -> None:
        self.machine.step(LEAP + 1)
        self.follows(int(LEAP_PROOF))
        self.assertAlmostEqual(self.ahead, -LEAP - 1, places=5)
        self.follows(1)
        self.assertAlmostEqual(self.ahead, 0, places=5)
        self.assertEqual(
            self.lines, ["the system clock is 3601 s ahead: timers and store times jump with it"]
        )

    def test_a_clock_that_is_wrong_for_a_moment_is_passed_over(self) -> None:
        for _ in range(2):
            self.machine.step(100 * 24 * HOUR)
            self.assertEqual(set(self.follows(2)), {FOLLOW_INTERVAL})
            self.machine.step(-100 * 24 * HOUR)
            self.follows(10)
            self.assertAlmostEqual(self.ahead, 0, places=5)
        self.assertEqual(self.lines, ["the system clock was 8640000 s ahead for 2 s: ignored"] * 2)

    def test_far_ahead_it_does_not_go_slow_for_months(self) -> None:
        self.machine.step(100 * 24 * HOUR)
        self.follows(int(LEAP_PROOF) + 1)
        self.machine.step(-100 * 24 * HOUR)
        self.assertEqual({round(each, 6) for each in self.follows(100)}, {FOLLOW_INTERVAL})
        self.assertEqual(len(self.lines), 2, self.lines)
        self.assertIn("stay ahead until a restart", self.lines[1])

    def test_small_corrections_are_followed_in_silence(self) -> None:
        for step in (0.2, -0.3):
            self.machine.step(step)
            self.follows(3)
            self.assertAlmostEqual(self.ahead, 0, places=5)
        self.assertEqual(self.lines, [])

    def test_each_step_is_reported_once(self) -> None:
        for _ in range(2):
            self.machine.step(-10)
            self.follows(60)
        self.assertEqual(len(self.lines), 2)


class TimersTests(SteadyCase):
    """Twisted's own timers, on a reactor that isn't run but asked what is due."""

    def setUp(self) -> None:
        super().setUp()
        self.reactor = reactor = SelectReactor()
        reactor.seconds = lambda: self.machine.wall  # what Twisted's does
        self.addCleanup(reactor.waker.connectionLost, None)
        self.service = SteadyTimeService(reactor, self.steady)
        self.fired: list[float] = []
        self.beat = LoopingCall(lambda: self.fired.append(self.machine.monotonic))
        self.beat.clock = reactor

    def run_for(self, seconds: int) -> int:
        """How many beats of 5 s there are meanwhile."""
        before = len(self.fired)
        for _ in range(seconds):
            self.machine.passes(1)
            self.reactor.runUntilCurrent()
        return len(self.fired) - before

    def begin(self) -> None:
        self.beat.start(5, now=False)
        self.addCleanup(self.beat.stop)

    def test_a_look_at_the_clock_that_fails_is_followed_by_the_next(self) -> None:
        self.service.startService()
        self.begin()
        self.assertEqual(self.run_for(10), 2)
        wall = self.machine.wall
        del self.machine.wall
        self.machine.monotonic += 1
        self.reactor.runUntilCurrent()
        self.assertEqual(len(self.flushLoggedErrors(AttributeError)), 1)
        self.machine.wall = wall + 1 - HOUR
        self.run_for(5)
        self.assertTrue(any("was set" in line for line in self.lines), "it follows again")

    def test_without_it_a_clock_set_back_stops_every_timer(self) -> None:
        self.begin()
        self.assertEqual(self.run_for(20), 4)
        self.machine.step(-HOUR)
        self.assertEqual(self.run_for(60), 0)

    def test_with_it_they_go_on(self) -> None:
        self.service.startService()
        self.addCleanup(self.service.stopService)
        self.begin()
        self.assertEqual(self.run_for(20), 4)
        self.machine.step(-HOUR)
        self.assertIn(self.run_for(60), (6, 7), "at half the pace, as long as it has to wait for the clock")
        self.machine.step(HOUR)
        self.run_for(60)
        self.assertEqual(self.run_for(20), 4)


class ServiceTests(SteadyCase):
    def test_it_looks_at_the_clock_until_it_is_stopped(self) -> None:
        clock: Any = Clock()
        service = SteadyTimeService(clock, self.steady)
        service.startService()
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        service.stopService()
        self.assertEqual(clock.getDelayedCalls(), [])
