"""Where store times fall along a chain of records: a clock that was set back, or what a cut left behind the
log's end.

A broker that crashed may cut its log and write on over records of the same size; then the chain leads from the
last new record to an old one, whole and with the right offset. It's older, though, and so are all that follow;
while times that fell as a clock was set back rise again to what they were.

A record is taken for older if it is older than both records before it: a clock that leapt for a moment, or
damage in one time, makes none of those after it a leftover. So the chain has to begin before the record whose
successors are judged: one alone says nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hatwisted.logcodec.octets import Longs

BEFORE_ALL: Final = -(1 << 63)
"""Time of the records that there aren't before a chain's first."""


class FallingTimes:
    """Follows the store times (ms) of a chain."""

    def __init__(self) -> None:
        self._last = [BEFORE_ALL, BEFORE_ALL]
        self._level: int | None = None
        self.surely = False
        """Of the record that has fallen: is it older than the one before the last, too?"""

    @property
    def fallen(self) -> bool:
        """Are the last ones lower than those before, and haven't risen again?"""
        return self._level is not None

    def first_fallen(self, times: Longs) -> int | None:
        """The next records of the chain. Index of the first that has fallen, if it is among these and none
        after it has risen again."""
        padded = np.concatenate([self._last, times])
        self._last = padded[-2:].tolist()
        falls = np.flatnonzero(times < padded[1:-1])
        found = None
        start = 0
        while start < len(times):
            if self._level is not None:
                risen = np.flatnonzero(times[start:] >= self._level)
                if not len(risen):
                    return found
                self._level, found = None, None
                start += int(risen[0])
            falls = falls[falls >= start]
            if not len(falls):
                return None
            found = int(falls[0])
            self._level, self.surely = int(padded[found + 1]), bool(times[found] < padded[found])
            start = found + 1
        return found

    def accept(self) -> None:
        """The last fall was a clock's."""
        self._level = None
