"""What leaves the store and when.

The rules are RocketMQ's, its numbers included (formats.md 9): log files go by age in the hours of
`deleteWhen` or when the disk fills up, by force when it's nearly full, never the last one; queue and index
files follow the log's start. Three things are done differently. How old a file is doesn't depend on what the clock
says at present (`logages`). A log file is forgotten first and removed by a worker, since removing a gigabyte may
take a second; if that fails it's taken back, because a file removed after a remaining one would be a gap. And
readers hold no files, so none has to be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from hatwisted.store.interfaces import IFileSystem, IWorker, LocalTime
from hatwisted.store.lifecycle.diskwatermark import DiskWatermark
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.timing.periodic import PeriodicCall

FILES_PER_ROUND = 10
"""Most log files removed in one round: RocketMQ's limit, so that cleaning up never takes the whole
disk."""

OPERATOR_ROUNDS = 20
"""Rounds that an operator's request for cleaning lasts."""

QUEUES_PER_TURN = 64
"""Queues looked at before the reactor gets its turn: some 10 us each."""


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy:
    """When files may go. Defaults are RocketMQ 4.9.7's.

    delete_when: local hours ("04", "04;16"); reserved_hours: age (hours since the last write, see `logages`) from
    which a log file may go; max_used: used disk fraction above which hours don't matter; forcible: above which age
    doesn't either, if `clean_forcibly`; first_delay, interval, file_interval: seconds to the first round,
    between rounds, and between two files of one.
    """

    delete_when: str = "04"
    reserved_hours: float = 72
    max_used: float = 0.75
    forcible: float = 0.85
    clean_forcibly: bool = True
    first_delay: float = 60.0
    interval: float = 10.0
    file_interval: float = 0.1

    @property
    def hours(self) -> frozenset[int]:
        """`delete_when` as numbers."""
        return frozenset(int(hour) for hour in self.delete_when.split(";") if hour.strip())


class ExpiringLog(Protocol):
    """The part of the commit log that retention needs."""

    max_offset: int

    @property
    def files(self) -> FileQueue: ...


class Ages(Protocol):
    """How old log files are, see `logages`."""

    def look(self) -> None: ...

    def age(self, start: int) -> float: ...


class ExpiringQueue(Protocol):
    """The part of a consume queue that retention needs."""

    def expire(self, min_physical: int) -> list[str]: ...

    def restore(self, paths: Sequence[str]) -> None: ...


class ExpiringIndex(Protocol):
    """`expire` may answer with a Deferred, which is waited for."""

    def expire(self, min_physical: int) -> object: ...


class ExpiringDeleted(Protocol):
    """Queues of deleted topics: `expired` gives the folders of those that have, `remove` may run in a worker."""

    def expired(self, min_physical: int) -> list[str]: ...

    def remove(self, folders: list[str]) -> None: ...


class Synced(Protocol):
    """Log offset up to which queues are on the disk; None: not known. No log file beyond it goes: after a power
    failure queues would end before it, and number new messages as they have numbered others."""

    queued: int | None


@dataclass(frozen=True)
class Expiring:
    """What files expire of. ages: of the log's files; queues: iterated again in each round; deleted: of topics;
    synced: says what is on the disk."""

    log: ExpiringLog
    ages: Ages
    queues: Iterable[ExpiringQueue]
    index: ExpiringIndex | None = None
    deleted: ExpiringDeleted | None = None
    synced: Synced | None = None


@dataclass(frozen=True)
class RetentionRules:
    """When it does.

    - policy: the present one; its intervals are those of the start
    - local_time: the one by which hours are meant
    """

    policy: Callable[[], RetentionPolicy] = RetentionPolicy
    local_time: LocalTime = field(kw_only=True)


