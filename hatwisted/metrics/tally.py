"""Counters of topics that have no series of their own, added up to one that only rises.

The broker forgets what it has counted for a topic or a group that is deleted. A sum of what is left would fall,
and Prometheus takes a counter that falls for a restart: `rate()` would show all that is left as if it had just
come. So what is added here is by how much each counter has grown since it was last looked at.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

KEYS_PER_STEP: Final = 500
"""Looked at in one step, some 1.5 us each."""

NOTHING: Final = (0, 0)
"""Messages, bytes."""


class Tally:
    """Keeps each counter as it was at the last look, a few words for each of those that the broker counts."""

    def __init__(self) -> None:
        self.totals = list(NOTHING)
        """Messages and bytes."""
        self._seen: dict[str, Sequence[int]] = {}

    def take(self, counts: Mapping[str, Sequence[int]], apart: Container[str]) -> Iterator[None]:
        """Look at the counters again; None between two steps.

        - counts: by name, messages and bytes so far
        - apart: names that have a series of their own
        """
        for number, (name, now) in enumerate(list(counts.items()), 1):
            grown = self._grown(name, now)
            if name not in apart:
                self.totals = [total + more for total, more in zip(self.totals, grown, strict=True)]
            if number % KEYS_PER_STEP == 0:
                yield None
        for name in self._seen.keys() - counts.keys():
            del self._seen[name]

    def _grown(self, name: str, now: Sequence[int]) -> Sequence[int]:
        """Since the last look."""
        then = self._seen.get(name, NOTHING)
        seen = self._seen[name] = tuple(now[: len(NOTHING)])
        if seen[0] < then[0]:  # deleted meanwhile, and made again
            then = NOTHING
        return [new - old for new, old in zip(seen, then, strict=True)]
