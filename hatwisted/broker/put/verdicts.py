"""What the lines that puts wait for have said of them: disk, slave, or both.

Each line speaks of the puts of a read in their order, a run at a time, and says what became of the run there. A
put is settled once every line has spoken of it. So what is known of a line is a queue of runs, and however many
puts there are, none is looked at by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from hatwisted.kernel.heldputs import HeldPuts
from hatwisted.store.log.put import PutStatus

Say = Callable[[int, PutStatus], None]
"""(how many of the next puts, what a line says of them)."""

Tell = Callable[[HeldPuts, PutStatus], None]
"""Some puts of which all lines have spoken, and their status."""


class Verdicts:
    """Of some puts.

    - puts: in offset order
    - lines: how many there are; of two failures that of the line with the lower number counts
    - tell: called with each run that is settled, in order
    """

    def __init__(self, puts: HeldPuts, lines: int, tell: Tell) -> None:
        self._puts: Final = puts
        self._tell: Final = tell
        self._told = 0
        self._said: Final[list[deque[tuple[int, PutStatus]]]] = [deque() for _ in range(lines)]
        """Of each line: the runs that the other one hasn't spoken of."""

    def of(self, line: int) -> Say:
        """What the line of this number is to call."""

        def say(count: int, status: PutStatus) -> None:
            self._said[line].append((count, status))
            while all(self._said):
                self._settle(min(said[0][0] for said in self._said))

        return say

    def _settle(self, count: int) -> None:
        """So many of the next: each line has said the same of them."""
        status = PutStatus.PUT_OK
        for said in reversed(self._said):
            left, found = said.popleft()
            if found is not PutStatus.PUT_OK:
                status = found
            if left > count:
                said.appendleft((left - count, found))
        begin, self._told = self._told, self._told + count
        self._tell(self._puts[begin : self._told], status)
