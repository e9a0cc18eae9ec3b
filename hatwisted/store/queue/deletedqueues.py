"""Queues of deleted topics: out of service, but kept until the log has lost their records too.

A queue is built from the log, so a queue that is merely removed comes back with the next recovery: the log
still has its records, and what the queues lack is dispatched again. RocketMQ's deleted messages return like
that. Here the folder is moved aside as it is (one rename, whatever the queue's size) and goes on proving that
its records have been in a queue; records below its end are dispatched no more. At 20 bytes a message that
costs a fiftieth of what the log itself keeps of the topic.

The folder lies beside `consumequeue`, where RocketMQ doesn't look: <topic>@<queue id>@<end of its last record>.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os.path import basename, join

from twisted.logger import Logger

from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.wire.storenames import deleted_queue_name, parse_deleted_queue_name


class DeletedQueues:
    """Queues whose topic was deleted, until the log has lost their records.

    - fs: the disk
    - root: the folder they are kept in
    - make: gives the queue in (folder, topic, queue id)
    """

    _log = Logger()

    def __init__(self, fs: IFileSystem, root: str, make: Callable[[str, str, int], ConsumeQueue]) -> None:
        self._fs = fs
        self._make = make
        self._folders: dict[str, ConsumeQueue] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self.root = root

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._folders.values()))

    def reached(self, topic: str, queue_id: int) -> int:
        """Log offset below which no record belongs to a queue of this name any more; 0 if none was
        deleted."""
        return self._ends.get((topic, queue_id), 0)

    @property
    def max_physical(self) -> int:
        """The greatest of these log offsets; 0 without any."""
        return max(self._ends.values(), default=0)

    def load_all(self) -> None:
        """Take stock, as ConsumeQueueTable does; blocks. Folders that aren't named like that are passed
        over."""
        for name in self._fs.listdir(self.root):
            deleted = parse_deleted_queue_name(name)
            if deleted is None:
                continue
            topic, queue_id, end = deleted
            folder = join(self.root, name)
            queue = self._folders[folder] = self._make(folder, topic, queue_id)
            queue.load()
            self._note(topic, queue_id, end)

    def recover(self, synced: int | None = None) -> None:
        """As ConsumeQueueTable's; blocks."""
        for queue in self:
            queue.recover(synced)

    def _note(self, topic: str, queue_id: int, end: int) -> None:
        self._ends[topic, queue_id] = max(end, self.reached(topic, queue_id))

    def take(self, folder: str, topic: str, queue_id: int, end: int) -> None:
        """Move a queue's folder here. Raises OSError; it's then still where it was.

        - folder: the queue's
        - topic: of the queue
        - queue_id: of the queue
        - end: log offset after its last record
        """
        self._fs.makedirs(self.root)
        target = join(self.root, deleted_queue_name(topic, queue_id, end))
        if self._fs.exists(target):
            # As deep into the log has been deleted before: that was cut since.
            self.remove([target])
        self._fs.replace(folder, target)
        queue = self._folders[target] = self._make(target, topic, queue_id)
        queue.load()
        queue.recover()
        self._note(topic, queue_id, end)

    def truncate(self, physical_end: int) -> None:
        """The log has been cut: other records may come to lie where those of the queues lay. The names say so from
        now on, for the starts to come. Blocks. Raises OSError."""
        beyond = [folder for folder in self._folders if _end_of(folder) > physical_end]
        for folder in sorted(beyond, key=_end_of):
            self._folders[folder].truncate(physical_end)
            self._rename(folder, physical_end)
        if beyond:
            self._fs.sync_folder(self.root)
        self._ends = {key: min(end, physical_end) for key, end in self._ends.items()}

    def _rename(self, folder: str, end: int) -> None:
        """Its queue has nothing at or beyond `end` any more. Of several that end there now the first may have
        something left, the later ones nothing."""
        queue = self._folders.pop(folder)
        queue.datasync()
        queue.close()
        target = join(self.root, deleted_queue_name(queue.topic, queue.queue_id, end))
        if not end or self._fs.exists(target):
            self.remove([folder])
            return
        self._fs.replace(folder, target)
        queue = self._folders[target] = self._make(target, queue.topic, queue.queue_id)
        queue.load()
        queue.recover()

    def expired(self, min_physical: int) -> list[str]:
        """Forget the queues whose records have all left the log; their folders, for `remove`."""
        gone = [folder for folder, queue in self._folders.items() if queue.max_physical <= min_physical]
        for folder in gone:
            queue = self._folders.pop(folder)
            queue.close()
            if self.reached(queue.topic, queue.queue_id) <= min_physical:
                self._ends.pop((queue.topic, queue.queue_id), None)
        return gone

    def remove(self, folders: list[str]) -> None:
        """Remove folders with their files. Blocks, may run in another thread; what can't be removed is back
        at the next start."""
        for folder in folders:
            try:
                for name in self._fs.listdir(folder):
                    self._fs.remove(join(folder, name))
                self._fs.remove(folder)
            except OSError as error:
                self._log.warn("{folder} can't be removed: {error}", folder=folder, error=error)

    def close(self) -> None:
        """Close all files."""
        for queue in self:
            queue.close()


def _end_of(folder: str) -> int:
    """By its name, the log offset after the last record of a queue."""
    deleted = parse_deleted_queue_name(basename(folder))
    assert deleted is not None
    return deleted[2]
