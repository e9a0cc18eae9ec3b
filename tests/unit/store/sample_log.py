"""Logs, queues and indexes for tests: what a master would have written, and what must come of it by definition."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from twisted.internet.task import Clock

from hatwisted.logcodec.delaylevel import DEFAULT_DELAY_LEVELS, parse_delay_levels
from hatwisted.logcodec.fewscan import Entry, decode_few
from hatwisted.logcodec.scan import Stop, walk
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.dispatch.dispatcher import Dispatcher
from hatwisted.store.index.indexservice import IndexOptions, IndexService
from hatwisted.store.lifecycle.checkpoint import StoreCheckpoint
from hatwisted.store.lifecycle.recovery import RecoveryOptions, RecoveryReport, StoreParts, recover
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire import layout
from hatwisted.wire.record import encode_blank, encode_record, make_record

GOLDEN = Path(__file__).parents[2] / "golden" / "rocketmq-4.9.7"
LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
FILE_SIZE = 65536
"""Bytes of a log file, as in the golden store."""
QUEUE_FILE_SIZE = 2000
SLOTS, ITEMS = 1000, 4000
START_TIME = 1_700_000_000_000
"""Store time of a written log's first record (ms); each next one is 10 ms younger."""


class LogWriter:
    """The bytes a master's commit log gets, record by record, from a file boundary on."""

    def __init__(self, base: int = 0, file_size: int = FILE_SIZE) -> None:
        self.base = base
        self.data = bytearray()
        self.offsets: list[int] = []
        self.later = 0
        """ms by which the next records are stored later than by their number."""
        self._file_size = file_size
        self._queues: dict[tuple[str, int], int] = {}

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def add(
        self,
        topic: str = "TopicA",
        queue_id: int = 0,
        body: bytes = b"body",
        raw: bytes | None = None,
        sys_flag: int = 0,
    ) -> int:
        """Append one record; returns its physical offset. raw: its properties, by default with a UNIQ_KEY,
        two KEYS and a tag."""
        number = len(self.offsets)
        if raw is None:
            raw = b"UNIQ_KEY\x01u%06d\x02KEYS\x01k%d m%d\x02TAGS\x01t%d" % (
                number,
                number,
                number % 3,
                number % 5,
            )
        queued = not sys_flag & layout.SYS_TRANSACTION_PREPARED
        index = self._queues.get((topic, queue_id), 0)
        record = make_record(
            topic,
            body,
            raw_properties=raw,
            queue_id=queue_id,
            queue_offset=index if queued else 0,
            sys_flag=sys_flag,
            store_timestamp=START_TIME + 10 * number + self.later,
        )
        room = self._file_size - self.end % self._file_size
        if record.total_size + 8 > room:
            self.data += encode_blank(room) + bytes(room - 8)
        self.offsets.append(self.end)
        encoded = encode_record(record)
        self.data += encoded[:28] + self.end.to_bytes(8, "big") + encoded[36:]
        if queued:
            self._queues[topic, queue_id] = index + 1
        return self.offsets[-1]

    def fill(self, count: int, topics: int = 2, queues: int = 3, body: int = 40) -> LogWriter:
        """Append `count` records spread over topics and queues."""
        for number in range(count):
            topic, queue_id = f"Topic{number % topics}", number // topics % queues
            self.add(topic, queue_id, bytes([number % 251]) * (body + number % 7))
        return self

    def fill_files(self, files: int) -> LogWriter:
        """Append records until the log reaches into its `files`-th file."""
        while self.end < self.base + (files - 1) * self._file_size + 3000:
            self.fill(20)
        return self

    def save(self, folder: str) -> None:
        """Write the log's files, of full length."""
        os.makedirs(folder, exist_ok=True)
        for at in range(0, len(self.data), self._file_size):
            piece = bytes(self.data[at : at + self._file_size]).ljust(self._file_size, b"\0")
            Path(folder, layout.file_name(self.base + at)).write_bytes(piece)


