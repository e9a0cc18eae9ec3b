"""What came over the link last, as long as dispatch hasn't had it: it needn't read back what is in memory still.

A slave that copies hundreds of megabytes a second would read each of them a second time, which costs a fifth of
what receiving and writing them does. Only what is in the log by then is kept, in the pieces in which it came.
Where dispatch falls behind by more than the limits, all is let go of, and dispatch reads the log until it's within
reach again: nothing depends on what is kept here.

Not for a master's own appends: they are smaller, and what they cost besides hides the difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from hatwisted.store.interfaces import Buffer

MAX_KEPT_BYTES: Final = 8 << 20
"""Bytes kept at most: what a link brings between two slices of dispatch, twice."""

MAX_KEPT_PIECES: Final = 4096
"""Pieces kept at most: some 300 bytes each besides what is in them."""


class RecentBytes:
    """One stretch of the log, the end of what was received."""

    __slots__ = ("_begin", "_pieces", "end")

    def __init__(self) -> None:
        self._pieces: deque[Buffer] = deque()
        self._begin = self.end = 0
        """Offset behind the last byte that was added."""

    def forget(self) -> None:
        """All of it: the log is about to be another one."""
        self._pieces.clear()
        self._begin = self.end

    def add(self, offset: int, pieces: Sequence[Buffer], size: int) -> None:
        """Keep what has just been written, unless that's too much.

        - offset: of its first byte in the log
        - pieces: which nobody changes any more
        - size: bytes in all
        """
        if offset != self.end:
            self.end = offset
            self.forget()
        self.end += size
        self._pieces.extend(pieces)
        if self.end - self._begin > MAX_KEPT_BYTES or len(self._pieces) > MAX_KEPT_PIECES:
            self.forget()

    def take(self, offset: int, limit: int) -> list[Buffer]:
        """At most `limit` bytes from `offset` on, in pieces; [] if they aren't kept. What is before them is let go
        of: dispatch doesn't ask for it again."""
        if not self._begin <= offset < self.end:
            return []
        pieces = self._pieces
        while self._begin + len(pieces[0]) <= offset:
            self._begin += len(pieces.popleft())
        found: list[Buffer] = []
        passed, left = offset - self._begin, limit
        for piece in pieces:
            whole = not passed and len(piece) <= left
            part = piece if whole else memoryview(piece)[passed : passed + left]
            found.append(part)
            passed, left = 0, left - len(part)
            if not left:
                break
        return found
