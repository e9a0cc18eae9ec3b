"""Making queues and index durable, and noting in the checkpoint up to when they are: never the other way round.

In RocketMQ the FlushConsumeQueueService does that. What an unclean restart has to dispatch again is what came
after the last of these rounds.

With thousands of busy queues a round writes and syncs as many files, each for a few entries: such rounds are rare.
(RocketMQ passes over queues with less than two pages, for a minute at most.)
"""

from __future__ import annotations

from typing import Final, cast

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.store.interfaces import IWorker
from hatwisted.store.lifecycle.recovery import StoreParts
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.queue.queuewriter import INTERVAL, PORTION, QueueWriter

MANY: Final = int(PORTION / INTERVAL)
"""Queues with entries in memory, as many as the writer writes in a second, from which on they are many."""

RARELY: Final = 10
"""Of so many rounds one is made while there are many: a restart dispatches some seconds more, a million messages a
second or two."""


class DispatchedSync:
    """One round at a time.

    - log: how far it's flushed counts for a slave's checkpoint
    - parts: what is synced, and the checkpoint
    - writer: writes what of the queues waits in memory
    - worker: for the blocking calls
    """

    _log = Logger()

    def __init__(self, log: CommitLog, parts: StoreParts, writer: QueueWriter, worker: IWorker) -> None:
        self._commit_log = log
        self._queues = parts.queues
        self._index = parts.index
        self._checkpoint = parts.checkpoint
        self._dispatcher = parts.dispatcher
        self._writer = writer
        self._worker = worker
        self.under_way: Deferred[bool] | None = None
        """The round that has begun and not ended."""
        self._requested = False
        self._passed = 0
        self._left_out = False
        """Has the last sync of the queues failed?"""

    def regular(self) -> Deferred[bool] | None:
        """A round, as `run`, or none if so many queues would have to be written that this one may wait."""
        if self._writer.waiting > MANY and self._passed < RARELY - 1:
            self._passed += 1
            return None
        return self.run()

    def run(self) -> Deferred[bool]:
        """A round, or the one under way. Fires with whether all that there was is durable; doesn't fail."""
        if self.under_way is not None:
            return self.under_way
        self._passed = 0
        queued = self._dispatcher.logics_timestamp
        dispatched = self._dispatcher.dispatched_timestamp
        reached = self._dispatcher.reput_offset
        last_item = -1 if self._index is None else self._index.end_physical
        done = cast("Deferred[bool]", self._writer.write_again() if self._left_out else succeed(None))
        done.addCallback(lambda _: self._writer.write_all())
        done.addCallback(lambda _: self._worker.run(self._datasync))
        if self._index is not None:
            index = self._index
            done.addCallback(lambda _: index.flush())
        done.addCallback(lambda _: self._note(queued, dispatched, reached, last_item))
        done.addCallbacks(lambda _: self._index is None or self._index.synced, self._failed).addBoth(
            self._ended
        )
        self.under_way = None if done.called and not done.paused else done
        return done

    def _datasync(self) -> None:
        self._left_out = True
        self._queues.datasync()
        self._left_out = False

    def request(self) -> None:
        """A round for all that there is by now: at once, or after the one under way."""
        if self.under_way is None:
            self.run()
        else:
            self._requested = True

    def _note(self, queued: int, dispatched: int, reached: int, last_item: int) -> object:
        """Both are durable: say so.

        - queued, dispatched: store times (ms) of the last message in a queue, and dispatched
        - reached: log offset up to which all were
        - last_item: physical offset of the index's last item then, -1 without one
        """
        checkpoint, log = self._checkpoint, self._commit_log
        checkpoint.advance(logics=queued)
        checkpoint.queued = reached
        if log.last_store_timestamp == 0:
            # Nothing was put here, so the log's newest time is known from dispatch only (a slave).
            checkpoint.advance(
                physic=dispatched if log.flushed_offset >= self._dispatcher.reput_offset else 0
            )
        if self._index is not None:
            checkpoint.advance(index=self._index.checkpoint_timestamp)
            checkpoint.filled = self._index.filled
            if not any(file.doubtful for file in self._index.files):
                checkpoint.indexed = last_item, reached
        return self._worker.run(checkpoint.flush)

    def _failed(self, failure: Failure) -> bool:
        self._log.error(
            "queues or checkpoint couldn't be written: {why}; the next round tries again",
            why=failure.getErrorMessage(),
        )
        return False

    def _ended(self, synced: bool) -> bool:
        self.under_way = None
        if self._requested:
            self._requested = False
            self.run()
        return synced
