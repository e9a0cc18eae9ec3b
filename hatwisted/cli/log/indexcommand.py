"""Rebuilding consume queues and index from the log, while no broker runs.

The new ones are built beside the old, by the same dispatcher that serves a running broker, and take their
place by a rename once everything is on disk: a rebuild that fails, or is interrupted, leaves the store as it
was.

Not everything in a queue follows from the log: one whose records have all expired still says which queue
offset comes next, and consumers' positions refer to that. Such queues are carried over as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from os.path import basename, dirname, isdir, join
from typing import Final

import msgspec
from twisted.internet.task import Clock

from hatwisted.cli.errors import CannotRun
from hatwisted.cli.log.storesizes import INDEX_FOLDER, QUEUE_FOLDER, StoreFolder
from hatwisted.logcodec.queueentry import place
from hatwisted.logcodec.recordsearch import records_behind, written_end
from hatwisted.store.dispatch.dispatcher import Dispatcher
from hatwisted.store.errors import DamagedLog, StoreError, StoreFull
from hatwisted.store.index.indexservice import IndexOptions, IndexService
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.lifecycle.queueevidence import QueueEvidence
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.logfiles import LogFiles
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable

NEW: Final = ".rebuild"
"""Suffix of what is being built; left behind by an interrupted run, removed by the next."""
OLD: Final = ".replaced"
"""Suffix of what has been replaced, for the moment until it's removed."""
SLICE: Final = 64 << 20
"""Bytes dispatched between two updates of the progress."""


class RebuildReport(msgspec.Struct, rename="camel"):
    """What was built. end: log offset up to which; carried_over: queues without records in the log."""

    directory: str
    end: int
    queues: int
    queue_entries: int
    carried_over: int
    index_files: int


class _WallClock(Clock):
    """The time for whoever only asks for it; nothing is ever called later."""

    def seconds(self) -> float:
        return time.time()


