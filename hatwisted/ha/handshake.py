"""What a slave finds out before a link's first report, and holds against the master's log afterwards.

The first report is an acknowledgement like any other: with `haAck=durable` the log is synced before it. Where an
empty log begins may depend on what the master holds, which is asked outside of the link. A log that holds
something reports at once and is compared when the answer comes, because a RocketMQ master that doesn't have our
offset only goes on sending heartbeats. Whether the two configurations fit together is asked, too: by an empty log
before it takes anything.
"""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.ha.firstsync import plan_join
from hatwisted.ha.haclient import HAClient, LinkOwner
from hatwisted.ha.interfaces import IMasterLog, Objection
from hatwisted.ha.slavestate import SlaveEvent
from hatwisted.store.errors import StoreError
from hatwisted.wire.haframe import HaAck, HaFirstSync

RANGE_TIMEOUT = 3.0
"""Seconds for the master to say what its log holds; RocketMQ's limit for calls between brokers."""

OBJECTION_TIMEOUT = 1.0
"""Seconds that an empty log waits for an objection; what comes later counts as well."""


class HandshakeOwner(LinkOwner, Protocol):
    """The service that a link and its handshake belong to."""

    def master_lacks(self, link: HAClient, nearest: int, *, begins: bool) -> None:
        """The master's log doesn't hold what the link asked for.

        - link: to that master
        - nearest: the closest offset that it has
        - begins: does its log begin there, or end?
        """


class Handshake:
    """Begins links.

    - owner: what they belong to
    - master_log: asks the master, None if it can't be asked
    - objection: why it can't be copied
    """

    _logger = Logger()

    def __init__(
        self, owner: HandshakeOwner, master_log: IMasterLog | None, objection: Objection | None = None
    ) -> None:
        self._owner = owner
        self._master_log = master_log
        self._objection = objection

    def begin(self, link: HAClient) -> None:
        """Find out what a new link reports first, and have it report that."""
        if self._objection is None:
            self._begin_unopposed(link)
            return
        answered: Deferred[object] = self._objection().addCallback(self._heard, link)
        if self._owner.log.max_offset:
            self._begin_unopposed(link)
            return
        waiting: list[IDelayedCall] = []

        def go_on(_: object = None) -> None:
            if waiting:
                timer = waiting.pop()
                if timer.active():
                    timer.cancel()
                self._begin_unopposed(link)

        waiting.append(self._owner.clock.callLater(OBJECTION_TIMEOUT, go_on))
        answered.addCallback(go_on)

    def _heard(self, objection: str | None, link: HAClient) -> None:
        if objection is not None and not link.failed:
            self._owner.fail(link, SlaveEvent.OBJECT, objection)

    def _begin_unopposed(self, link: HAClient) -> None:
        if link.failed:
            return
        owner, master_log = self._owner, self._master_log
        if master_log is None:
            self._begin(None, link)
        elif owner.log.max_offset or owner.settings.first_sync is HaFirstSync.LAST_FILE:
            self._begin(None, link)
            self._ask_bounds(master_log).addCallbacks(self._judge, self._unknown, callbackArgs=(link,))
        else:
            self._ask_bounds(master_log).addCallbacks(
                self._begin, self._no_range, callbackArgs=(link,), errbackArgs=(link,)
            )

    def _ask_bounds(self, master_log: IMasterLog) -> Deferred[tuple[int, int]]:
        asked: Deferred[tuple[int, int]] = maybeDeferred(master_log.bounds)
        return asked.addTimeout(RANGE_TIMEOUT, self._owner.clock)

    def _begin(self, master_range: tuple[int, int] | None, link: HAClient) -> None:
        if link.failed:
            return
        flush_now = self._owner.flush_now
        if flush_now is not None and self._owner.settings.ack is HaAck.DURABLE and self._unflushed():
            # The first report is an acknowledgement too; it must not run ahead of the disk.
            maybeDeferred(flush_now).addCallbacks(
                self._begin_flushed, self._flush_failed, callbackArgs=(link,), errbackArgs=(link,)
            )
            return
        self._begin_where(link, master_range)

    def _begin_where(self, link: HAClient, master_range: tuple[int, int] | None) -> None:
        owner = self._owner
        try:
            plan = plan_join(owner.log, owner.settings.first_sync, master_range)
        except (OSError, StoreError) as error:
            owner.store_failed(link, f"it can't be read: {error}")
            return
        link.begin(plan)

    def _begin_flushed(self, _: object, link: HAClient) -> None:
        if link.failed:
            return
        if self._unflushed():
            log = self._owner.log
            self._owner.store_failed(
                link, f"the log is flushed to {log.flushed_offset} of {log.max_offset} only"
            )
            return
        self._begin_where(link, None)

    def _unflushed(self) -> bool:
        log = self._owner.log
        return bool(log.flushed_offset < log.max_offset)

    def _flush_failed(self, failure: Failure, link: HAClient) -> None:
        self._owner.store_failed(link, f"flush failed: {failure.getErrorMessage()}")

    def _no_range(self, failure: Failure, link: HAClient) -> None:
        self._owner.fail(
            link,
            SlaveEvent.LOSE,
            f"haFirstSync=minOffset: the master didn't say what its log holds ({failure.getErrorMessage()})",
        )

    def _unknown(self, failure: Failure) -> None:
        self._logger.debug("the master didn't say what its log holds: {why}", why=failure.getErrorMessage())

    def _judge(self, master_range: tuple[int, int], link: HAClient) -> None:
        """Does the master have our offset?"""
        oldest, end = master_range
        plan = link.plan
        if plan is None or link.failed:
            return
        if 0 < plan.report < oldest:
            self._owner.master_lacks(link, oldest, begins=True)
        elif max(plan.report, plan.held) > end:
            self._owner.master_lacks(link, end, begins=False)
