"""How much a producer has under way: so many requests in flight, so many bytes waiting for their turn.

Who sends faster than the brokers answer first waits in line, in order; when the line itself is full the send
fails, and `ready()` tells when it isn't.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred, succeed

from hatwisted.client.errors import Closed, ProducerFull


class SendWindow:
    """max_requests: in flight at once; max_bytes: of messages that wait for their turn."""

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._requests = 0
        self._waiting: deque[tuple[int, Deferred[None]]] = deque()
        self._ready: list[Deferred[None]] = []
        self._idle: list[Deferred[None]] = []
        self.waiting_bytes = 0

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return self._requests

    def enter(self, size: int) -> Deferred[None]:
        """Fires when a request may go. Raises ProducerFull."""
        if self._requests < self._max_requests and not self._waiting:
            self._requests += 1
            return succeed(None)
        if self.waiting_bytes and self.waiting_bytes + size > self._max_bytes:
            raise ProducerFull(
                f"{self.waiting_bytes} bytes wait behind {self._requests} requests without answers: "
                "await ready() between sends"
            )
        turn: Deferred[None] = Deferred()
        self._waiting.append((size, turn))
        self.waiting_bytes += size
        return turn

    def leave(self) -> None:
        """A request has its answer."""
        self._requests -= 1
        while self._waiting and self._requests < self._max_requests:
            size, turn = self._waiting.popleft()
            self.waiting_bytes -= size
            self._requests += 1
            turn.callback(None)
        if not self._waiting:
            self._fire(self._ready)
            if not self._requests:
                self._fire(self._idle)

    def ready(self) -> Deferred[None]:
        """Fires when the next request wouldn't wait."""
        if self._requests < self._max_requests and not self._waiting:
            return succeed(None)
        return self._wait(self._ready)

    def idle(self) -> Deferred[None]:
        """Fires when everything has its answer."""
        return self._wait(self._idle) if self._requests or self._waiting else succeed(None)

    def close(self) -> None:
        """Who still waits for a turn gets Closed."""
        waiting, self._waiting = self._waiting, deque()
        self.waiting_bytes = 0
        for _, turn in waiting:
            turn.errback(Closed("the producer was stopped before this message's turn"))

    @staticmethod
    def _wait(line: list[Deferred[None]]) -> Deferred[None]:
        waiter: Deferred[None] = Deferred()
        line.append(waiter)
        return waiter

    @staticmethod
    def _fire(line: list[Deferred[None]]) -> None:
        waiting, line[:] = list(line), []
        for waiter in waiting:
            waiter.callback(None)
