"""How long something took, counted in buckets: what a monitoring system makes its percentiles of.

An addition is a search among a dozen bounds, whatever it stands for: a read's worth of puts is added at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds: from an append to the time limit of a put that waits."""


class Histogram:
    """Since the start. bounds: upper ends of the buckets, rising; one more takes what is longer."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Of each bucket by itself."""
        self.total = 0.0
        """Sum of all that was added."""

    def add(self, value: float, times: int = 1) -> None:
        """Count `value` so many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Values added."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """(bound, values up to it), the last bound infinite."""
        found, below = [], 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            below += count
            found.append((bound, below))
        return found
