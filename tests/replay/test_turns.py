"""Turns of a server are measured one by one, and its clock runs meanwhile."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.fuzz.turns import TurnClock, Turns


class TurnTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.now = 5.0
        self.turns = Turns(lambda: self.now)
        self.clock = TurnClock(self.turns)

    def work(self, seconds: float) -> None:
        self.now += seconds

    def test_the_longest_of_a_read_and_what_it_has_put_off(self) -> None:
        self.turns.take(self.work, 2.0)
        for seconds in (1.0, 3.0, 1.0):
            self.clock.callLater(0, self.work, seconds)
        self.clock.advance(0)
        self.assertEqual(self.turns.longest, 3.0)

    def test_a_turn_that_fails_counts(self) -> None:
        def fail() -> None:
            self.work(4.0)
            raise ValueError

        self.assertRaises(ValueError, self.turns.take, fail)
        self.assertEqual(self.turns.longest, 4.0)

    def test_time_passes_where_turns_are_measured_and_nowhere_else(self) -> None:
        self.work(1.0)
        self.assertEqual(self.clock.seconds(), 0.0)
        self.turns.measuring = True
        began = self.clock.seconds()
        self.work(1.5)
        self.assertEqual(self.clock.seconds() - began, 1.5)
