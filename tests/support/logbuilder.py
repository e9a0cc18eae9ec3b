"""Commit logs as a broker lays them out, record by record: the one way in which tests make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import msgspec

from hatwisted.wire import layout
from hatwisted.wire.record import encode_blank, encode_record, make_record
from hatwisted.wire.storedrecord import Record

FILE_SIZE = 65536
"""Bytes of a log file, as in the golden store."""
START_TIME = 1_700_000_000_000
"""Store time of a log's first record (ms)."""
STEP = 10
"""ms by which each next one is younger."""


class LogBuilder:
    """The bytes of a log from `base` on, a file's start. Each record follows the one before; where its file has
    no room left, a blank record fills that first."""

    def __init__(self, base: int = 0, file_size: int = FILE_SIZE) -> None:
        self.base = base
        self.data = bytearray()
        self.records: list[Record] = []
        self.later = 0
        """ms by which the next records are stored later than by their number."""
        self._file_size = file_size
        self._queues: dict[tuple[str, int], int] = {}

    @property
    def end(self) -> int:
        """Where the log ends."""
        return self.base + len(self.data)

    @property
    def offsets(self) -> list[int]:
        """Where each record begins."""
        return [record.physical_offset for record in self.records]

    def place(self, record: Record) -> Record:
        """Append `record` as it is but for its place; as it then lies there."""
        room = self._file_size - self.end % self._file_size
        if record.total_size + layout.BLANK_MIN_SIZE > room:
            self.data += encode_blank(room).ljust(room, b"\0")
        placed = msgspec.structs.replace(record, physical_offset=self.end)
        self.data += encode_record(placed)
        self.records.append(placed)
        return placed

    def add(
        self,
        topic: str = "TopicA",
        queue_id: int = 0,
        body: bytes = b"body",
        raw: bytes | None = None,
        **fields: Any,
    ) -> Record:
        """Append the next record of a queue.

        - topic, queue_id: the queue
        - body: the message
        - raw: its properties, by default a UNIQ_KEY, two KEYS and a tag
        - fields: others, as of `make_record`
        """
        number = len(self.records)
        if raw is None:
            keys = number, number, number % 3, number % 5
            raw = b"UNIQ_KEY\x01u%06d\x02KEYS\x01k%d m%d\x02TAGS\x01t%d" % keys
        queued = not fields.get("sys_flag", 0) & layout.SYS_TRANSACTION_PREPARED
        index = self._queues.get((topic, queue_id), 0) if queued else 0
        made: dict[str, Any] = {
            "raw_properties": raw,
            "queue_id": queue_id,
            "queue_offset": index,
            "store_timestamp": START_TIME + STEP * number + self.later,
        }
        if queued:
            self._queues[topic, queue_id] = index + 1
        return self.place(make_record(topic, body, **made | fields))

    def fill(self, count: int, topics: int = 2, queues: int = 3, body: int = 40) -> Self:
        """Append `count` records.

        - count: how many
        - topics, queues: over how many, in turn
        - body: bytes of each, or a few more
        """
        for number in range(count):
            topic, queue_id = f"Topic{number % topics}", number // topics % queues
            self.add(topic, queue_id, bytes([number % 251]) * (body + number % 7))
        return self

    def fill_files(self, files: int) -> Self:
        """Append records until the log reaches into its `files`-th file."""
        while self.end < self.base + (files - 1) * self._file_size + 3000:
            self.fill(20)
        return self

    def files(self) -> dict[int, bytes]:
        """The log's files, of full length, by their first offset; at least one."""
        return cut_in_files(bytes(self.data), self.base, self._file_size)

    def save(self, store: Path) -> Path:
        """Write the files into a store's folder, which is given back."""
        return save_log(store, bytes(self.data), base=self.base, file_size=self._file_size)


def save_log(store: Path, data: bytes, *, base: int = 0, file_size: int = FILE_SIZE) -> Path:
    """Write a log into a store's folder, which is given back.

    - store: the folder
    - data: the log's bytes
    - base: where they begin, a file's start
    - file_size: bytes of a file
    """
    folder = store / "commitlog"
    folder.mkdir(parents=True, exist_ok=True)
    for start, piece in cut_in_files(data, base, file_size).items():
        (folder / layout.file_name(start)).write_bytes(piece)
    return store


def cut_in_files(data: bytes, base: int, file_size: int) -> dict[int, bytes]:
    """The pieces of a log, filled up with zeros, by their first offset; at least one.

    - data: the log's bytes
    - base: where they begin, a file's start
    - file_size: bytes of a file
    """
    return {
        base + at: data[at : at + file_size].ljust(file_size, b"\0")
        for at in range(0, max(1, len(data)), file_size)
    }
