"""Messages of one topic that share requests: who leads, who goes along, who waits for the next.

A lane lets some requests go at once; what comes while they are under way waits, and the next free request takes
all of it that fits. The first message of a batch leads: its sender makes the request and hands out the results.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from twisted.internet.defer import Deferred, succeed

from hatwisted.client.errors import Closed
from hatwisted.client.message import Message
from hatwisted.client.sending import SendResult

MAX_BATCH_BYTES: Final = 256 * 1024
MAX_BATCH_MESSAGES: Final = 1000
"""Of a batch that `coalesce` makes; a broker appends it in one go, others wait meanwhile."""
LANE_REQUESTS: Final = 4
"""Requests of one topic in flight from which `coalesce` gathers."""

Batch = list[tuple[Message, "Deferred[Batch | SendResult]"]]


class Lane:
    """Messages of one topic that wait for a request of theirs to be answered, in order."""

    def __init__(self, requests: int) -> None:
        self._free = requests
        self._requests = requests
        self._waiting: deque[tuple[Message, int, Deferred[Batch | SendResult]]] = deque()

    @property
    def empty(self) -> bool:
        """Nothing waits, nothing is under way."""
        return self._free == self._requests and not self._waiting

    def turn(self, message: Message, size: int) -> Deferred[Batch | SendResult]:
        """Fires with a batch to be sent by the caller, or with the result somebody else's batch brought."""
        waiter: Deferred[Batch | SendResult] = Deferred()
        if self._free:
            self._free -= 1
            return succeed([(message, waiter)])
        self._waiting.append((message, size, waiter))
        return waiter

    def leave(self) -> None:
        """An answer came: all that fits goes with the next request."""
        if not self._waiting:
            self._free += 1
            return
        batch: Batch = []
        total = 0
        while self._waiting and len(batch) < MAX_BATCH_MESSAGES:
            message, size, waiter = self._waiting[0]
            if batch and total + size > MAX_BATCH_BYTES:
                break
            self._waiting.popleft()
            batch.append((message, waiter))
            total += size
        batch[0][1].callback(batch)

    def close(self) -> None:
        """Who waits gets Closed."""
        waiting, self._waiting = self._waiting, deque()
        for _, _, waiter in waiting:
            waiter.errback(Closed("the producer was stopped before this message's turn"))
