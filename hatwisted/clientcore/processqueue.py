"""What was read of one queue and isn't consumed yet (RocketMQ's ProcessQueue): a bounded buffer, and its progress.

The progress is the first message that hasn't been settled, so what is in the buffer when a program dies is
delivered again. A queue that has lost its tail is read again from an earlier place: then that is the progress,
whatever the program still has in hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.wire.messagequeue import MessageQueue


class ProcessQueue:
    """Messages of a queue that are read and not settled.

    - queue: which
    - start: offset of the first message to read
    - max_messages, max_bytes: held at a time
    """

    def __init__(self, queue: MessageQueue, start: int, max_messages: int, max_bytes: int) -> None:
        self.queue = queue
        self.dropped = False
        self.next = start
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._buffer: deque[ReceivedMessage] = deque()
        self._taken: list[ReceivedMessage] = []
        self._bytes = 0

    @property
    def progress(self) -> int:
        """The offset to go on from after a restart."""
        return min(self._taken[0].queue_offset, self._ahead) if self._taken else self._ahead

    @property
    def _ahead(self) -> int:
        """The first offset that wasn't taken."""
        return self._buffer[0].queue_offset if self._buffer else self.next

    @property
    def buffered(self) -> int:
        """Messages read and not yet settled."""
        return len(self._buffer) + len(self._taken)

    @property
    def buffered_bytes(self) -> int:
        """Their size."""
        return self._bytes

    @property
    def last_buffered(self) -> int:
        """Offset of the last of them; `progress` is the first."""
        held = self._buffer or self._taken
        return held[-1].queue_offset if held else self.progress

    @property
    def has_room(self) -> bool:
        """May more be read?"""
        return self.buffered < self._max_messages and self._bytes < self._max_bytes

    @property
    def waiting(self) -> bool:
        """Is there something that wasn't taken?"""
        return bool(self._buffer)

    def fill(self, messages: Iterable[ReceivedMessage]) -> None:
        """Put what was read after the rest."""
        for message in messages:
            self._buffer.append(message)
            self._bytes += message.size

    def go_back(self, offset: int) -> None:
        """Read on from an earlier place: what the buffer has from there on comes again, or is no more."""
        while self._buffer and self._buffer[-1].queue_offset >= offset:
            self._bytes -= self._buffer.pop().size
        self.next = offset

    def take(self, count: int) -> list[ReceivedMessage]:
        """Up to `count` messages in order, none if nothing is there; what was taken and not settled, again."""
        if not self._taken:
            self._taken = [self._buffer.popleft() for _ in range(min(count, len(self._buffer)))]
        return self._taken

    def settle(self, rest: Sequence[ReceivedMessage] = ()) -> None:
        """What was taken is done with, but for `rest`, the end of it, which comes again: of that, what is read
        again anyway, since the queue has gone back meanwhile, only in its turn."""
        self._bytes -= sum(message.size for message in self._taken)
        self._taken = []
        rest = [message for message in rest if message.queue_offset < self._ahead]
        if self.dropped:
            self.next = rest[0].queue_offset if rest else self.next
        else:
            self._bytes += sum(message.size for message in rest)
            self._buffer.extendleft(reversed(rest))

    def drop(self) -> None:
        """It's another member's now: what wasn't taken is forgotten; `progress` stays right."""
        self.dropped = True
        if self._buffer:
            self.next = self._buffer[0].queue_offset
            self._bytes -= sum(message.size for message in self._buffer)
            self._buffer.clear()
