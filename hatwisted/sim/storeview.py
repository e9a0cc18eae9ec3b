"""A running broker's store as an inspector sees it: through the store's own reading, and the log's own bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from hatwisted.sim.history import Place, Seen
from hatwisted.sim.simdisk import SimDisk
from hatwisted.store.errors import StoreError
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import CorruptRecord, Record

MANY = 1 << 30
"""Most bytes of one look at a queue: no limit."""

BATCH = 64
"""Messages of one look."""


class LiveStore:
    """A store that is open.

    - name: the machine's
    - store: its store
    - disk: its disk, which spares an inspector its faults
    """

    def __init__(self, name: str, store: MessageStore, disk: SimDisk) -> None:
        self.name = name
        self._store = store
        self._disk = disk

    def log_range(self) -> tuple[int, int]:
        """See StoreView."""
        log = self._store.log
        return log.min_offset, log.max_offset

    def record_at(self, log_offset: int) -> Seen | None:
        """See StoreView."""
        with self._disk.looked_at():
            raw = self._store.look_message(log_offset)
        seen = None if raw is None else _decoded(raw)
        return seen if seen is not None and seen.place.log_offset == log_offset else None

    def queue(self, topic: str, queue_id: int) -> tuple[int, list[Seen | None]]:
        """See StoreView."""
        seen: list[Seen | None] = []
        with self._disk.looked_at():
            first, end = self._store.queue_offsets(topic, queue_id)
            while (offset := first + len(seen)) < end:
                # One at a time once something is wrong: what is sound after it is seen all the same.
                seen += (
                    self._messages(topic, queue_id, offset, BATCH)
                    or self._messages(topic, queue_id, offset, 1)
                    or [None]
                )
        return first, seen

    def indexed(self, topic: str, key: str) -> dict[int, Seen | None] | None:
        """See IndexedStore: what expired with its log file is left out."""
        if self._store.index is None:
            return None
        with self._disk.looked_at():
            offsets = self._store.index.query(topic, key, MANY, 0, MANY << 20)
        return {offset: self.record_at(offset) for offset in offsets if offset >= self._store.log.min_offset}

    def queue_end(self, topic: str, queue_id: int) -> int:
        """The offset of a queue's next message."""
        return self._store.queue_offsets(topic, queue_id)[1]

    def newest(self, topic: str, queue_id: int) -> list[Seen | None]:
        """The last messages of a queue, a BATCH of them."""
        with self._disk.looked_at():
            first, end = self._store.queue_offsets(topic, queue_id)
            return self._messages(topic, queue_id, max(first, end - BATCH), BATCH)

    def _messages(self, topic: str, queue_id: int, offset: int, count: int) -> list[Seen | None]:
        try:
            result: Any = self._store.get_messages(topic, queue_id, offset, count, MANY)
        except StoreError:
            return []  # what a reader is told then is no message
        if result.count != result.next_begin_offset - offset:
            return []
        return list(_records(b"".join(result.buffers)))

    def log_bytes(self, start: int, end: int) -> bytes:
        """See StoreView."""
        log, pieces = self._store.log, []
        with self._disk.looked_at():
            while start < end:
                piece = log.read(start, end - start)
                if not piece:
                    break
                pieces.append(piece)
                start += len(piece)
        return b"".join(pieces)


def _records(blob: bytes) -> Iterator[Seen | None]:
    """Of whole records back to back."""
    start = 0
    while start < len(blob):
        size = int.from_bytes(blob[start : start + 4], "big")
        yield _decoded(blob[start : start + size])
        start += size


@lru_cache(maxsize=1 << 12)
def _decoded(raw: bytes) -> Seen | None:
    """Kept: each check meets the records of those before it."""
    try:
        found = decode_record(raw)
    except CorruptRecord:
        return None
    return _seen(found) if isinstance(found, Record) else None


def _seen(record: Record) -> Seen:
    place = Place(record.topic, record.queue_id, record.queue_offset, record.physical_offset)
    return Seen(place, record.body, record.store_timestamp, record.prepared_transaction_offset)
