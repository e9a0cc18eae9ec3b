"""Stores for tests, and what must come of a log in queues and index by definition."""

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
from tests.support.logbuilder import FILE_SIZE, START_TIME

LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
QUEUE_FILE_SIZE = 2000
SLOTS, ITEMS = 1000, 4000


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
            lambda grown: self.arrivals.extend(
                (queue.topic, queue.queue_id, queue.max_offset) for queue in grown
            ),
        )

    def recover(
        self,
        *,
        unclean: bool = False,
        index_safe: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> RecoveryReport:
        return recover(
            self.parts,
            RecoveryOptions(unclean=unclean, index_safe=index_safe),
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
