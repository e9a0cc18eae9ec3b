"""The queues that a member reads now: taking them up, giving them up, and how far it is in each.

Consumption in order adds broker locks (`queuelocks.py`): a queue is read from the moment its lock is held, worked
on while it is held, and given up, when others should have it, as soon as the program is done with the messages in
hand: not before, however long that takes, because the next owner would overtake it. Progress is noted under the
lock only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from hatwisted.clientcore.consumefrom import PullFrom
from hatwisted.clientcore.consumeservice import ConsumeService
from hatwisted.clientcore.errors import ClientError, Closed
from hatwisted.clientcore.offsets import Progress
from hatwisted.clientcore.queuelocks import RENEWAL_INTERVAL, QueueLocks
from hatwisted.clientcore.queuereader import QueueReader
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.subscription import Subscription
from hatwisted.clientcore.tasks import Lock, Timer
from hatwisted.wire.messagequeue import MessageQueue

LOCK_RETRY: Final = 1.0
"""Seconds until a lock that another member has is requested again (5.3.3: 1 s; 4.9.7: at the next share-out)."""
PROGRESS_RETRY: Final = 3.0
"""Seconds until a queue is tried again whose offset couldn't be read."""


class Owner(Protocol):
    """The consumer, as its assignment sees it."""

    def reader(self, queue: MessageQueue, subscription: Subscription, start: int) -> QueueReader:
        """One that isn't started.

        - queue: to read
        - subscription: its topic's
        - start: offset of the first message
        """

    def dropped(self, queue: MessageQueue) -> None:
        """It's read no more."""

    def rebalance(self) -> None:
        """Share out queues again, soon."""


