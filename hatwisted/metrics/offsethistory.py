"""When a log was how long: how many seconds somebody is behind who has it up to some offset.

A sample for each second in which it grew. Who is further behind than is known is as far behind as is known: an
hour at least, if the log grows all the time.
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
        if self._ends and end == self._ends[-1]:
            return
        self._times.append(now)
        self._ends.append(end)
        if len(self._ends) > 2 * SAMPLES:
            del self._times[:-SAMPLES], self._ends[:-SAMPLES]

    def behind(self, offset: int, now: float) -> float:
        """Seconds since the log was first seen to be longer than `offset`; 0 if it wasn't yet."""
        at = bisect_right(self._ends, offset)
        return 0.0 if at == len(self._ends) else max(0.0, now - self._times[at])
