"""The queue offsets that the next messages get.

By topics, each with an array of its queues' offsets: a message to one of thousands of queues then touches two
places that the processor hasn't at hand, where a table of pairs and numbers touched five. The compiled encoder
takes what stands in an array from there.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Final

IN_ARRAY: Final = 1024
"""Queue ids below have a place in their topic's array; a topic has hardly ever more queues."""

QueueKey = tuple[str, int]
"""Topic and queue id."""


class NextOffsets(MutableMapping[QueueKey, int]):
    """The next queue offset of each queue; 0, as those have that had no message, is the same as none.

    offsets: those to begin with
    """

    def __init__(self, offsets: Mapping[QueueKey, int] | None = None) -> None:
        self.topics: dict[str, array[int]] = {}
        """Topic -> offsets by queue id, as far as they're known."""
        self._others: dict[QueueKey, int] = {}
        self.update(offsets or {})

    def __getitem__(self, key: QueueKey) -> int:
        topic, queue_id = key
        offsets = self.topics.get(topic, ())
        if 0 <= queue_id < len(offsets):
            return offsets[queue_id]
        return self._others.get(key, 0)

    def __setitem__(self, key: QueueKey, offset: int) -> None:
        topic, queue_id = key
        if not 0 <= queue_id < IN_ARRAY:
            self._others[key] = offset
            return
        offsets = self.topics.setdefault(topic, array("q"))
        if queue_id >= len(offsets):
            offsets.extend([0] * (queue_id + 1 - len(offsets)))
        offsets[queue_id] = offset

    def __delitem__(self, key: QueueKey) -> None:
        topic, queue_id = key
        self._others.pop(key, None)
        offsets = self.topics.get(topic, ())
        if 0 <= queue_id < len(offsets):
            self[key] = 0
            if not any(offsets):
                del self.topics[topic]

    def __iter__(self) -> Iterator[QueueKey]:
        for topic, offsets in self.topics.items():
            for queue_id, offset in enumerate(offsets):
                if offset:
                    yield topic, queue_id
        yield from (key for key, offset in self._others.items() if offset)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def take(self, topic: str, queue_id: int, count: int) -> int:
        """The offset of the first of some messages, which all have theirs now.

        - topic, queue_id: their queue
        - count: how many they are
        """
        first = self[topic, queue_id]
        self[topic, queue_id] = first + count
        return first