class Retention:
    """Removes what has expired, in rounds.

    - fs: the disk
    - clock: its timer and the hour
    - worker: removes the files
    - watermark: how full the disk is
    - expiring: log, queues and index
    - rules: when files have expired
    """

    _log = Logger()

    def __init__(
        self,
        fs: IFileSystem,
        clock: IReactorTime,
        worker: IWorker,
        watermark: DiskWatermark,
        expiring: Expiring,
        rules: RetentionRules,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._worker = worker
        self._watermark = watermark
        self._commit_log = expiring.log
        self._ages = expiring.ages
        self._queues = expiring.queues
        self._index = expiring.index
        self._deleted = expiring.deleted
        self._synced = expiring.synced
        self._policy = rules.policy
        self._local_time = rules.local_time
        self._loop = PeriodicCall(clock, "removing expired files", self._tracked_round)
        self._first: IDelayedCall | None = None
        self._under_way: Deferred[None] = succeed(None)
        self._stopping = False
        self._requested = 0
        self._expired_to = 0
        self._in_vain = False
        self.removed_total = 0
        """Log files removed since the start."""

    def start(self) -> None:
        """The first round after `first_delay`, then at each interval."""
        policy = self._policy()
        self._ages.look()
        self._first = self._clock.callLater(policy.first_delay, self._loop.start, policy.interval, now=True)

    def stop(self) -> Deferred[None]:
        """No more rounds; fires when the one under way has removed the file it's at."""
        self._stopping = True
        if self._first is not None and self._first.active():
            self._first.cancel()
        self._loop.stop()
        ended: Deferred[None] = Deferred()
        self._under_way.addCallback(ended.callback)
        return ended

    def clean_now(self) -> None:
        """An operator's request: the next rounds ignore the hour. Age still counts."""
        self._requested = OPERATOR_ROUNDS

    def run_round(self) -> Deferred[None]:
        """One round, now: what `start` does at each interval. Fails as its first failing part does."""
        return Deferred.fromCoroutine(self._round())

    def _tracked_round(self) -> Deferred[None]:
        ended = self._under_way = Deferred()

        def tell(result: object) -> object:
            ended.callback(None)
            return result

        return self.run_round().addBoth(tell)

    async def _round(self) -> None:
        self._ages.look()
        await self._watermark.check()
        if self._is_due():
            removed = await self._remove_log_files()
            self._log_if_in_vain(removed)
        await self._follow_the_log()

    # -- the log ---------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """May anything go in this round?"""
        requested = self._requested > 0
        if requested:
            self._requested -= 1
        hour = self._local_time(self._clock.seconds()).hour
        return requested or hour in self._policy().hours or self._space_is_short()

    def _space_is_short(self) -> bool:
        return self._watermark.used > self._policy().max_used or self._watermark.refused_a_write

    def _is_forced(self) -> bool:
        return self._policy().clean_forcibly and self._watermark.used > self._policy().forcible

    async def _remove_log_files(self) -> int:
        """Remove the oldest files as far as they are due; how many."""
        forced = self._is_forced()
        removed = 0
        while removed < FILES_PER_ROUND and self._first_file_is_due(forced):
            if removed:
                await deferLater(self._clock, self._policy().file_interval)
            if self._stopping or not await self._remove_first_file():
                break
            removed += 1
        return removed

    def _first_file_is_due(self, forced: bool) -> bool:
        log = self._commit_log
        last = max(0, log.max_offset - 1) // log.files.file_size * log.files.file_size
        if not log.files.starts or log.files.min_offset >= last:
            return False
        if (
            self._synced is not None
            and (self._synced.queued or 0) < log.files.min_offset + log.files.file_size
        ):
            return False
        return forced or self._ages.age(log.files.min_offset) >= self._policy().reserved_hours * 3600

    async def _remove_first_file(self) -> bool:
        files = self._commit_log.files
        paths = files.detach_before(files.min_offset + files.file_size)
        kept = await self._remove(paths)
        files.restore(kept)
        self.removed_total += len(paths) - len(kept)
        return not kept

    def _log_if_in_vain(self, removed: int) -> None:
        in_vain = not removed and self._space_is_short()
        if in_vain and not self._in_vain:
            self._log.warn(
                "{used:.1%} of the disk is used and no log file is old enough to be removed: give "
                "the store more "
                "room, or lower fileReservedTime",
                used=self._watermark.used,
            )
        self._in_vain = in_vain

    # -- what was built from the log -------------------------------------------------------------------------

    async def _follow_the_log(self) -> None:
        """Let queues and index begin where the log does now."""
        begin = self._commit_log.files.min_offset
        if begin <= self._expired_to:
            return
        complete = True
        for number, queue in enumerate(list(self._queues), start=1):
            if self._stopping:
                return
            complete &= await self._expire(queue, begin)
            if number % QUEUES_PER_TURN == 0:
                await deferLater(self._clock, 0)
        if self._index is not None:
            await maybeDeferred(self._index.expire, begin)
        if self._deleted is not None and (gone := self._deleted.expired(begin)):
            await cast("Deferred[None]", self._worker.run(self._deleted.remove, gone))
        if complete:
            self._expired_to = begin

    async def _expire(self, queue: ExpiringQueue, begin: int) -> bool:
        """False if something of it couldn't be done and is left to the next round."""
        try:
            paths = queue.expire(begin)
        except OSError as error:
            self._log.warn("{queue} can't be expired: {error}", queue=queue, error=error)
            return False
        kept = await self._remove(paths) if paths else ()
        queue.restore(kept)
        return not kept

    async def _remove(self, paths: Sequence[str]) -> Sequence[str]:
        """Remove files in the worker, one after the other up to the first that fails; those that are left."""
        removed: list[str] = []
        try:
            await cast("Deferred[None]", self._worker.run(self._remove_each, paths, removed))
        except Exception as error:
            self._log.warn(
                "{path} has expired but can't be removed: {error}", path=paths[len(removed)], error=error
            )
        for path in removed:
            self._log.info("removed {path}: expired", path=path)
        return paths[len(removed) :]

    def _remove_each(self, paths: Sequence[str], removed: list[str]) -> None:
        for path in paths:
            self._fs.remove(path)
            removed.append(path)
