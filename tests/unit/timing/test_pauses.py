"""Pauses that double."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.timing.pauses import doubled


class PausesTests(SynchronousTestCase):
    def test_each_is_twice_the_last_up_to_the_limit_for_ever(self) -> None:
        self.assertEqual([doubled(0.5, times, 3.0) for times in range(5)], [0.5, 1.0, 2.0, 3.0, 3.0])
        self.assertEqual(doubled(0.5, 10**6, 3.0), 3.0)
