"""When a log was how long: how many seconds somebody is behind who has it up to some offset.

A sample a second for an hour. Who is further behind than that is behind by an hour at least.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

SAMPLES: Final = 3600
"""Kept at the least; twice as many at most, some 400 KiB."""


class OffsetHistory:
    """Ends of one log, with their times."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._ends: list[int] = []

    def note(self, now: float, end: int) -> None:
        """The log ends at `end` now. One that ends earlier than before is another one."""
        if self._ends and end < self._ends[-1]:
            self._times.clear()
            self._ends.clear()
        if self._ends and end == self._ends[-1] and len(self._ends) > 1 and self._ends[-2] == end:
            self._times[-1] = now  # idle: the first and the last sample say it all
            return
        self._times.append(now)
        self._ends.append(end)
        if len(self._ends) > 2 * SAMPLES:
            del self._times[:-SAMPLES], self._ends[:-SAMPLES]

    def behind(self, offset: int, now: float) -> float:
        """Seconds since the log was no longer than `offset`; 0 if it isn't longer now, as far as is known."""
        at = bisect_right(self._ends, offset)
        if at == len(self._ends):
            return 0.0
        return max(0.0, now - self._times[max(0, at - 1)])