class Assignment:
    """The queues that this member reads at present.

    - session: knows the brokers
    - owner: makes readers and names the topics
    - work: what is done with the messages
    - pull_from: where a queue begins, and where its progress is kept
    - locks: for consumption in order, else None
    - auto_commit: note the progress of a queue that is given up
    """

    def __init__(
        self,
        session: Session,
        owner: Owner,
        work: ConsumeService,
        pull_from: PullFrom,
        locks: QueueLocks | None,
        *,
        auto_commit: bool,
    ) -> None:
        self._session = session
        self._owner = owner
        self._work = work
        self._pull_from = pull_from
        self._offsets = pull_from.offsets
        self._locks = locks
        self._auto_commit = auto_commit
        self._readers: dict[MessageQueue, QueueReader] = {}
        self._releasing: set[MessageQueue] = set()
        self._overruled: set[MessageQueue] = set()
        """Of those, the ones that were reset meanwhile."""
        self._retry: Timer | None = None
        self._renewal: Timer | None = None
        self._noting = Lock()
        self._log = session.log
        self._left_uncommitted = 0
        self._closed = False

    @property
    def readers(self) -> dict[MessageQueue, QueueReader]:
        """By queue."""
        return dict(self._readers)

    def holds(self, queue: MessageQueue) -> bool:
        """May its messages be consumed and its progress be noted now?"""
        return self._locks is None or self._locks.held(queue)

    # ---- taking up and giving up

    async def adopt(self, subscription: Subscription, share: Iterable[MessageQueue]) -> None:
        """Of the subscription's topic, read `share` and nothing else."""
        wanted = set(share)
        await self._give_up(
            [each for each in self._readers if each.topic == subscription.topic and each not in wanted]
        )
        new = await self._lockable(sorted(wanted - self._readers.keys() - self._releasing))
        errors = {queue: await self._begin(queue, subscription) for queue in new}
        strays = [queue for queue, error in errors.items() if error is not None]
        if strays:
            # Reading from a guess would lose or repeat messages.
            text = "offsets of {count} queues of {topic} aren't known yet: {error}"
            self._log.info(text, count=len(strays), topic=subscription.topic, error=errors[strays[0]])
            self._try_later(PROGRESS_RETRY)
            if self._locks is not None:
                await self._locks.unlock(strays)

    async def _begin(self, queue: MessageQueue, subscription: Subscription) -> Exception | None:
        try:
            start = await self._pull_from.of(queue)
        except ClientError as error:
            return error
        if self._closed:
            return Closed("the consumer was stopped")
        reader = self._readers[queue] = self._owner.reader(queue, subscription, start)
        reader.start()
        return None

    async def _lockable(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        if self._locks is None or not queues:
            return queues
        ours, others = await self._locks.lock(queues)
        if others:
            self._try_later(LOCK_RETRY)
        self._renew_later(RENEWAL_INTERVAL)
        return ours

    def _try_later(self, seconds: float) -> None:
        if self._retry is None and not self._closed:
            self._retry = self._session.driver.call_later(seconds, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._owner.rebalance()

    async def _give_up(self, queues: Iterable[MessageQueue]) -> None:
        readers = [self._drop(queue, hand_over=True) for queue in queues]
        if self._locks is None and readers and self._auto_commit:
            given_up = {each.queue: each for each in readers}
            await self._note(lambda: given_up, lambda queue: given_up[queue].progress)

    def _drop(self, queue: MessageQueue, *, hand_over: bool = False) -> QueueReader:
        reader = self._readers.pop(queue)
        reader.stop()
        self._owner.dropped(queue)
        if self._locks is not None:
            # Not even by ourselves is it read again before the program is done with the messages in hand.
            self._releasing.add(queue)
            self._session.in_background(self._release(reader, self._locks, hand_over), "releasing a queue")
        return reader

    async def _release(self, reader: QueueReader, locks: QueueLocks, hand_over: bool) -> None:
        queue = reader.queue
        try:
            await self._work.finished([reader])
            if hand_over:
                if locks.held(queue) and self._auto_commit and queue not in self._overruled:
                    await self._note(lambda: [queue], lambda _: reader.progress)
                await locks.unlock([queue])
        finally:
            self._releasing.discard(queue)
            self._overruled.discard(queue)
        self._owner.rebalance()

    async def reset(self, table: Mapping[MessageQueue, int]) -> None:
        """An administrator moves the group: forget what was read; the next round goes on from there."""
        # Asked before: a lock is given up with its reader.
        allowed = {queue: at for queue, at in table.items() if self.holds(queue)}
        for queue in sorted(table.keys() & self._readers.keys()):
            self._drop(queue)
        self._overruled |= allowed.keys() & self._releasing
        await self._note(lambda: allowed, allowed.get)

    async def close(self) -> None:
        """Note the progress, read no more, unlock what the program isn't at work on."""
        self._closed = True
        for timer in (self._retry, self._renewal):
            if timer is not None:
                timer.cancel()
        self._retry = self._renewal = None
        if self._auto_commit:
            await self.commit()
        self._left_uncommitted = self.uncommitted
        working = {queue for queue, reader in self._readers.items() if self._work.working(reader)}
        idle = self._readers.keys() - working
        for queue in list(self._readers):
            self._drop(queue)
        if self._locks is not None:
            # What it is at work on lapses: another member's turn comes 60 s after the last renewal.
            await self._locks.unlock(idle)

    # ---- locks

    def _renew_later(self, seconds: float) -> None:
        if not self._closed and self._renewal is None:
            self._renewal = self._session.driver.call_later(seconds, self._renew_soon)

    def _renew_soon(self) -> None:
        self._renewal = None
        self._session.in_background(self._renew(), "renewing locks")

    async def _renew(self) -> None:
        assert self._locks is not None
        queues = {*self._readers, *self._releasing}
        lapsed = {queue for queue in queues if not self._locks.held(queue)}
        ours: list[MessageQueue] = []
        try:
            ours, others = await self._locks.lock(queues)
            for queue in [each for each in others if each in self._readers]:
                self._log.warn("{queue} is now locked by another member", queue=queue)
                self._drop(queue)
            if others:
                self._owner.rebalance()
            for queue in [each for each in ours if each in lapsed]:
                await self._regained(queue)
        finally:
            missing = not self._readers.keys() <= set(ours)
            self._renew_later(LOCK_RETRY if missing else RENEWAL_INTERVAL)

    async def _regained(self, queue: MessageQueue) -> None:
        """Locked again after a while without: has another member continued meanwhile?"""
        try:
            known = await self._offsets.read(queue)
        except ClientError as error:
            self._log.info("{queue}: its offset isn't known yet: {error}", queue=queue, error=error)
            known = None
        reader = self._readers.get(queue)
        if reader is None:
            return
        if known is not None and known > reader.progress:
            self._drop(queue)
            self._owner.rebalance()
        else:
            self._work.arrived(reader)

    # ---- progress

    @property
    def uncommitted(self) -> int:
        """Queues whose progress isn't noted; what closing couldn't note stays counted."""
        behind = sum(reader.progress != reader.committed for reader in self._readers.values())
        return behind + self._left_uncommitted

    @property
    def committing(self) -> bool:
        """Is progress being noted now?"""
        return self._noting.locked

    async def commit(self) -> None:
        """Note how far it is; what can't be noted is tried again with the next."""
        told: dict[MessageQueue, tuple[QueueReader, int, int]] = {}

        def changed() -> list[MessageQueue]:
            readers = self._readers.items()
            return [queue for queue, each in readers if each.progress != each.committed and self.holds(queue)]

        def progress(queue: MessageQueue) -> int | None:
            reader = self._readers.get(queue)
            if reader is None or not self.holds(queue):
                return None
            told[queue] = reader, reader.progress, reader.times_back
            return reader.progress

        if await self._note(changed, progress):
            for reader, offset, times_back in told.values():
                # Sent back meanwhile, it has to tell it anew once it's there again.
                if reader.times_back == times_back:
                    reader.noted(offset)

    async def _note(self, queues: Callable[[], Collection[MessageQueue]], progress: Progress) -> bool:
        """One after the other, and each as things are at its turn: an older word must not come last."""
        async with self._noting:
            wanted = queues()
            failed = await self._offsets.write(wanted, progress) if wanted else []
        for error in failed:
            self._log.warn("offsets aren't committed yet: {error}", error=error)
        return not failed
