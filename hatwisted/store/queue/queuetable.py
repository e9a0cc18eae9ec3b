"""All consume queues of a store, those of deleted topics beside them.

Queues are many (thousands) and mostly idle: they share a bounded set of descriptors, and are synced one by one
only while few have something new. The table knows which queues have entries waiting in memory, in the order in
which they began to, and has them written a few at a time; see `queuewriter`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from os.path import join

from twisted.logger import Logger

from hatwisted.kernel import QueueMap
from hatwisted.logcodec.queueentry import DEFAULT_FILE_SIZE, ENTRY_SIZE, PLACE
from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.openfiles import OpenFiles
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.store.queue.deletedqueues import DeletedQueues, ending_by
from hatwisted.wire.storenames import DELETED_SUFFIX, is_queue_name

OPEN_QUEUE_FILES = 4096
"""Descriptors that all queues together keep open; a queue beyond that pays one open (some 5 us) per append.
If the process has fewer, `OpenFiles` gives back half of its own whenever it runs out."""

SYNC_ALL_FROM = 64
"""Queues with something new from which on the whole file system is synced in their stead: one call instead of
one to three a queue, each of which waits for the disk."""


class ConsumeQueueTable:
    """All consume queues of a store, in `root`/<topic>/<queue id>.

    - fs: the disk
    - root: the folder
    - file_size: bytes per queue file, rounded up to whole entries
    - read_only: for inspecting a store in use
    - open_files: how many of all queues' files are open at a time
    """

    _log = Logger()

    def __init__(
        self,
        fs: IFileSystem,
        root: str,
        file_size: int = DEFAULT_FILE_SIZE,
        *,
        read_only: bool = False,
        open_files: int = OPEN_QUEUE_FILES,
    ) -> None:
        self._fs = fs
        self._root = root
        self._file_size = -(-file_size // ENTRY_SIZE) * ENTRY_SIZE
        self._read_only = read_only
        self._open = OpenFiles(fs, open_files, read_only)
        self.map = QueueMap()
        """All queues in service, as the kernel finds them."""
        self._queues: Mapping[tuple[str, int], ConsumeQueue] = self.map.by_name
        self._tails: dict[ConsumeQueue, None] = {}
        self._tails_watcher: Callable[[], None] = lambda: None
        self.deleted = DeletedQueues(fs, root + DELETED_SUFFIX, self._over)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def with_deleted(self) -> tuple[ConsumeQueue, ...]:
        """All queues, those of deleted topics too."""
        return (*self, *self.deleted)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, if there is one: asking makes none."""
        return self._queues.get((topic, queue_id))

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue; made if there's none, its folder with the first entry. StoreError for a topic that
        can't be the name of a folder: it came out of the log and may be anything."""
        queue = self._queues.get((topic, queue_id))
        return self._made(topic, queue_id) if queue is None else queue

    def append(self, topic: str, queue_id: int, first_index: int, entries: bytes) -> ConsumeQueue:
        """Add entries to a queue, made if there's none. One whose topic was deleted elsewhere and created again is
        set aside before: its records aren't missing, as they would seem to each start to be.

        - topic, queue_id: of the queue
        - first_index, entries: see ConsumeQueue.append, also for what it raises
        """
        queue = self.get(topic, queue_id)
        if queue.starts_over(first_index, entries):
            self._log.info("{queue} starts over: its topic was deleted and created again", queue=queue)
            self.delete(queue)
            queue = self.get(topic, queue_id)
        queue.append(first_index, entries)
        return queue

    def complete_to(self, topic: str, queue_id: int) -> int:
        """Log offset below which the queue has all its records, and deleted ones of its name have theirs."""
        complete, deleted = self.deleted.complete_to(topic, queue_id), self.deleted.reached(topic, queue_id)
        queue = self.find(topic, queue_id)
        return complete if queue is None or complete < deleted else max(deleted, queue.max_physical)

    def known(self, topic: str, queue_id: int, first_index: int, entries: bytes) -> int:
        """How many of the first of a run of entries aren't to be added to a queue: it has them, or they belong to
        deleted ones of its name, which get what they lack.

        - topic, queue_id: of the queue
        - first_index, entries: see ConsumeQueue.append, also for what it raises
        """
        known, (offset, _) = 0, PLACE.unpack_from(entries)
        if offset < self.deleted.reached(topic, queue_id):
            known = self.deleted.give_back(topic, queue_id, first_index, entries)
        queue = self.find(topic, queue_id)
        if queue is not None and offset < queue.max_physical:
            known = max(known, ending_by(entries, queue.max_physical))
        return known

    def _made(self, topic: str, queue_id: int) -> ConsumeQueue:
        """A queue that there wasn't, in service from now on."""
        if not is_queue_name(topic, queue_id):
            raise StoreError(f"topic {topic!r}, queue id {queue_id}: no folder can have such a name")
        queue = self._over(join(self._root, topic, str(queue_id)), topic, queue_id)
        self.map.put(queue)
        return queue

    def _over(self, folder: str, topic: str, queue_id: int) -> ConsumeQueue:
        files = FileQueue(
            self._fs,
            folder,
            self._file_size,
            reserve=False,
            read_only=self._read_only,
            open_files=self._open,
        )
        return ConsumeQueue(files, topic, queue_id, read_only=self._read_only, on_tail=self._tail_begun)

    def watch_tails(self, watcher: Callable[[], None]) -> None:
        """`watcher()` when entries begin to wait in memory, after none did."""
        self._tails_watcher = watcher

    def _tail_begun(self, queue: ConsumeQueue) -> None:
        if not self._tails:
            self._tails_watcher()
        self._tails[queue] = None

    @property
    def tails(self) -> int:
        """Most queues that have entries waiting in memory."""
        return len(self._tails)

    def write_out(self, count: int | None = None) -> None:
        """Write the entries that wait in memory: of the `count` queues that have had some for longest, or of
        all. Raises StoreFull or another OSError; what couldn't be written goes on waiting."""
        for queue in list(islice(self._tails, count)):
            del self._tails[queue]
            try:
                queue.write_out()
            except BaseException:
                self._tails[queue] = None  # after the others: they may fare better
                raise

    def load_all(self) -> None:
        """Load every queue folder; other names are ignored, as RocketMQ does. WrongFile for a folder that
        can't be loaded. Bounds are known after `recover`."""
        for topic, queue_id in self.stored():
            self._made(topic, queue_id).load()
        self.deleted.load_all()

    def stored(self) -> Iterator[tuple[str, int]]:
        """Topic and queue id of each queue that has a folder, in service or not."""
        for topic in self._fs.listdir(self._root):
            for name in self._queue_folders(topic):
                yield topic, int(name)

    def _queue_folders(self, topic: str) -> list[str]:
        try:
            names = self._fs.listdir(join(self._root, topic))
        except NotADirectoryError:
            return []
        numbers = [name for name in names if name.isascii() and name.isdigit() and str(int(name)) == name]
        return [name for name in numbers if is_queue_name(topic, int(name))]

    def recover(self, synced: int | None = None) -> None:
        """Find every queue's end. synced: log offset up to which what the queues say is known to have been synced;
        None: all that was written can be read."""
        for queue in self:
            queue.recover(synced)
        self.deleted.recover(synced)

    def truncate(self, physical_end: int, believed: int | None = None) -> None:
        """Cut every queue to the log's end. believed: log offset up to which what the queues say is known to have
        been synced; what lies after it will be dispatched again, and is cut as well."""
        end = physical_end if believed is None else min(believed, physical_end)
        for queue in self:
            queue.truncate(end)
        self.deleted.truncate(physical_end, end)

    def write_again(self, physical: int) -> None:
        """Write again what queues say of records that end after `physical` (log offset), as ConsumeQueue does."""
        for queue in self:
            queue.write_again(physical)

    def expire(self, min_physical: int) -> None:
        """Raise every queue's `min_offset` to the log's start, and remove files without a live entry and deleted
        queues without one. Blocks."""
        for queue in self:
            for path in queue.expire(min_physical):
                self._fs.remove(path)
        self.deleted.remove(self.deleted.expired(min_physical))

    def destroy(self) -> None:
        """Remove all files: there's no log."""
        for queue in self:
            queue.destroy()
        self.deleted.truncate(0, 0)

    def delete(self, queue: ConsumeQueue) -> None:
        """Take a queue out of service, see DeletedQueues. OSError: it's still in service."""
        queue.write_out()
        if self._fs.exists(queue.folder):
            self.deleted.take(queue.folder, queue.topic, queue.queue_id, queue.max_physical)
        self.map.remove(queue)
        queue.abandon()

    def datasync(self) -> None:
        """Make everything durable that's in files by now. Blocks, may run in another thread."""
        unsynced = [(queue, mark) for queue in self.with_deleted if (mark := queue.unsynced) is not None]
        if len(unsynced) > SYNC_ALL_FROM:
            self._fs.sync_all(self._root)
            for queue, mark in unsynced:
                queue.synced(mark)
            return
        for queue, _ in unsynced:
            try:
                queue.datasync()
            except (FileNotFoundError, StoreError):
                # A deleted queue's records may leave the log meanwhile, and it with them.
                if self.find(queue.topic, queue.queue_id) is queue:
                    raise

    def offsets(self) -> dict[tuple[str, int], int]:
        """Next queue offset by topic and queue id."""
        return {key: queue.max_offset for key, queue in self._queues.items()}

    @property
    def max_physical(self) -> int:
        """End (log offset) of the newest record that any queue names, deleted or not; 0 if none does."""
        return max((queue.max_physical for queue in self.with_deleted), default=0)

    def close(self) -> None:
        """Close all files, with everything in them if there is room for it."""
        with contextlib.suppress(OSError, StoreError):
            self.write_out()
        self.close_files()

    def close_files(self) -> None:
        """Close all files as they are."""
        for queue in self.with_deleted:
            queue.close()
