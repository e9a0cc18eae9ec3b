"""A member of a consumer group, as a user's program is: it works on what it is given, and fails now and then."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from hatwisted.assembly.parts import Parts
from hatwisted.client import Cluster, ConsumeFrom, Consumer
from hatwisted.client.driver import TwistedDriver
from hatwisted.clientcore.errors import ClientError, Rejected
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.sim.consumption import Consumption
from hatwisted.sim.history import Place, Seen

AGAIN = 2.0
"""Seconds until a consumer that couldn't start is created again."""

WORK = 0.02
"""Most seconds that a batch takes."""

BATCH = 4

FAILS_ONCE, FAILS_ALWAYS = 11, 37
"""Numbers of messages that a group without order fails on are multiples of these."""

FAILS_IN_ORDER = 0.05
"""Chance that an ordered group fails on a message."""


class GroupMember(Service):
    """One process of a group.

    - parts: its surroundings
    - name: its machine's
    - name_server: "host:port"
    - topics: what its group reads
    - consumption: its group's
    """

    def __init__(
        self, parts: Parts, name: str, name_server: str, topics: Sequence[str], consumption: Consumption
    ) -> None:
        self._clock = parts.clock
        self._random: Random = parts.random
        self._topics = topics
        self._consumption = consumption
        driver = TwistedDriver(parts.clock, parts.connecting, randomness=parts.random)
        self._cluster = Cluster.on(driver, name_server, f"{name}@{parts.process_id()}")
        self._again: IDelayedCall | None = None
        self._muted = False

    def startService(self) -> None:
        """See IService."""
        super().startService()
        self._begin()

    def _begin(self) -> None:
        self._again = None
        terms = self._consumption.terms
        consumer: Consumer = self._cluster.consumer(
            terms.name,
            dict.fromkeys(self._topics, "*"),
            on_messages=self._work,
            batch=1 if terms.ordered else BATCH,
            consume_from=ConsumeFrom.FIRST,
            orderly=terms.ordered,
            max_reconsume=None if terms.ordered else terms.most,
        )
        consumer.start().addErrback(self._not_started)

    def _not_started(self, failure: Failure) -> None:
        if self._muted:
            return
        failure.trap(ClientError)
        if self.running:
            self._again = self._clock.callLater(AGAIN, self._begin)

    def stopService(self) -> Deferred[None]:
        """See IService."""
        super().stopService()
        if self._again is not None:
            self._again.cancel()
        closed: Deferred[None] = self._cluster.close()
        return closed.addErrback(self._not_closed)

    def _not_closed(self, failure: Failure) -> None:
        if not self._muted:
            failure.raiseException()

    def mute(self) -> None:
        """The process has been killed, or the run is over: whatever its coroutines do when they are collected
        doesn't count."""
        self._muted = True
        for name in ("debug", "info", "warn", "error", "exception"):
            setattr(self._cluster.driver.log, name, _unheard)

    def _work(self, batch: Sequence[ReceivedMessage]) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self._clock.callLater(self._random.random() * WORK, done.callback, None)
        return done.addCallback(lambda _: self._worked(batch))

    def _worked(self, batch: Sequence[ReceivedMessage]) -> None:
        failed = any(map(self._fails, batch))
        if failed and len(batch) > 1:
            raise Rejected  # comes again in halves, of which this counts
        for message in batch:
            queue = message.queue
            place = Place(queue.topic, queue.queue_id, message.queue_offset, message.commit_log_offset)
            self._consumption.delivered(
                Seen(place, message.body), failed=failed, times=message.reconsume_times
            )
        if failed:
            raise Rejected

    def _fails(self, message: ReceivedMessage) -> bool:
        if self._consumption.terms.ordered:
            return self._random.random() < FAILS_IN_ORDER
        number = int(message.body[:8])
        return not number % FAILS_ALWAYS or (not number % FAILS_ONCE and not message.reconsume_times)


def _unheard(*_words: object, **_fields: object) -> None:
    return None
