"""A slave compares its log with its master's, a little at a time, round after round.

A round goes over all that both hold; `haAuditRate` bytes a second are read on either side, and some hundred
sent. What differs is logged with its exact place, and in the runtime info (28). Nothing is repaired by
itself: the disk that changed these bytes is an operator's business first. Logs are compared only while the
link stands, because then the end of ours is known to be the master's, and a difference counts once the link has
brought something after it, as in `tablehold`: who answered may be back without its tail, and the link not know it.
A master that knows no such request (RocketMQ's) is asked once an hour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.broker.node.comparedlogs import ComparedLogs
from hatwisted.clientcore.errors import CallFailed, Refused
from hatwisted.ha.interfaces import IMasterLog
from hatwisted.logcodec.logdrift import SPAN, Rotten, differing_ranges, judged_records
from hatwisted.store.errors import StoreError
from hatwisted.timing.timer import GuardedTimer
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.logrange import LogRange

ROUND_PAUSE: Final = 60.0
"""Seconds from the start, and from the end of a round, to the next one; and until a failed step is tried again."""
UNABLE_PAUSE: Final = 3600.0
"""Seconds until a master that doesn't know the request is asked again: it may have become another one."""
MOST_TOLD: Final = 10
"""Differing ranges of one round that are logged one by one."""
STEP: Final = 1.0
"""Seconds' worth of bytes compared at once."""
HEAR: Final = 0.5
"""Seconds between two looks whether the link has brought something."""

_VERDICTS: Final = {
    Rotten.MASTER: "the master's copy is rotten",
    Rotten.SLAVE: "ours is rotten, see 'hatwisted audit --repair'",
    Rotten.BOTH: "neither copy is a valid record",
    Rotten.UNDECIDED: "both copies are valid",
}


class LogAudit:
    """Runs the rounds between `start` and `stop`.

    - clock: of the rate
    - logs: ours and the master's
    - master_log: says what the master holds
    - linked: is the end of our log known to be the master's?
    - heard: bytes that the link has brought
    - rate: bytes a second at present; 0: none
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        logs: ComparedLogs,
        master_log: IMasterLog,
        linked: Callable[[], bool],
        heard: Callable[[], int],
        rate: Callable[[], int],
    ) -> None:
        self._clock = clock
        self._logs = logs
        self._master_log = master_log
        self._linked = linked
        self._heard = heard
        self._rate = rate
        self._round: LogRange | None = None
        """What of the present round is still to be compared."""
        self._running = False
        self._under_way: Deferred[float] = succeed(0.0)
        self._timer = GuardedTimer(clock, "comparing the log with the master's", self._turn, ROUND_PAUSE)
        self.rounds = 0
        """Ended so far."""
        self.differing = 0
        """Ranges that differed in the present round."""
        self.last_differing = 0
        """In the last whole one."""

    def start(self) -> None:
        """The first round begins after ROUND_PAUSE."""
        self._running = True
        self._timer.set(ROUND_PAUSE)

    def stop(self) -> None:
        """Compare nothing any more."""
        self._running = False
        self._round = None
        self._timer.cancel()
        self._under_way.cancel()

    def figures(self) -> dict[str, str]:
        """For the runtime info."""
        return {
            "haAuditRounds": str(self.rounds),
            "haAuditOffset": str(-1 if self._round is None else self._round.begin),
            "haAuditDifferences": str(max(self.differing, self.last_differing)),
        }

    def _turn(self) -> Deferred[None]:
        self._under_way = Deferred.fromCoroutine(self._step())
        return self._under_way.addErrback(self._failed).addCallback(self._next)

    def _next(self, pause: float) -> None:
        if self._running:
            self._timer.set(pause)

    async def _step(self) -> float:
        """Compare the next piece; seconds until the one after it."""
        rate = self._rate()
        if not rate or not self._linked():
            return ROUND_PAUSE
        if self._round is None:
            self._round = await self._whole()
            self.differing = 0
        begin, end = self._round
        span = LogRange(begin, min(end, begin + SPAN, begin + max(1, int(rate * STEP))))
        found = await differing_ranges(self._logs, span) if begin < end else []
        if found and not await self._links_master():
            # What it has put where its tail was are other messages; if so, the next link says it.
            self._round = None
            return ROUND_PAUSE
        await self._count(found)
        if span.end < end:
            self._round = LogRange(span.end, end)
            return (span.end - begin) / rate
        self._end_round()
        return ROUND_PAUSE

    async def _links_master(self) -> bool:
        """Does the link lead to who has just answered? Then it will bring something, if only a heartbeat."""
        before = self._heard()
        while self._linked() and self._heard() == before:
            await deferLater(self._clock, HEAR)
        return self._linked()

    async def _whole(self) -> LogRange:
        first, end = await self._master_log.bounds()
        held = self._logs.ranges.held
        return LogRange(max(first, held.begin), min(end, held.end))

    async def _count(self, differing: list[LogRange]) -> None:
        for found in differing:
            self.differing += 1
            if self.differing <= MOST_TOLD:
                await self._tell(found)

    async def _tell(self, found: LogRange) -> None:
        records = await judged_records(self._logs, found)
        what = "; ".join(
            f"record {each.begin} to {each.end}"
            + (f" ({each.topic}, queue {each.queue_id}, offset {each.queue_offset})" if each.topic else "")
            + f": {_VERDICTS[each.rotten]}"
            for each in records[:MOST_TOLD]
        )
        self._log.warn(
            "our log and the master's differ in bytes {begin} to {end}: {what}",
            event="audit.differs",
            begin=found.begin,
            end=found.end,
            what=what or "no record, padding at a file's end",
        )

    def _end_round(self) -> None:
        self._round = None
        self.rounds += 1
        self.last_differing = self.differing
        if self.differing > MOST_TOLD:
            self._log.warn(
                "our log and the master's differ in {count} ranges; 'hatwisted audit' names more of them",
                count=self.differing,
            )

    def _failed(self, failure: Failure) -> float:
        """A step that failed is made again; what has expired meanwhile isn't part of it then."""
        if failure.check(CancelledError):
            return ROUND_PAUSE
        failure.trap(CallFailed, Refused, StoreError, OSError)
        error = failure.value
        if isinstance(error, Refused) and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._log.info("{error}: our log isn't compared with this master's", error=error)
            return UNABLE_PAUSE
        if isinstance(error, Refused) and error.code == ResponseCode.SYSTEM_BUSY:
            return STEP
        self._log.info("comparing the log with the master's: {error}", error=error)
        self._round = None
        return ROUND_PAUSE
