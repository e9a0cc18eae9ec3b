"""Which queues a stream has to read now, and whose brokers answer.

A name server that is down doesn't stop a stream whose brokers are healthy: what was known of the queues stands,
and is asked for again every few seconds.

A group of brokers that is away as a whole doesn't stop the others: its queues wait, for up to a limit, and each
trigger goes on with the rest. Name servers forget a group that is away for long, so a queue that they don't know
is one of an absent group as long as they don't know its broker either. If they do, the queue is gone: its topic
was deleted, or has fewer queues.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from hatwisted.clientcore.errors import BrokerGone, NoNameServer, NoRoute, Refused
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.remote.positions import Bounds
from hatwisted.pipeline.remote.queuepull import queue_name
from hatwisted.pipeline.spark.rocketmqoptions import TopicChoice
from hatwisted.wire.messagequeue import MessageQueue

QUEUES_KNOWN_FOR: Final = 10.0
"""Seconds after which the name servers are asked for queues again (RocketMQ's clients: 30 s)."""
ABSENT_FOR: Final = 5.0
"""Seconds for which a group that doesn't answer isn't asked again: each time may cost the time to connect."""

_log = logging.getLogger(__name__)

Lost = Callable[[str], object]
"""Called with what is lost: raises, or reports it and goes on."""


@dataclass(slots=True)
class _Absence:
    """Of a group. Times in seconds of the watch's clock."""

    since: float
    ask_again: float


class QueueWatch:
    """For one stream.

    - cluster: asks it
    - choice: of topics
    - limit: seconds for which a group may be away
    - lost: told of queues that are gone
    - clock: seconds, monotonic
    """

    def __init__(
        self,
        cluster: ClusterReader,
        choice: TopicChoice,
        limit: float,
        lost: Lost,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._choice = choice
        self._limit = limit
        self._lost = lost
        self._clock = clock
        self._queues: Queues = {}
        self._queues_until = 0.0
        self._without_names = False
        self._absent: dict[str, _Absence] = {}
        # Lost, and reported: not looked for at every trigger.
        self._gone: set[MessageQueue] = set()

    def first_queues(self, *, left: bool = False) -> Queues:
        """All queues; an error unless all of them can be read. left: or else those of the topics there are."""
        choose = self._choice.queues_left if left else self._choice.queues
        self._queues = choose(self._cluster)
        self._queues_until = self._clock() + QUEUES_KNOWN_FOR
        return self._queues

    def queues(self, reached: Collection[MessageQueue], *, wait: bool, retries: int) -> Queues:
        """Those that can be read now, without those of absent groups. Before a queue counts as gone it's looked
        for as long as a broker may take to restart.

        - reached: of which the stream has read something
        - wait: for absent groups, too, as long
        - retries: how often to look again
        """
        for tried in range(retries + 1):
            try:
                queues = self._look(reached)
            except (NoRoute, BrokerGone) as error:
                # Who has read nothing asks for the first queues, and that has tried all name servers as often.
                asked_enough = isinstance(error, NoNameServer) and not reached
                if tried == retries or asked_enough:
                    raise
            else:
                missing = set(reached) - queues.keys() - self._gone
                missing -= set() if wait else self._of_absent_groups(missing)
                if not missing:
                    return queues
                if tried == retries:
                    break
            self._queues_until = 0.0
            self._cluster.pause(tried)
        first, *others = sorted(map(queue_name, missing))
        more = f" and {len(others)} more" if others else ""
        self._lost(f"{first}{more}: no name server knows it any more")
        self._gone |= missing
        return queues

    def is_gone(self, queue: MessageQueue) -> bool:
        """Was it lost, and is that reported?"""
        return queue in self._gone and queue not in self._queues

    def bounds(self, queues: Queues, *, wait: bool) -> dict[MessageQueue, Bounds]:
        """Where each queue begins and ends now, without those of absent groups.

        - queues: which
        - wait: for absent groups, and fail if they stay away
        """
        if wait:
            return self._cluster.bounds(queues)
        found = self._cluster.bounds(self.present(queues), self.is_absent)
        for name in {queue.broker_name for queue in found} & self._absent.keys():
            absence = self._absent.pop(name)
            _log.warning("rocketmq: broker %s is back after %.0f s", name, self._clock() - absence.since)
        return found

    def present(self, queues: Queues) -> Queues:
        """Without those of groups that didn't answer a moment ago."""
        now = self._clock()
        asleep = {name for name, absence in self._absent.items() if absence.ask_again > now}
        return {queue: replicas for queue, replicas in queues.items() if queue.broker_name not in asleep}

    def is_absent(self, name: str, why: Exception) -> None:
        """Note that no broker of a group answers; raises BrokerGone beyond the limit."""
        now = self._clock()
        absence = self._absent.get(name)
        if absence is None:
            absence = self._absent[name] = _Absence(now, now)
            _log.warning(
                "rocketmq: broker %s is away: its queues wait for it, up to %.0f s (brokerAwayMs); "
                "the others go on: %s",
                name,
                self._limit,
                why,
            )
        absence.ask_again = now + ABSENT_FOR
        if now - absence.since > self._limit:
            raise BrokerGone(f"rocketmq: {self._too_long(name, why)}: start the query again once it's back")

    def _too_long(self, name: str, why: object) -> str:
        away = self._clock() - self._absent[name].since
        return f"broker {name} has been away for {away:.0f} s, and brokerAwayMs allows {self._limit:.0f} s: {why}"

    # ---- name servers

    def _look(self, reached: Collection[MessageQueue]) -> Queues:
        if self._clock() < self._queues_until:
            return self._queues
        if not reached:
            return self.first_queues()
        try:
            queues, unknown = self._choice.queues_now(self._cluster)
        except NoNameServer as error:
            if not self._queues:
                raise
            if not self._without_names:
                _log.warning("rocketmq: going on with the queues known before: %s", error)
            self._without_names = True
        else:
            read = {queue.topic for queue in reached}
            for topic in sorted(unknown - read):
                raise NoRoute(
                    topic, "the name servers don't know it (`hatwisted topic list` shows what there is)"
                )
            self._queues, self._without_names = queues, False
        self._queues_until = self._clock() + QUEUES_KNOWN_FOR
        return self._queues

    def _of_absent_groups(self, missing: Collection[MessageQueue]) -> set[MessageQueue]:
        """Those of groups that the name servers don't know either."""
        if not missing:
            return set()
        try:
            alive = self._cluster.broker_names()
        except (BrokerGone, Refused) as error:
            _log.info("rocketmq: which brokers are alive can't be asked: %s", error)
            return set()
        names = {queue.broker_name for queue in missing} - alive
        for name in sorted(names):
            unknown = BrokerGone("no name server knows it any more")
            try:
                self.is_absent(name, unknown)
            except BrokerGone:
                # It may be gone for good, and whoever removed it has to get past it.
                self._lost(self._too_long(name, unknown))
                self._gone |= {queue for queue in missing if queue.broker_name == name}
        return {queue for queue in missing if queue.broker_name in names}
