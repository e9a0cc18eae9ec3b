"""From "appended" to the status in a producer's answer.

A put that wants to wait is answered when its disk line (SYNC_FLUSH) and its slave line (SYNC_MASTER) are both
settled; both begin at once, and a slave failure outweighs a disk failure (B69). Received, flushed and
replicated stay apart: each line is a rising offset, and a put is OK on it exactly when the offset has reached
the put's end.

A read's worth of puts waits as one: one Deferred on a line for all of them. When the line reaches some of
them, those are settled and the rest waits again with the same deadline, so an ack settles exactly what it
covers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.put.missingcopies import MissingCopies
from hatwisted.broker.put.newtopics import NewTopics
from hatwisted.broker.put.telling import Settled, tell_of
from hatwisted.broker.requests import Refusal
from hatwisted.ha.interfaces import IReplication
from hatwisted.store.interfaces import IFlushPolicy
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.timing.histogram import Histogram
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.storedrecord import Record

MAX_WAITING_PUTS = 1_000_000
"""Puts waiting for disk or slave at one time (about 500 bytes each); more are refused as busy before the
append. RocketMQ's sendThreadPoolQueueCapacity (10,000) bounds the same, per queue of threads."""

Token = TypeVar("Token")
Report = Callable[[Sequence[Put[Token]], PutStatus], None]
Wait = Callable[[int, int, float], "Deferred[int]"]


class _Line(NamedTuple):
    """What puts wait for. limit: seconds; late: what those are that wait longer; times: how long they waited."""

    wait: Wait
    limit: float
    late: PutStatus
    times: Histogram


