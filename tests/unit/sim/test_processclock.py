"""The time of one process: pauses that end when the last of them says so."""

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
