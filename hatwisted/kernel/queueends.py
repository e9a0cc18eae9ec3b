"""Where queues end, in Python; `queuemap.pxi` has the compiled twins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hatwisted.kernel.limits import QUEUE_TAIL
from hatwisted.logcodec.queueentry import PLACE
from hatwisted.wire import layout


class QueueTail:
    """Where a queue ends, and the newest of its entries, which gather in memory.

    `max_offset` is the index of the next entry, `max_physical` the end (log offset) of the newest record named
    here, 0 if there is none. To a subclass that keeps files, `_end`, `_written` and `_file_end` are bytes of the
    queue's stream: all of it, what is in files, and what their last one has room for. What is between the first
    two is `_tail`.

    - topic, queue_id: of the queue
    - on_tail: called with it when entries begin to wait in memory
    """

    def __init__(self, topic: str, queue_id: int, on_tail: Callable[[Any], None]) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._on_tail = on_tail
        self._tail = bytearray()
        self.max_offset = self.max_physical = 0
        self._end = self._written = self._file_end = 0

    def gather(self, first_index: int, entries: bytes, physical: int) -> bool:
        """Take entries into the tail if they follow the queue's last one and the tail has room for them;
        otherwise do nothing.

        - first_index: queue offset of the first entry
        - entries: their bytes
        - physical: log offset of the record that the first one names
        """
        tail = self._tail
        waiting = len(tail) + len(entries)
        end = self._written + waiting
        if (
            first_index != self.max_offset
            or physical < self.max_physical
            or waiting > QUEUE_TAIL
            or end > self._file_end
            or len(entries) < layout.QUEUE_ENTRY_SIZE
        ):
            return False
        if not tail:
            self._on_tail(self)
        tail += entries
        self._advance(end, entries)
        return True

    def _advance(self, end: int, entries: bytes) -> None:
        """The stream now ends there, with these as the last."""
        self._end = end
        self.max_offset = end // layout.QUEUE_ENTRY_SIZE
        physical, size = PLACE.unpack_from(entries, len(entries) - layout.QUEUE_ENTRY_SIZE)
        self.max_physical = physical + size


class QueueMap:
    """Queues by topic and queue id. `usual_records` finds them here by the bytes of a record."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], Any] = {}
        self.by_name: Mapping[tuple[str, int], Any] = MappingProxyType(self._queues)

    def put(self, queue: QueueTail) -> None:
        """Add one. KeyError: there is one of its topic and queue id."""
        key = (queue.topic, queue.queue_id)
        if key in self._queues:
            raise KeyError(f"{key} is there")
        self._queues[key] = queue

    def remove(self, queue: QueueTail) -> None:
        """Leave this one out from now on. KeyError: it isn't there."""
        if self._queues.get((queue.topic, queue.queue_id)) is not queue:
            raise KeyError(f"{queue.topic!r}, {queue.queue_id} isn't there")
        del self._queues[queue.topic, queue.queue_id]
