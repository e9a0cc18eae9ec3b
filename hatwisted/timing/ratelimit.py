"""How much of something each source may have in a second.

A token bucket, kept as the time at which what a source has had would have been due at its rate: an idle source
owes nothing, a busy one is admitted as long as it's ahead by no more than BURST. What is larger than a second's
rate is admitted too, and the source then waits for as long as that is worth.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from twisted.internet.interfaces import IReactorTime

BURST = 1.0
"""Seconds of its rate that a source may have at once."""

MAX_SOURCES = 10_000
"""Sources remembered; the one that asked least recently is forgotten, and owes nothing when it comes back."""


class RateLimit:
    """One limit for each source.

    - clock: of the rate
    - rate: per second
    """

    def __init__(self, clock: IReactorTime, rate: float) -> None:
        self.rate = rate
        self._clock = clock
        self._due: OrderedDict[Hashable, float] = OrderedDict()

    def admits(self, source: Hashable, amount: float = 1) -> bool:
        """May `source` have so much now? Then it counts."""
        now = self._clock.seconds()
        due = self._due.pop(source, now)
        admitted = due <= now + BURST
        self._due[source] = max(due, now) + amount / self.rate if admitted else due
        if len(self._due) > MAX_SOURCES:
            self._due.popitem(last=False)
        return admitted

    def wait(self, source: Hashable) -> float:
        """Seconds until `source` may have anything; 0 if it may now. Nothing counts."""
        due, most = self._due.get(source, 0.0), self._clock.seconds() + BURST
        return 0.0 if due <= most else due - most
