"""Queues of deleted topics: out of service, but kept until the log has lost their records too.

A queue is built from the log, so a queue that is merely removed comes back with the next recovery: the log
still has its records, and what the queues lack is dispatched again. RocketMQ's deleted messages return like
that. Here the folder is moved aside as it is (one rename, whatever the queue's size) and goes on proving that
its records have been in a queue; records below its end are dispatched no more. At 20 bytes a message that
costs a fiftieth of what the log itself keeps of the topic.

The folder lies beside `consumequeue`, where RocketMQ doesn't look: <topic>@<queue id>@<end of its last record>.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from operator import itemgetter
from os.path import basename, join

from twisted.logger import Logger

from hatwisted.logcodec.queueentry import ENTRY_SIZE, first_reaching
from hatwisted.store.errors import StoreError
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
        self._lives: dict[tuple[str, int], list[tuple[int, ConsumeQueue]]] = {}
        """(log offset after its last record, queue) of those of each name, in log order."""
        self.root = root

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._folders.values()))

    def reached(self, topic: str, queue_id: int) -> int:
        """Log offset below which no record belongs to a queue of this name any more; 0 if none was
        deleted."""
        lives = self._lives.get((topic, queue_id))
        return lives[-1][0] if lives else 0

    def complete_to(self, topic: str, queue_id: int) -> int:
        """The same, or where the first of these queues ends that lacks entries: a power failure has taken them,
        unless their records are gone as well."""
        for end, queue in self._lives.get((topic, queue_id), ()):
            if queue.max_physical < end:
                return queue.max_physical
        return self.reached(topic, queue_id)

    def give_back(self, topic: str, queue_id: int, first_index: int, entries: bytes) -> int:
        """Add what these queues lack of a run of entries; how many of the first ones are theirs. They prove that
        the records have been in a queue, and the next start looks for that.

        - topic, queue_id: of the queue
        - first_index, entries: see ConsumeQueue.append, also for what it raises
        """
        done = 0
        for end, queue in self._lives.get((topic, queue_id), ()):
            known = max(done, ending_by(entries, queue.max_physical))
            done = max(known, ending_by(entries, end))
            if known < done:
                queue.append(first_index + known, entries[known * ENTRY_SIZE : done * ENTRY_SIZE])
        return done

    @property
    def max_physical(self) -> int:
        """The greatest of these log offsets; 0 without any."""
        return max((lives[-1][0] for lives in self._lives.values()), default=0)

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
            self._note(queue, end)

    def recover(self, synced: int | None = None) -> None:
        """As ConsumeQueueTable's; blocks."""
        for queue in self:
            queue.recover(synced)

    def _note(self, queue: ConsumeQueue, end: int) -> None:
        insort(self._lives.setdefault((queue.topic, queue.queue_id), []), (end, queue), key=itemgetter(0))

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
        queue = self._make(target, topic, queue_id)
        try:
            queue.load()
            queue.recover()
        except (OSError, StoreError):
            queue.close()
            self._fs.replace(target, folder)
            raise
        self._folders[target] = queue
        self._note(queue, end)

    def truncate(self, physical_end: int, believed: int) -> None:
        """The log has been cut: other records may come to lie where those of the queues lay. The names say so from
        now on, for the starts to come. Blocks. Raises OSError.

        - physical_end: the log's
        - believed: what the queues say of records that end after it is cut as well, to be given back
        """
        beyond = [folder for folder in self._folders if _end_of(folder) > physical_end]
        for folder in sorted(beyond, key=_end_of):
            self._folders[folder].truncate(physical_end)
            self._rename(folder, physical_end)
        if beyond:
            self._fs.sync_folder(self.root)
            self._lives = {}
            for folder, queue in self._folders.items():
                self._note(queue, _end_of(folder))
        for queue in self:
            queue.truncate(believed)

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
            lives = self._lives[queue.topic, queue.queue_id]
            lives[:] = [life for life in lives if life[1] is not queue]
        self._lives = {key: lives for key, lives in self._lives.items() if lives}
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


def ending_by(entries: bytes, physical_end: int) -> int:
    """How many entries of a run name records that end at or below a log offset."""
    return first_reaching(entries, 1, physical_end + 1)


def _end_of(folder: str) -> int:
    """By its name, the log offset after the last record of a queue."""
    deleted = parse_deleted_queue_name(basename(folder))
    assert deleted is not None
    return deleted[2]
