"""A rate for each source: bursts, the long run, what is larger than a second's worth, and how many are
remembered."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.timing import ratelimit
from hatwisted.timing.ratelimit import BURST, RateLimit

RATE = 8
AT_ONCE = int(RATE * BURST) + 1
"""One more begins within the burst."""


class RateLimitTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.limit = RateLimit(self.clock, RATE)

    def admitted(self, source: str, attempts: int) -> int:
        return sum(self.limit.admits(source) for _ in range(attempts))

    def test_a_burst_and_then_the_rate(self) -> None:
        self.assertEqual(self.admitted("a", 100), AT_ONCE)
        self.assertEqual(self.admitted("b", 5), 5)
        passed = 0
        for _ in range(100):
            self.clock.advance(0.125)
            passed += self.admitted("a", 10)
        self.assertEqual(passed, 100)

    def test_an_idle_source_saves_up_no_more_than_a_burst(self) -> None:
        self.clock.advance(1000)
        self.assertEqual(self.admitted("a", 100), AT_ONCE)

    def test_what_is_larger_than_a_second_passes_and_is_waited_for(self) -> None:
        self.assertTrue(self.limit.admits("a", 40))
        self.clock.advance(3.9)
        self.assertFalse(self.limit.admits("a"))
        self.clock.advance(0.2)
        self.assertTrue(self.limit.admits("a"))

    def test_sources_are_bounded(self) -> None:
        self.patch(ratelimit, "MAX_SOURCES", 3)
        for source in "abcd":
            self.limit.admits(source, 1000)
        self.assertEqual([self.limit.admits(source) for source in "bcd"], [False, False, False])
        self.assertEqual(list(self.limit._due), ["b", "c", "d"])