def entries_of(data: bytes, base: int = 0, file_size: int = FILE_SIZE) -> list[Entry]:
    """All records of a log, one by one."""
    entries: list[Entry] = []
    for start in range(0, len(data), file_size):
        piece = data[start : start + file_size]
        positions, end = walk(piece, 0, 1 << 20)
        entries += decode_few(piece, base + start, positions, end, LEVELS)[0]
        assert end.stop is not Stop.CORRUPT
    return entries


def queues_of(entries: list[Entry]) -> dict[tuple[str, int], bytes]:
    """What each queue must hold, by definition: its records in log order."""
    queues: dict[tuple[str, int], bytes] = {}
    for entry in entries:
        if not entry.sys_flag & layout.SYS_TRANSACTION_PREPARED:
            key = (entry.topic, entry.queue_id)
            packed = layout.QUEUE_ENTRY.pack(entry.physical_offset, entry.size, entry.tags_code)
            queues[key] = queues.get(key, b"") + packed
    return queues


def items_of(entries: list[Entry]) -> list[tuple[int, int]]:
    """(hash, physical offset) of every index item, in order."""
    return [(value, entry.physical_offset) for entry in entries for value in entry.key_hashes]


class SampleStore:
    """The parts of a store in one folder, put together as a broker does it."""

    def __init__(
        self,
        root: str,
        *,
        file_size: int = FILE_SIZE,
        queue_file_size: int = QUEUE_FILE_SIZE,
        index: bool = True,
        worker: object = None,
    ) -> None:
        self.root = root
        self.clock = Clock()
        self.clock.advance(START_TIME / 1000)
        fs = PosixFileSystem()
        worker = InlineWorker() if worker is None else worker
        self.files = FileQueue(fs, os.path.join(root, "commitlog"), file_size)
        self.queues = ConsumeQueueTable(fs, os.path.join(root, "consumequeue"), queue_file_size)
        self.index: IndexService | None = None
        if index:
            self.index = IndexService(
                fs,
                os.path.join(root, "index"),
                self.clock,
                IndexOptions(slots=SLOTS, items=ITEMS, local_time=datetime.fromtimestamp),
                worker,
            )  # type: ignore[arg-type]
        self.checkpoint = StoreCheckpoint(fs, os.path.join(root, "checkpoint"))
        self.files.load()
        self.queues.load_all()
        if self.index is not None:
            self.index.load()
        self.checkpoint.load()
        self.log = CommitLog(self.files, self.clock, worker, bytes(8))  # type: ignore[arg-type]
        self.arrivals: list[tuple[str, int, int]] = []
        self.dispatcher = Dispatcher(
            *(self.log, self.queues, self.index, LEVELS, self.clock),
            lambda topic, queue_id, max_offset: self.arrivals.append((topic, queue_id, max_offset)),
        )

    def recover(
        self, *, unclean: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> RecoveryReport:
        return recover(
            self.parts,
            RecoveryOptions(unclean=unclean),
            keep_aside=lambda begin, end: f"{begin}-{end}",
            progress=progress or (lambda done, total: None),
        )

    @property
    def parts(self) -> StoreParts:
        return StoreParts(self.log, self.queues, self.index, self.checkpoint, self.dispatcher)

    def dispatch_all(self) -> None:
        while self.dispatcher.dispatch_some(1 << 30, 60):
            pass

    def close(self) -> None:
        self.files.close()
        self.queues.close()
        if self.index is not None:
            self.index.close()

    def contents(self) -> dict[tuple[str, int], bytes]:
        """Every queue's entries in use."""
        found = {}
        for queue in self.queues:
            if queue.max_offset > queue.min_offset:
                count = queue.max_offset - queue.min_offset
                found[queue.topic, queue.queue_id] = queue.read(queue.min_offset, count)
        return found

    def items(self) -> list[tuple[int, int]]:
        """(hash, physical offset) of every index item, read back from the files."""
        found = []
        for file in self.index.files if self.index is not None else []:
            raw = Path(file.path).read_bytes()
            for number in range(1, file.count):
                at = 40 + 4 * SLOTS + 20 * number
                found.append(
                    (int.from_bytes(raw[at : at + 4], "big"), int.from_bytes(raw[at + 4 : at + 12], "big"))
                )
        return found
