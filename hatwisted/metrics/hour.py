"""The last hour of a broker, a moment every ten seconds: rates, lag, and how long puts took."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hatwisted.timing.histogram import Histogram

MOMENTS: Final = 360
"""Kept."""
INTERVAL: Final = 10.0
"""Seconds between two of them."""
SHARE: Final = 0.99
"""Of puts that were as quick as is shown."""


class Totals(NamedTuple):
    """What has been counted by a time. stages: name -> histogram's counts."""

    at: float
    messages_in: int
    messages_out: int
    stages: Mapping[str, Sequence[int]]


class Moment(NamedTuple):
    """Of the time since the one before. at: clock seconds; lag: seconds, of who is furthest behind, None if nobody
    is there; stages: seconds within which SHARE of the puts were through."""

    at: float
    rate_in: float
    rate_out: float
    lag: float | None
    stages: Mapping[str, float]


class Hour:
    """Moments, the oldest first."""

    def __init__(self) -> None:
        self.moments: deque[Moment] = deque(maxlen=MOMENTS)
        self._before: Totals | None = None

    def note(self, totals: Totals, bounds: Sequence[float], lag: float | None) -> None:
        """One more.

        - totals: counted so far
        - bounds: of the histograms' buckets
        - lag: at present
        """
        before, self._before = self._before, totals
        seconds = 0.0 if before is None else totals.at - before.at
        if before is None or seconds <= 0:
            return
        stages = {}
        for name, counts in totals.stages.items():
            earlier = before.stages.get(name, [0] * len(counts))
            new = [now - then for now, then in zip(counts, earlier, strict=True)]
            if sum(new) > 0:
                stages[name] = quantile(new, bounds, SHARE)
        self.moments.append(
            Moment(
                at=totals.at,
                rate_in=max(0.0, (totals.messages_in - before.messages_in) / seconds),
                rate_out=max(0.0, (totals.messages_out - before.messages_out) / seconds),
                lag=lag,
                stages=stages,
            )
        )


def counts_of(stages: Mapping[str, Histogram]) -> dict[str, list[int]]:
    """What a Totals keeps of histograms."""
    return {name: list(histogram.counts) for name, histogram in stages.items()}


def quantile(counts: Sequence[int], bounds: Sequence[float], share: float) -> float:
    """The value below which `share` of what was counted lies, evenly spread within a bucket.

    - counts: of each bucket by itself, the last one without a bound
    - bounds: upper ends
    - share: 0 to 1
    """
    wanted, below, low = share * sum(counts), 0, 0.0
    for count, bound in zip(counts, bounds, strict=False):
        if count and below + count >= wanted:
            return low + (bound - low) * (wanted - below) / count
        below, low = below + count, bound
    return low
