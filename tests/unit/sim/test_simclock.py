"""The clock of a simulation: order, ownership, and calls that change their mind."""

from __future__ import annotations

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.simclock import PowerLoss, SimClock


class Somebody:
    alive = True
    paused_until = 0.0


class SimClockTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = SimClock(100.0)
        self.seen: list[object] = []

    def see(self, what: object) -> None:
        self.seen.append((what, self.clock.seconds()))

    def test_calls_come_in_order_of_time_and_equal_ones_as_they_were_made(self) -> None:
        self.clock.callLater(2, self.see, "late")
        self.clock.callLater(1, self.see, "first")
        self.clock.callLater(1, self.see, "second")
        self.clock.run_until(101.5)
        self.assertEqual(self.seen, [("first", 101.0), ("second", 101.0)])
        self.assertEqual(self.clock.seconds(), 101.5)
        self.clock.run_until(110)
        self.assertEqual(self.seen[2:], [("late", 102.0)])

    def test_what_a_call_sets_for_now_comes_within_the_same_run(self) -> None:
        self.clock.callLater(1, self.clock.callLater, 0, self.see, "inner")
        self.clock.run_until(101)
        self.assertEqual(self.seen, [("inner", 101.0)])

    def test_a_call_can_be_moved_either_way_and_cancelled(self) -> None:
        sooner, later, never = (
            self.clock.callLater(5, self.see, name) for name in ("sooner", "later", "never")
        )
        sooner.reset(1)
        later.delay(5)
        never.cancel()
        self.clock.run_until(120)
        self.assertEqual(self.seen, [("sooner", 101.0), ("later", 110.0)])
        self.assertRaises(AlreadyCalled, sooner.cancel)
        self.assertRaises(AlreadyCancelled, never.reset, 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_dead_owners_calls_are_dropped(self) -> None:
        owner = Somebody()
        self.clock.call_for(owner, 1, self.see, ("nothing",))
        owner.alive = False
        self.clock.run_until(110)
        self.assertEqual(self.seen, [])

    def test_an_owner_that_stands_still_wakes_with_all_that_was_due_in_order(self) -> None:
        owner = Somebody()
        self.clock.call_for(owner, 2, self.see, ("second",))
        self.clock.call_for(owner, 1, self.see, ("first",))
        owner.paused_until = 105.0
        self.clock.run_until(110)
        self.assertEqual(self.seen, [("first", 105.0), ("second", 105.0)])

    def test_the_clock_outlives_a_loss_of_power(self) -> None:
        def fail() -> None:
            raise PowerLoss

        self.clock.callLater(1, fail)
        self.clock.callLater(2, self.see, "on")
        self.clock.run_until(103)
        self.assertEqual(self.seen, [("on", 102.0)])
