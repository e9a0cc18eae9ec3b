"""Taking consume queues out of service while the store runs: of deleted topics, and such as name nothing.

Each queue costs one rename in the reactor, and the reactor gets its turn after every few; files are removed
by the worker. Numbering of a queue that is gone begins at 0 again, as in RocketMQ, for whoever makes the topic
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os.path import dirname
from typing import NamedTuple, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from hatwisted.store.interfaces import IFileSystem, IWorker
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable

QUEUES_PER_TURN = 32
"""Queues taken out before the reactor gets its turn: some 50 us each."""


class Removed(NamedTuple):
    """queues: how many are out of service; problem: why the last of the others isn't, "" if all are."""

    queues: int
    problem: str


class QueueRemoval:
    """Removes queues whose topics are gone or whose records have expired.

    - fs: the disk
    - clock: its timer
    - worker: removes the files
    - log: what the queues were built from
    - queues: the table they are taken out of
    """

    _logger = Logger()

    def __init__(
        self,
        fs: IFileSystem,
        clock: IReactorTime,
        worker: IWorker,
        log: CommitLog,
        queues: ConsumeQueueTable,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._worker = worker
        self._log = log
        self._queues = queues

    def drop_topics(self, unwanted: Callable[[str], bool]) -> Deferred[Removed]:
        """Take all queues of topics out of service that `unwanted(topic)` is true of."""
        return Deferred.fromCoroutine(self._drop([queue for queue in self._queues if unwanted(queue.topic)]))

    def drop_expired(self, kept: Callable[[str], bool]) -> Deferred[Removed]:
        """The same with queues whose records have all left the log, but for topics that are `kept`."""
        return Deferred.fromCoroutine(
            self._drop([queue for queue in self._queues if self._is_expired(queue) and not kept(queue.topic)])
        )

    def _is_expired(self, queue: ConsumeQueue) -> bool:
        """Never had a message: just made, and not expired. Nor is one with records still to be dispatched."""
        coming = self._next_number(queue) > queue.max_offset
        return 0 < queue.max_physical <= self._log.min_offset and not coming

    def _next_number(self, queue: ConsumeQueue) -> int:
        """That of the queue's next message."""
        return max(queue.max_offset, self._log.queue_offsets.get((queue.topic, queue.queue_id), 0))

    async def _drop(self, unwanted: Iterable[ConsumeQueue]) -> Removed:
        dropped, problem = 0, ""
        for count, (queue, number) in enumerate(
            [(each, self._next_number(each)) for each in unwanted], start=1
        ):
            # A message that came in between made the topic again, and its producer was told that it's stored.
            if self._next_number(queue) == number and self._queues.find(queue.topic, queue.queue_id) is queue:
                try:
                    self._drop_one(queue)
                    dropped += 1
                except OSError as error:
                    problem = f"queue {queue.queue_id} of {queue.topic} can't be deleted: {error}"
                    self._logger.warn("{problem}", problem=problem)
            if count % QUEUES_PER_TURN == 0:
                await deferLater(self._clock, 0)
        expired = self._queues.deleted.expired(self._log.min_offset)
        await cast("Deferred[None]", self._worker.run(self._finish, dropped, expired))
        return Removed(dropped, problem)

    def _drop_one(self, queue: ConsumeQueue) -> None:
        self._queues.delete(queue)
        self._log.queue_offsets.pop((queue.topic, queue.queue_id), None)

    def _finish(self, dropped: int, expired: list[str]) -> None:
        """In the worker: the renames become durable, then what nobody needs any more is removed."""
        deleted = self._queues.deleted
        if dropped and self._fs.exists(deleted.root):
            self._fs.sync_folder(deleted.root)
            self._fs.sync_folder(dirname(deleted.root))
        deleted.remove(expired)
