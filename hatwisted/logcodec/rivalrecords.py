"""Of places that look like records, those that don't lie inside another one.

A candidate whose chain breaks is no record if another begins inside it whose chain goes further. Whoever writes
messages may put thousands of heads into one body, each inside the one before, and asking for each of them about
all the others would take hours. So it is found out once for each place how far its chain goes, and only the
greatest of these is asked about.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

WHOLE: Final = 1 << 62
"""How far a chain reaches that doesn't break."""

MANY: Final = 1 << 16
"""Places behind which nothing is asked any more, after which they are forgotten."""


class RivalRecords:
    """Iterate to get the places, ascending.

    - starts: where records could begin, ascending
    - reach: how far the chain from such a place goes: where it breaks, or WHOLE; 0 if there is no proved record
    """

    def __init__(self, starts: Iterator[int], reach: Callable[[int], int]) -> None:
        self._more = starts
        self._reach = reach
        self._starts = array("q")
        self._reaches = array("q")

    def __iter__(self) -> Iterator[int]:
        index = 0
        while self._has(index):
            reach = self._reaches[index]
            if reach == WHOLE or (reach and not self._is_inside(index, reach)):
                yield self._starts[index]
            index += 1
            if index == MANY:
                del self._starts[:index], self._reaches[:index]
                index = 0

    def _has(self, index: int) -> bool:
        """Is there such a place? The last one so far, or the one after it."""
        if index == len(self._starts):
            for start in self._more:
                self._starts.append(start)
                self._reaches.append(self._reach(start))
                break
        return index < len(self._starts)

    def _is_inside(self, index: int, end: int) -> bool:
        """Does a chain that begins after this place, and before the end of its own, go further?"""
        first = index + 1
        last = bisect_left(self._starts, end, first)
        if last > first and np.frombuffer(self._reaches, np.int64)[first:last].max() > end:
            return True
        while self._has(last) and self._starts[last] < end:
            if self._reaches[last] > end:
                return True
            last += 1
        return False