class Rebuild:
    """One rebuild of the store in `folder`, which must be locked. index_shape: (slots, items), None for no
    index; delay_levels: ms by level."""

    def __init__(
        self,
        folder: StoreFolder,
        log: FileQueue,
        queue_file_size: int,
        index_shape: tuple[int, int] | None,
        delay_levels: Sequence[int],
    ) -> None:
        self._fs: IFileSystem = folder.fs
        self._log = log
        root = folder.required_root()
        self._path = folder.path
        self._queue_path, self._index_path = join(root, QUEUE_FOLDER), join(root, INDEX_FOLDER)
        self._remove_leavings()
        clock = _WallClock()
        self._queue_file_size = queue_file_size
        self._queues = ConsumeQueueTable(self._fs, self._queue_path + NEW, queue_file_size)
        # What was deleted stays so.
        self._queues.deleted = ConsumeQueueTable(
            self._fs, self._queue_path, queue_file_size, read_only=True
        ).deleted
        self._queues.deleted.load_all()
        self._index = None
        if index_shape is not None:
            self._index = IndexService(self._fs, self._index_path + NEW, clock, IndexOptions(*index_shape))
        self._dispatcher = Dispatcher(
            LogFiles(log, log.capacity_end), self._queues, self._index, delay_levels, clock
        )

    def run(self, progress: Callable[[int], None]) -> RebuildReport:
        """Build, make durable, swap. DamagedLog if the log has damage in the middle. Whatever fails before
        the swap, the store is as it was."""
        try:
            kept = self._build(progress)
        except BaseException:
            self._close()
            self._remove_leavings()
            raise
        report = self._report(len(kept))
        self._close()
        self._swap(kept)
        return report

    def _build(self, progress: Callable[[int], None]) -> list[tuple[str, int]]:
        """Everything but the swap; the queues to be carried over."""
        self._dispatcher.begin_at(self._log.min_offset)
        while self._dispatch():
            progress(self._dispatcher.reput_offset)
        self._fs.makedirs(self._queue_path + NEW)
        self._queues.write_out()
        self._queues.datasync()
        if self._index is not None:
            self._index.datasync()
        return self._queues_without_records()

    def _report(self, carried_over: int) -> RebuildReport:
        return RebuildReport(
            directory=self._path,
            end=self._dispatcher.reput_offset,
            queues=len(self._queues),
            queue_entries=sum(queue.max_offset - queue.min_offset for queue in self._queues),
            carried_over=carried_over,
            index_files=len(self._index.files) if self._index else 0,
        )

    def _close(self) -> None:
        self._queues.close()
        if self._index is not None:
            self._index.close()

    def _remove_leavings(self) -> None:
        for path in (self._queue_path, self._index_path):
            remove_tree(self._fs, path + NEW)

    def _dispatch(self) -> bool:
        """One slice; False at the log's end."""
        before = self._dispatcher.reput_offset
        try:
            self._dispatcher.dispatch_some(SLICE, 1.0)
        except StoreFull:
            raise
        except StoreError as error:
            return self._go_on_after(error)
        return self._dispatcher.reput_offset > before

    def _go_on_after(self, error: StoreError) -> bool:
        """The dispatcher met no record: that is the log's end, or damage."""
        at, timestamp = self._dispatcher.reput_offset, self._dispatcher.dispatched_timestamp
        end = written_end(self._log, at)
        evidence = QueueEvidence(self._queues)
        for record in records_behind(self._log, at, end):
            if not evidence.was_cut_before(record, at, timestamp):
                path = self._log.path_of(at)
                raise DamagedLog(at, record.physical_offset, end, "no valid record", path) from error
        return False

    def _queues_without_records(self) -> list[tuple[str, int]]:
        """(topic, queue id) of the old queues that the log has no records of any more, only had."""
        old = ConsumeQueueTable(self._fs, self._queue_path, self._queue_file_size, read_only=True)
        old.load_all()
        old.recover()
        names = [(queue.topic, queue.queue_id) for queue in old if self._had_records(queue)]
        old.close()
        return [name for name in names if self._queues.find(*name) is None]

    def _had_records(self, queue: ConsumeQueue) -> bool:
        """Does it count records below the log's begin?"""
        first = queue.read(queue.min_offset, 1)
        return queue.max_offset > 0 and (not first or place(first)[0] < self._log.min_offset)

    def _swap(self, kept: Sequence[tuple[str, int]]) -> None:
        """Put the new folders in the place of the old ones. A crash in between costs queues or index, which
        the next start builds again."""
        with_index = self._fs.exists(self._index_path + NEW)
        paths = [self._queue_path, self._index_path] if with_index else [self._queue_path]
        for path in paths:
            remove_tree(self._fs, path + OLD)
            if self._fs.exists(path):
                self._fs.replace(path, path + OLD)
            self._fs.replace(path + NEW, path)
        self._carry_over(kept)
        self._fs.sync_folder(dirname(self._queue_path))
        for path in paths:
            remove_tree(self._fs, path + OLD)

    def _carry_over(self, names: Sequence[tuple[str, int]]) -> None:
        """Take these queues over from the old folder, without what they say about the log as it is."""
        table = ConsumeQueueTable(self._fs, self._queue_path, self._queue_file_size)
        for topic, queue_id in names:
            folder = join(topic, str(queue_id))
            self._fs.makedirs(join(self._queue_path, topic))
            self._fs.replace(join(self._queue_path + OLD, folder), join(self._queue_path, folder))
            queue = table.get(topic, queue_id)
            queue.load()
            queue.recover()
            queue.truncate(self._log.min_offset)
        table.datasync()
        table.close()


def remove_tree(fs: IFileSystem, path: str) -> None:
    """Remove a folder that one of the suffixes above marks as ours, with all that's in it."""
    if not basename(path).endswith((NEW, OLD)):
        raise CannotRun(f"{path} is not ours to remove")
    if isdir(path):
        _remove_all(fs, path)


def _remove_all(fs: IFileSystem, path: str) -> None:
    for name in fs.listdir(path) if isdir(path) else ():
        _remove_all(fs, join(path, name))
    fs.remove(path)
