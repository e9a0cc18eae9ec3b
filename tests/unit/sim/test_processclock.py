"""The time of one process: pauses that end when the last of them says so, clocks that run fast or slow."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.machine import ProcessClock
from hatwisted.sim.simclock import SimClock


class PauseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = SimClock(100.0)
        self.process = ProcessClock(self.clock, ahead=0.0)
        self.seen: list[tuple[str, float]] = []
        for delay, name in enumerate(("first", "second", "third", "fourth", "fifth"), 1):
            self.process.callLater(delay / 2, self.see, name)

    def see(self, name: str) -> None:
        self.seen.append((name, self.clock.seconds()))

    def test_what_was_due_meanwhile_comes_at_a_pauses_early_end_in_order(self) -> None:
        self.process.pause(50.0)
        self.clock.run_until(102.2)
        self.process.pause(0.0)
        self.clock.run_until(103.0)
        waited = [(name, 102.2) for name in ("first", "second", "third", "fourth")]
        self.assertEqual(self.seen, [*waited, ("fifth", 102.5)])

    def test_a_longer_pause_takes_the_place_of_a_shorter_one_and_the_other_way_round(self) -> None:
        for first, then, waits_until in ((5.0, 10.0, 112.2), (10.0, 5.0, 107.2)):
            with self.subTest(first=first, then=then):
                self.setUp()
                self.process.pause(first)
                self.clock.run_until(102.2)
                self.process.pause(then)
                self.clock.run_until(120.0)
                self.assertEqual({at for _, at in self.seen}, {waits_until})

    def test_an_early_end_is_one_for_what_waited_for_an_earlier_pause_too(self) -> None:
        self.process.pause(10.0)
        self.clock.run_until(101.2)
        self.process.pause(50.0)
        self.clock.run_until(102.2)
        self.process.pause(0.0)
        self.clock.run_until(103.0)
        self.assertEqual([name for name, _ in self.seen], ["first", "second", "third", "fourth", "fifth"])

    def test_a_leap_meanwhile_lets_nothing_wait_for_longer_than_the_pause(self) -> None:
        self.process.pause(50.0)
        self.clock.run_until(101.2)
        self.process.leap(1.0)
        self.clock.run_until(102.0)
        self.process.pause(0.0)
        self.clock.run_until(103.0)
        self.assertEqual([name for name, _ in self.seen], ["first", "second", "third", "fourth", "fifth"])
        self.assertEqual({at for _, at in self.seen}, {102.0})


class DriftTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = SimClock(100.0)
        self.fast = ProcessClock(self.clock, ahead=0.0, speed=1.25)

    def test_a_fast_clock_shows_more_time_and_nothing_comes_before_it_does(self) -> None:
        seen: list[tuple[float, float]] = []
        call = self.fast.callLater(10.0, lambda: seen.append((self.clock.seconds(), self.fast.seconds())))
        self.assertAlmostEqual(call.getTime(), 110.0, places=5)
        self.clock.run_until(120.0)
        (at, shown) = seen[0]
        self.assertAlmostEqual(at, 108.0, places=5)
        self.assertGreaterEqual(shown, 110.0)

    def test_a_call_is_reset_and_delayed_by_its_owners_time(self) -> None:
        first, second = (self.fast.callLater(1.0, list) for _ in range(2))
        self.clock.run_until(100.4)
        first.reset(5.0)
        second.delay(5.0)
        self.assertAlmostEqual(first.planned, 104.4, places=5)
        self.assertAlmostEqual(second.planned, 104.8, places=5)

    def test_a_process_that_is_started_later_finds_the_time_of_its_host(self) -> None:
        self.clock.run_until(108.0)
        self.assertEqual(ProcessClock(self.clock, ahead=1.0, speed=1.25).seconds(), 111.0)
        self.assertEqual(self.fast.seconds(), 110.0)

    def test_a_leap_of_a_fast_clock_makes_due_what_its_time_has_passed(self) -> None:
        call = self.fast.callLater(10.0, list)
        self.fast.leap(5.0)
        self.assertAlmostEqual(call.planned, 104.0, places=5)
        self.assertAlmostEqual(call.getTime(), 110.0, places=5)
