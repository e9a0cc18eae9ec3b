"""What leaves the store and when, and whether the disk has room for more.

The rules are RocketMQ's, its numbers included (formats.md 9): log files go by age in the hours of
`deleteWhen` or when the disk fills up, by force when it's nearly full, never the last one; queue and index
files follow the log's start. Three things are done differently. How old a file is doesn't depend on what the clock
says at present (`logages`). A log file is forgotten first and removed by a
worker, since removing a gigabyte may take a second; if that fails it's taken back, because a file removed
after a remaining one would be a gap. And readers hold no files, so none has to be waited for.

`DiskWatermark` looks at the disk by itself every few seconds rather than with each round of cleaning: puts
are to be accepted again soon after space is back. As in RocketMQ it's full above the warning level (90 %) and
all right again at the level of forced cleaning (85 %), so that it doesn't flap between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from os.path import dirname
from typing import Final, NamedTuple, Protocol, cast

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.store.interfaces import IFileSystem, IWorker, LocalTime
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.timing.periodic import PeriodicCall

FILES_PER_ROUND = 10
"""Log files removed in one round at most: RocketMQ's limit, so that cleaning up never takes the whole
disk."""

OPERATOR_ROUNDS = 20
"""Rounds that an operator's request for cleaning lasts."""

QUEUES_PER_TURN = 64
"""Queues looked at before the reactor gets its turn: some 10 us each."""

WATERMARK_INTERVAL = 5.0
"""Seconds between looks at the disk."""


class FullDisk(NamedTuple):
    """What a full disk means for whoever appends, in the log's words: above the watermark, when the use has
    fallen again, and when a write has found no room."""

    above: str
    below: str
    no_room: str


FOR_A_MASTER: Final = FullDisk(
    "puts are refused", "puts are accepted again", "puts are refused until there is some"
)
FOR_A_SLAVE: Final = FullDisk(
    "this slave keeps copying, and stops acknowledging once a write finds no space",
    "this slave has space again",
    "this slave stops acknowledging until there is some",
)


@dataclass(frozen=True, kw_only=True)
class WatermarkLimits:
    """When a disk is full.

    - warning, clear: used fraction above which puts are refused, and down to which that lasts
    - needed: bytes that must be free before a disk that has refused a write is tried again (the next log file)
    - interval: seconds between looks
    """

    warning: float = 0.90
    clear: float = 0.85
    needed: int = 1 << 30
    interval: float = WATERMARK_INTERVAL


class DiskWatermark:
    """Is there room on the disks? Start it, or call `check`.

    - fs: the disks
    - paths: folders on them
    - clock: its timer
    - worker: measures the disks
    - limits: shares of the disk
    - meaning: gives what a full disk means at present, for the log
    """

    _log = Logger()

    def __init__(
        self,
        fs: IFileSystem,
        paths: Sequence[str],
        clock: IReactorTime,
        worker: IWorker,
        limits: WatermarkLimits | None = None,
        meaning: Callable[[], FullDisk] = lambda: FOR_A_MASTER,
    ) -> None:
        self._fs = fs
        self._worker = worker
        self._limits = limits or WatermarkLimits()
        self._clear = min(self._limits.clear, self._limits.warning)
        self._meaning = meaning
        self._loop = PeriodicCall(clock, "checking the disk", self.check)
        self._above: str | None = None
        self._refused: str | None = None
        self._unknown = False
        self.ratios: dict[str, float] = dict.fromkeys(paths, 0.0)
        """Used fraction (0 to 1) by path, as of the last look."""

    @property
    def used(self) -> float:
        """Used fraction of the fullest disk."""
        return max(self.ratios.values(), default=0.0)

    @property
    def full_reason(self) -> str | None:
        """Why nothing may be appended, or None."""
        return self._refused or self._above

    @property
    def refused_a_write(self) -> bool:
        """Has a disk said that it's full, whatever its figures are?"""
        return self._refused is not None

    def note_full(self, reason: str) -> None:
        """A write found no room: full until a look finds `needed` bytes free."""
        if self._refused is None:
            self._log.warn(
                "no space on the disk: {reason}; {meaning}", reason=reason, meaning=self._meaning().no_room
            )
        self._refused = reason

    def start(self) -> None:
        """Look now, and from then on at each interval."""
        self._loop.start(self._limits.interval, now=True)

    def stop(self) -> None:
        """Stop looking."""
        self._loop.stop()

    def check(self) -> Deferred[None]:
        """Look at the disks; fires when the figures are in, and doesn't fail."""
        looked = cast("Deferred[dict[str, tuple[int, int]]]", self._worker.run(self._look, list(self.ratios)))
        return looked.addCallbacks(self._judge, self._blind)

    def _look(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        return {path: self._fs.usage(self._existing(path)) for path in paths}

    def _existing(self, path: str) -> str:
        """The folder that `path` will be made in: its own may not be there yet."""
        while not self._fs.exists(path) and dirname(path) != path:
            path = dirname(path)
        return path

    def _judge(self, usage: dict[str, tuple[int, int]]) -> None:
        self._unknown = False
        for path, (total, free) in usage.items():
            self.ratios[path] = 1 - free / total if total else 0.0
        used = self.used
        if used > self._limits.warning:
            fullest = max(self.ratios, key=self.ratios.__getitem__)
            if self._above is None:
                self._log.warn(
                    "{path}: {used:.1%} of the disk is used, {meaning}",
                    path=fullest,
                    used=used,
                    meaning=self._meaning().above,
                )
            self._above = (
                f"{used:.1%} of the disk under {fullest} is used, the limit is {self._limits.warning:.0%}"
            )
        elif used <= self._clear and self._above is not None:
            self._log.info(
                "{used:.1%} of the disk is used, {meaning}", used=used, meaning=self._meaning().below
            )
            self._above = None
        if self._refused is not None and min(free for _, free in usage.values()) >= self._limits.needed:
            self._log.info("the disk has space again; it had refused a write: {was}", was=self._refused)
            self._refused = None

    def _blind(self, failure: Failure) -> None:
        """What was known last stays; said once, for it's likely to last."""
        if not self._unknown:
            self._log.warn("can't determine disk usage: {error}", error=failure.value)
        self._unknown = True


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


@dataclass(frozen=True)
class Expiring:
    """What files expire of. ages: of the log's files; queues: iterated again in each round."""

    log: ExpiringLog
    ages: Ages
    queues: Iterable[ExpiringQueue]
    index: ExpiringIndex | None = None


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
