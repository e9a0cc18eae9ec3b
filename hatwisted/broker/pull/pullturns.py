"""Held pulls that are to be looked at, in an order in which nobody waits for all that somebody else has asked.

A stranger may hold a hundred thousand pulls of one queue, all of which have to be looked at whenever it grows. So
queues take turns, and within a queue the connections do: a client with one pull waits for one of each of the
others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

P = TypeVar("P")


class PullTurns(Generic[P]):
    """What is left of each queue that has grown. A queue is added once, and again when it's through."""

    def __init__(self) -> None:
        self._queues: deque[tuple[Hashable, deque[Collection[P]]]] = deque()
        self._names: set[Hashable] = set()

    def __bool__(self) -> bool:
        """Is any left?"""
        return bool(self._queues)

    def __contains__(self, queue: Hashable) -> bool:
        """Has this queue some left?"""
        return queue in self._names

    def add(self, queue: Hashable, connections: Iterable[Collection[P]]) -> None:
        """Have all pulls of a queue looked at. connections: the pulls of each, as they are when it has its first
        turn."""
        lines = deque(connections)
        if lines:
            self._queues.append((queue, lines))
            self._names.add(queue)

    def next(self) -> P | None:
        """Whose turn it is; only if any is left. None if those of a connection are gone meanwhile."""
        queue, lines = self._queues.popleft()
        pulls = lines.popleft()
        line = pulls if isinstance(pulls, deque) else deque(pulls)
        pull = line.popleft() if line else None
        if line:
            lines.append(line)
        if lines:
            self._queues.append((queue, lines))
        else:
            self._names.discard(queue)
        return pull

    def clear(self) -> None:
        """None is left."""
        self._queues.clear()
        self._names.clear()
