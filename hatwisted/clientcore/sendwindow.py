"""How much a producer has under way: requests in flight, bytes waiting for their turn.

Whoever sends faster than the brokers answer first waits in line, in order; when the line itself is full the send
fails, and `ready()` fires when it isn't.
"""

from __future__ import annotations

from collections import deque

from hatwisted.clientcore.errors import Closed, ProducerFull
from hatwisted.clientcore.tasks import Waiter


class SendWindow:
    """max_requests: in flight at once; max_bytes: of messages that wait for their turn."""

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._requests = 0
        self._waiting: deque[tuple[int, Waiter[None]]] = deque()
        self._ready: deque[Waiter[None]] = deque()
        self._idle: list[Waiter[None]] = []
        self.waiting_bytes = 0

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return self._requests

    @property
    def _has_room(self) -> bool:
        return self._requests < self._max_requests and not self._waiting

    async def enter(self, size: int) -> None:
        """Returns when a request may go. Raises ProducerFull."""
        if self._has_room:
            self._requests += 1
            return
        if self.waiting_bytes and self.waiting_bytes + size > self._max_bytes:
            raise ProducerFull(
                f"{self.waiting_bytes} bytes wait behind {self._requests} requests without answers: "
                "await ready() between sends"
            )
        turn: Waiter[None] = Waiter(lambda: self._give_up(size, turn))
        self._waiting.append((size, turn))
        self.waiting_bytes += size
        await turn

    def leave(self) -> None:
        """A request has its answer."""
        self._requests -= 1
        while self._waiting and self._requests < self._max_requests:
            size, turn = self._waiting.popleft()
            self.waiting_bytes -= size
            self._requests += 1
            turn.fire(None)
        while self._ready and self._has_room:
            # Whoever is woken may take the place: the others are woken for the next one.
            self._ready.popleft().fire(None)
        if not self._requests and not self._waiting:
            idle, self._idle = self._idle, []
            for waiter in idle:
                waiter.fire(None)

    async def ready(self) -> None:
        """Returns when the next request wouldn't wait."""
        if not self._has_room:
            waiter: Waiter[None] = Waiter()
            self._ready.append(waiter)
            await waiter

    async def idle(self) -> None:
        """Returns when everything has its answer."""
        if self._requests or self._waiting:
            waiter: Waiter[None] = Waiter()
            self._idle.append(waiter)
            await waiter

    def close(self) -> None:
        """Whoever still waits for a turn gets Closed."""
        waiting, self._waiting = self._waiting, deque()
        self.waiting_bytes = 0
        for _, turn in waiting:
            turn.fail(Closed("the producer was stopped before this message was sent"))

    def _give_up(self, size: int, turn: Waiter[None]) -> None:
        self._waiting.remove((size, turn))
        self.waiting_bytes -= size
