"""Messages of one topic that share requests: which one leads, which go with it, which wait for the next.

An accumulator lets some requests go at once; what comes while they are under way waits, and the next free request
takes all of it that fits. The first message of a batch leads: its sender makes the request and hands out the
results.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from hatwisted.clientcore.errors import Closed
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.sending import SendResult
from hatwisted.clientcore.tasks import Waiter

MAX_BATCH_BYTES: Final = 256 * 1024
MAX_BATCH_MESSAGES: Final = 1000
"""Of a batch that `coalesce` makes; a broker appends it in one go, others wait meanwhile."""
TOPIC_REQUESTS: Final = 4
"""Requests of one topic in flight from which `coalesce` gathers."""


@dataclass(slots=True)
class Batch:
    """Messages for one request; the first one's sender makes it. followers: what the others' senders wait for."""

    messages: list[Message]
    followers: list[Waiter[Batch | SendResult]] = field(default_factory=list)


_Entry = tuple[Message, int, Waiter[Batch | SendResult]]


class Accumulator:
    """Messages of one topic that wait for a request of theirs to be answered, in order.

    requests: under way at a time; max_bytes: of a batch
    """

    def __init__(self, requests: int, max_bytes: int = MAX_BATCH_BYTES) -> None:
        self._free = requests
        self._max_bytes = max_bytes
        self._requests = requests
        self._waiting: deque[_Entry] = deque()

    @property
    def empty(self) -> bool:
        """Nothing waits, nothing is under way."""
        return self._free == self._requests and not self._waiting

    async def turn(self, message: Message, size: int) -> Batch | SendResult:
        """A batch to be sent by the caller, or the result that another sender's batch brought. size: its share
        of a batch; of one that goes alone, more than a batch has."""
        if self._free:
            self._free -= 1
            return Batch([message])
        waiter: Waiter[Batch | SendResult] = Waiter(lambda: self._give_up(entry))
        entry = message, size, waiter
        self._waiting.append(entry)
        return await waiter

    def leave(self) -> None:
        """An answer came: all that fits goes with the next request."""
        if not self._waiting:
            self._free += 1
            return
        first, total, leader = self._waiting.popleft()
        batch = Batch([first])
        while self._waiting and len(batch.messages) < MAX_BATCH_MESSAGES:
            message, size, waiter = self._waiting[0]
            total += size
            if total > self._max_bytes or message.wait != first.wait:
                break
            self._waiting.popleft()
            batch.messages.append(message)
            batch.followers.append(waiter)
        leader.fire(batch)

    def close(self) -> None:
        """Whoever waits gets Closed."""
        waiting, self._waiting = self._waiting, deque()
        for _, _, waiter in waiting:
            waiter.fail(Closed("the producer was stopped before this message was sent"))

    def _give_up(self, entry: _Entry) -> None:
        if entry in self._waiting:
            self._waiting.remove(entry)