class PutAcks:
    """Settles appended puts.

    - clock: times their waits
    - flush: the store's flush policy
    - flush_timeout: seconds (`syncFlushTimeout`)
    - replication: provider of IReplication on a SYNC_MASTER, None elsewhere
    - record: the record at a log offset, for what is said of puts that no slave has
    - new_topics: answers about puts to these are held
    """

    def __init__(
        self,
        clock: IReactorTime,
        flush: IFlushPolicy,
        flush_timeout: float,
        replication: IReplication | None,
        record: Callable[[int], Record | None] = lambda offset: None,
        new_topics: NewTopics | None = None,
    ) -> None:
        self._clock = clock
        self._flush = flush
        self._flush_timeout = flush_timeout
        self._replication = replication
        self._missing = MissingCopies(clock, record)
        self._new_topics = new_topics
        self.may_wait = flush.waits or replication is not None
        """Does any put have to wait here?"""
        self.waiting = 0
        self.flush_times = Histogram()
        """Seconds that puts have waited for the disk, those that a sync reaches as one; late ones too."""
        self.replicate_times = Histogram()
        """The same for slaves."""

    @property
    def may_hold(self) -> bool:
        """May a put that is settled now be told of later?"""
        return self.may_wait or (self._new_topics is not None and self._new_topics.some)

    def without_slaves(self) -> PutAcks:
        """The same for puts that wait for the disk alone."""
        return PutAcks(self._clock, self._flush, self._flush_timeout, None)

    def refusal(self) -> Refusal | None:
        """Why nothing that wants to wait may be appended now, or None.

        As in RocketMQ 5, too few copies in sync are SYSTEM_ERROR (of these two codes the one on which its
        producers try another broker), and no reason to refuse a put with WAIT=false: that asks nothing of the
        slaves.
        """
        if self.waiting >= MAX_WAITING_PUTS:
            text = f"[REJECTREQUEST]{self.waiting} puts are waiting for disk or slave"
            return Refusal(ResponseCode.SYSTEM_BUSY, text)
        reason = self._replication.refusal() if self._replication is not None else None
        return None if reason is None else Refusal(ResponseCode.SYSTEM_ERROR, reason)

    def lacks_slave(self, end: int) -> bool:
        """Does a put that ends at `end` need a slave, and none is near enough to be waited for?"""
        return self._replication is not None and not self._replication.is_slave_ok(end)

    def settle(self, puts: Sequence[Put[Token]], settled: Settled[Token]) -> None:
        """Give each put its status and call `settled` with those that have one, in one or several goes.
        Doesn't raise what `settled` raises: that is logged.

        puts: of one log, in offset order as appended; those refused already (status set) are settled at once.
        """
        if self._new_topics is not None and self._new_topics.some:
            settled = self._new_topics.after(settled)
        waits = self.may_wait
        waiting = [put for put in puts if put.status is None and put.wait] if waits else []
        if len(waiting) < len(puts):
            done = [put for put in puts if put.status is not None or not (waits and put.wait)]
            for put in done:
                if put.status is None:
                    put.status = PutStatus.PUT_OK
            tell_of(done, settled)
        if waiting:
            self.waiting += len(waiting)
            self._begin(waiting, settled)

    def _begin(self, puts: list[Put[Token]], settled: Settled[Token]) -> None:
        def report(some: Sequence[Put[Token]], status: PutStatus) -> None:
            for put in some:
                put.status = status
            self.waiting -= len(some)
            tell_of(some, settled)

        if self._replication is None:
            self._wait_for_disk(puts, report)
        elif not self._flush.waits:
            self._wait_for_slave(self._replication, puts, report)
        else:
            both = _BothLines(report)
            self._wait_for_disk(puts, both.disk)
            self._wait_for_slave(self._replication, puts, both.slave)

    def _wait_for_disk(self, puts: list[Put[Token]], report: Report[Token]) -> None:
        wait = cast(Wait, self._flush.wait)
        line = _Line(wait, self._flush_timeout, PutStatus.FLUSH_DISK_TIMEOUT, self.flush_times)
        self._follow(line, puts, self._clock.seconds(), report)

    def _wait_for_slave(self, replication: IReplication, puts: list[Put[Token]], tell: Report[Token]) -> None:
        def report(some: Sequence[Put[Token]], status: PutStatus) -> None:
            tell(some, status)
            self._missing.note(some, status)

        usable = len(puts)
        while usable and not replication.is_slave_ok(puts[usable - 1].end):
            usable -= 1
        if usable:
            late = PutStatus.FLUSH_SLAVE_TIMEOUT
            line = _Line(replication.wait, replication.timeout, late, self.replicate_times)
            self._follow(line, puts[:usable], self._clock.seconds(), report)
        if usable < len(puts):
            report(puts[usable:], PutStatus.SLAVE_NOT_AVAILABLE)

    def _follow(self, line: _Line, puts: list[Put[Token]], begun: float, report: Report[Token]) -> None:
        """Report `puts` as the line reaches them, and what it hasn't reached at the deadline as late."""

        def reached(offset: int) -> None:
            covered = len(puts) if puts[-1].end <= offset else bisect_right(puts, offset, key=_end)
            line.times.add(self._clock.seconds() - begun, covered or len(puts))
            if covered:
                report(puts[:covered], PutStatus.PUT_OK)
            rest = puts[covered:]
            if rest and covered:
                self._follow(line, rest, begun, report)
            elif rest:
                # The line fires short of the first end only at the deadline, or when it shuts down.
                report(rest, line.late)

        line.wait(puts[0].end, puts[-1].end, begun + line.limit).addCallback(reached)


def _end(put: Put) -> int:
    return put.end


class _BothLines(Generic[Token]):
    """Puts that wait on disk and slave: reported on when both lines have spoken."""

    def __init__(self, report: Report[Token]) -> None:
        self._report = report
        self._first: dict[int, PutStatus] = {}

    def disk(self, puts: Sequence[Put[Token]], status: PutStatus) -> None:
        """What the disk line says."""
        for put in puts:
            slave = self._first.pop(put.end, None)
            if slave is None:
                self._first[put.end] = status
            else:
                self._report([put], status if slave is PutStatus.PUT_OK else slave)

    def slave(self, puts: Sequence[Put[Token]], status: PutStatus) -> None:
        """What the slave line says; a failure here outweighs one of the disk."""
        for put in puts:
            disk = self._first.pop(put.end, None)
            if disk is None:
                self._first[put.end] = status
            else:
                self._report([put], disk if status is PutStatus.PUT_OK else status)
