"""Memory of frames that haven't arrived whole, and of requests that wait for turns, over a process's connections.

Whoever holds most of it is closed when there is too much, not who came last: honest clients hold one message for
the time it takes to arrive, and those who open frames and never end them would otherwise lock everybody else out.
"""

from __future__ import annotations

from typing import Protocol

from hatwisted.remoting.sharedroom import Beside, nothing_beside, room

MAX_PARTIAL_BYTES = 64 << 20
"""Bytes over all connections of a process: 16 messages of 4 MiB, RocketMQ's largest, on their way at a time. With
twice as much, beside full tables, unread answers and held pulls, a server was larger than 300 MiB."""


class Holder(Protocol):
    """A connection."""

    def reject(self, reason: str) -> None:
        """Close at once, and tell the log why."""


class PartialFrames:
    """Who holds how much. Invariant: `total` is the sum, at most MAX_PARTIAL_BYTES between two calls.

    beside: what answers that aren't read take.
    """

    def __init__(self, beside: Beside = nothing_beside) -> None:
        self._beside = beside
        self.total = 0
        """Bytes held."""
        self._held: dict[Holder, int] = {}

    def hold(self, holder: Holder, size: int) -> None:
        """`holder` has `size` bytes of an incomplete frame and waiting requests now; who has most is closed if
        that's too much."""
        if size == self._held.get(holder, 0):
            return
        self.forget(holder)
        if size:
            self._held[holder] = size
            self.total += size
        while self.total > (most := room(MAX_PARTIAL_BYTES, self._beside())):
            largest = max(self._held, key=self._held.__getitem__)
            self.forget(largest)
            largest.reject(
                f"incomplete frames of all connections exceed {most} bytes, waiting requests counted"
            )

    def forget(self, holder: Holder) -> None:
        """It holds nothing any more; idempotent."""
        self.total -= self._held.pop(holder, 0)
