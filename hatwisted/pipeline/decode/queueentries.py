"""What a store's consume queues say of a record: an entry is only ever made for one that the chain has led to.

Read without the store's own code, one entry at a time, since a store may be anywhere that fsspec reaches.
"""

from __future__ import annotations

from hatwisted.logcodec.queueentry import ENTRY_SIZE, PLACE
from hatwisted.pipeline.decode import storebytes
from hatwisted.pipeline.errors import PipelineError
from hatwisted.wire import layout
from hatwisted.wire.layout import parse_file_name
from hatwisted.wire.storedrecord import Record
from hatwisted.wire.storenames import LOG_FOLDER, QUEUE_FOLDER, is_queue_name


class QueueEntries:
    """Of the store in a folder (its root, or its log's folder)."""

    def __init__(self, path: str) -> None:
        head, _, name = path.rstrip("/").rpartition("/")
        self._folder = storebytes.join(head if name == LOG_FOLDER else path, QUEUE_FOLDER)

    def knows(self, record: Record) -> bool | None:
        """Does the record's queue name it? None: that can't be said, as the store has no queues, or no entry is
        made for such a record.
        """
        if record.sys_flag & layout.SYS_UNQUEUED or not is_queue_name(record.topic, record.queue_id):
            return None
        folder = storebytes.join(storebytes.join(self._folder, record.topic), str(record.queue_id))
        files = storebytes.list_folder(folder)
        if files is None:
            return None
        at = record.queue_offset * ENTRY_SIZE
        for name, size in files:
            base = parse_file_name(name)
            if base is not None and size is not None and base <= at < base + size:
                return self._is_at(storebytes.join(folder, name), at - base, record)
        return False

    def _is_at(self, path: str, position: int, record: Record) -> bool:
        try:
            with storebytes.open_file(path) as file:
                entry = storebytes.read(file, position, ENTRY_SIZE)
        except PipelineError:
            return False  # it was deleted since it was listed
        return len(entry) == ENTRY_SIZE and PLACE.unpack_from(entry) == (
            record.physical_offset,
            record.total_size,
        )
