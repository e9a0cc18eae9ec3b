"""From "appended" to the status in a producer's answer.

A put that wants to wait is answered when its disk line (SYNC_FLUSH) and its slave line (SYNC_MASTER) are both
settled; both begin at once, and a slave failure outweighs a disk failure (B69). Received, flushed and
replicated stay apart: each line is a rising offset, and a put is OK on it exactly when the offset has reached
the put's end.

A read's worth of puts waits as one: one Deferred on a line for all of them. When the line reaches some of
them, those are settled and the rest waits again with the same deadline, so an ack settles exactly what it
covers. What the lines have said of them meanwhile is in their `verdicts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.put.missingcopies import MissingCopies
from hatwisted.broker.put.newtopics import NewTopics
from hatwisted.broker.put.telling import Settled, tell_of
from hatwisted.broker.put.verdicts import Say, Verdicts
from hatwisted.broker.requests import Refusal
from hatwisted.ha.interfaces import IReplication
from hatwisted.kernel.heldputs import HeldPuts
from hatwisted.store.interfaces import IFlushPolicy
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.timing.histogram import Histogram
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.storedrecord import Record

MAX_WAITING_PUTS = 1_000_000
"""Puts waiting for disk or slave at one time (80 bytes each where the kernel is compiled, else about 500); more
are refused as busy before the append. RocketMQ's sendThreadPoolQueueCapacity (10,000) bounds the same, per queue
of threads."""

Token = TypeVar("Token")
Hold = Callable[[Sequence[Put[Token]]], HeldPuts]
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
        self._lines: list[_Line] = []
        if replication is not None:
            late = PutStatus.FLUSH_SLAVE_TIMEOUT
            self._lines.append(_Line(replication.wait, replication.timeout, late, self.replicate_times))
        if flush.waits:
            late, wait = PutStatus.FLUSH_DISK_TIMEOUT, cast(Wait, flush.wait)
            self._lines.append(_Line(wait, flush_timeout, late, self.flush_times))

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

    def copied(self, end: int, ahead: int) -> Deferred[int]:
        """Fires once slaves have the log up to `end`, or a put that waits for that would be answered in any case.
        At once if they are no more than `ahead` bytes behind, or can't be waited for."""
        slaves = self._replication
        if slaves is None or slaves.fall_behind <= ahead or not slaves.is_slave_ok(end):
            return succeed(end)
        return cast(Wait, slaves.wait)(end, end, self._clock.seconds() + slaves.timeout)

    def lacks_slave(self, end: int) -> bool:
        """Does a put that ends at `end` need a slave, and none is near enough to be waited for?"""
        return self._replication is not None and not self._replication.is_slave_ok(end)

    def settle(
        self, puts: Sequence[Put[Token]], settled: Settled[Token], hold: Hold[Token] = HeldPuts
    ) -> None:
        """Give each put its status and call `settled` with those that have one, in one or several goes.
        Doesn't raise what `settled` raises: that is logged.

        - puts: of one log, in offset order as appended; those refused already (status set) are settled at once
        - settled: called with some of them
        - hold: what is left of puts that have to wait
        """
        new_topics = self._new_topics is not None and self._new_topics.some
        if self._new_topics is not None and new_topics:
            settled = self._new_topics.after(settled)
        waits = self.may_wait
        waiting = [put for put in puts if put.status is None and put.wait] if waits else []
        if len(waiting) < len(puts):
            done = [put for put in puts if put.status is not None or not (waits and put.wait)]
            for put in done:
                if put.status is None:
                    put.status = PutStatus.PUT_OK
            tell_of(hold(done) if new_topics else done, settled)
        if waiting:
            self.waiting += len(waiting)
            self._begin(hold(waiting), settled)

    def _begin(self, puts: HeldPuts, settled: Settled[Token]) -> None:
        usable = len(puts)
        if self._replication is not None:
            while usable and not self._replication.is_slave_ok(puts.end(usable - 1)):
                usable -= 1
        if usable:
            self._wait(puts[:usable], settled)
        if usable < len(puts):
            self._wait(puts[usable:], settled, without_slave=True)

    def _wait(self, puts: HeldPuts, settled: Settled[Token], *, without_slave: bool = False) -> None:
        """For disk and slave, whichever is to be waited for. without_slave: there's none near enough."""

        def tell(some: HeldPuts, status: PutStatus) -> None:
            some.settle(status)
            self.waiting -= len(some)
            tell_of(some, settled)
            self._missing.note(some, status)

        begun = self._clock.seconds()
        verdicts = Verdicts(puts, len(self._lines), tell)
        for number, line in enumerate(self._lines):
            if without_slave and line.late is PutStatus.FLUSH_SLAVE_TIMEOUT:
                verdicts.of(number)(len(puts), PutStatus.SLAVE_NOT_AVAILABLE)
            else:
                self._follow(line, puts, begun, verdicts.of(number))

    def _follow(self, line: _Line, puts: HeldPuts, begun: float, say: Say) -> None:
        """Say of `puts` what becomes of them on a line: stored as it reaches them, late what it hasn't reached at
        the deadline."""

        def reached(offset: int) -> None:
            covered = puts.covered(offset)
            line.times.add(self._clock.seconds() - begun, covered or len(puts))
            if not covered:
                # The line fires short of the first end only at the deadline, or when it shuts down.
                say(len(puts), line.late)
                return
            say(covered, PutStatus.PUT_OK)
            if covered < len(puts):
                self._follow(line, puts[covered:], begun, say)

        line.wait(puts.end(0), puts.end(-1), begun + line.limit).addCallback(reached)
