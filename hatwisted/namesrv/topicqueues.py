"""Which groups have queues of which topics.

There may be hundreds of thousands, of one group too: they come, and leave with their group, STEP at a time,
between which a name server does its other work. No route has what is leaving.

Each host has a share of the room (`routeshares`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from itertools import islice

import msgspec
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.namesrv.members import queues_of_topics
from hatwisted.namesrv.routeshares import SHARE, RouteShares
from hatwisted.timing.steps import Steps
from hatwisted.wire.registration import BadRegistration, QueueData, TopicConfig

MAX_ROUTES = 200_000
"""Topics of all groups together, a topic counting once for each group that has it: some 90 MB."""

MAX_CHARACTERS = 12 << 20
"""Of all topics' names together: an answer lists them all, and no client takes one of more than 16 MiB."""

MAX_NAME = 255
"""Characters of a topic, a group, a cluster, an address."""

STEP = 1000
"""Topics in a row: a millisecond."""


class TopicQueues:
    """Topic -> group -> queues. Invariant: a topic has at least one group.

    - clock: measures the steps
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._groups: dict[str, dict[str, QueueData]] = {}
        self._topics: dict[str, dict[str, str]] = {}
        """Group -> topic -> the host that registered it: one that goes needn't look through all topics."""
        self._shares = RouteShares()
        self._leaving: deque[tuple[str, Iterator[str]]] = deque()
        """Groups that have gone, and those of their topics that may have queues of theirs yet."""
        self._sweeping = False
        self._steps = Steps(clock, "forgetting topics")
        self._promised = 0
        """How many more routes there will be at most, once what is being entered is."""
        self._promised_characters = 0
        self._characters = 0
        """How many of MAX_CHARACTERS there are."""
        self.routes = 0
        """How many of MAX_ROUTES there are."""
        self.version = 0
        """Another one after each change of which topics there are, and whose."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def topics_of(self, group_name: str) -> Collection[str]:
        """Names of a group's topics."""
        return self._topics.get(group_name, ())

    def of(self, topic: str) -> Mapping[str, QueueData]:
        """Group -> its queues of the topic."""
        queues = self._groups.get(topic, {})
        if not self._leaving:
            return queues
        return {name: data for name, data in queues.items() if topic in self._topics.get(name, ())}

    # ---- coming

    def check_room(self, group_name: str, topics: Collection[str], host: str) -> None:
        """Raises BadRegistration if there is none.

        - group_name: of the group
        - topics: that it is to have
        - host: that says so
        """
        sizes = [*map(len, topics)]
        if max(sizes, default=0) > MAX_NAME:
            raise BadRegistration(f"a topic's name has at most {MAX_NAME} characters")
        characters = self._characters + self._promised_characters
        if characters + sum(sizes) > MAX_CHARACTERS:
            more = sum(len(topic) for topic in topics if topic not in self._groups)
            if characters + more > MAX_CHARACTERS:
                raise BadRegistration(
                    f"topics' names have {characters} characters, {more} more would exceed {MAX_CHARACTERS}"
                )
        entered = self.routes + self._promised
        if entered + len(topics) > MAX_ROUTES:
            new = sum(group_name not in self._groups.get(topic, ()) for topic in topics)
            if entered + new > MAX_ROUTES:
                raise BadRegistration(
                    f"{entered} topics of groups are registered, {new} more would exceed {MAX_ROUTES}"
                )
        self._check_share(group_name, topics, host)

    def _check_share(self, group_name: str, topics: Collection[str], host: str) -> None:
        held, routes, characters = self._shares.of(host), MAX_ROUTES // SHARE, MAX_CHARACTERS // SHARE
        if held.routes + len(topics) <= routes and held.characters + sum(map(len, topics)) <= characters:
            return
        new = self._new_to(host, group_name, topics)
        if held.routes + len(new) > routes:
            raise BadRegistration(
                f"{held.routes} topics of groups are registered from {host}, {len(new)} more would exceed "
                f"{routes}, its share"
            )
        more = sum(map(len, new))
        if held.characters + more > characters:
            raise BadRegistration(
                f"names of topics that are registered from {host} have {held.characters} characters, {more} more "
                f"would exceed {characters}, its share"
            )

    def _new_to(self, host: str, group_name: str, topics: Iterable[str]) -> list[str]:
        """Those topics of a group that the host hasn't registered."""
        known = self._topics.get(group_name, {})
        return [topic for topic in topics if known.get(topic) != host]

    def add(self, topic: str, data: QueueData, host: str) -> None:
        """A group has these queues of the topic.

        - topic: its name
        - data: the queues
        - host: that says so
        """
        groups = self._groups.get(topic)
        if groups is None:
            groups = self._groups[topic] = {}
            self._characters += len(topic)
        self.routes += data.broker_name not in groups
        groups[data.broker_name] = data
        self.version += 1
        topics = self._topics.setdefault(data.broker_name, {})
        former = topics.get(topic)
        if former != host:
            if former is not None:
                self._shares.uncount(data.broker_name, former, len(topic))
            self._shares.count(data.broker_name, host, len(topic))
            topics[topic] = host

    def merge(
        self, group_name: str, topics: Mapping[str, TopicConfig], host: str, stays: Callable[[], bool]
    ) -> Generator[None, None, None]:
        """A group has these topics, too, for which there is room.

        - group_name: its name
        - topics: by their names
        - host: that says so
        - stays: asked after each step; BadRegistration if it has gone
        """
        queues_of = queues_of_topics(group_name)
        left = iter(topics.values())
        characters = sum(map(len, topics))
        large = len(topics) > STEP
        self._promised += len(topics)
        self._promised_characters += characters
        promise = self._shares.promise(host, self._new_to(host, group_name, topics) if large else ())
        try:
            while some := [*islice(left, STEP)]:
                promise.redeem(self._new_to(host, group_name, (topic.topic_name for topic in some)))
                for topic in some:
                    self.add(topic.topic_name, queues_of(topic), host)
                if large:
                    yield
                    if not stays():
                        raise BadRegistration(
                            f"{group_name} left, or registered anew, while its topics were being entered"
                        )
        finally:
            self._promised -= len(topics)
            self._promised_characters -= characters
            promise.drop()

    # ---- going

    def drop(self, topic: str, group_name: str) -> None:
        """A group hasn't the topic any more."""
        host = self._topics.get(group_name, {}).pop(topic, None)
        if host is not None:
            self._shares.uncount(group_name, host, len(topic))
        self._forget(topic, group_name)

    def leave(self, group_name: str) -> None:
        """A group has gone. Follow by `sweep`, once for many."""
        self.version += 1
        topics = self._topics.pop(group_name, None)
        self._shares.leave(group_name)
        if topics:
            self._leaving.append((group_name, iter(topics)))

    def sweep(self) -> None:
        """Forget what has gone: STEP at once, the rest from time to time."""
        if self._leaving and not self._sweeping:
            self._sweeping = True
            self._steps.run(self, self._sweep()).addErrback(
                lambda failure: self._log.failure("forgetting topics failed", failure)
            )

    def _sweep(self) -> Generator[None, None, None]:
        left = STEP
        try:
            while self._leaving:
                group_name, topics = self._leaving[0]
                some = [*islice(topics, left)]
                for topic in some:
                    if topic not in self._topics.get(group_name, ()):  # it hasn't come back
                        self._forget(topic, group_name)
                left -= len(some)
                if left:
                    self._leaving.popleft()
                else:
                    yield
                    left = STEP
        finally:
            self._sweeping = False

    def _forget(self, topic: str, group_name: str) -> None:
        self.version += 1
        queues = self._groups.get(topic)
        if queues is not None and queues.pop(group_name, None) is not None:
            self.routes -= 1
            if not queues:
                del self._groups[topic]
                self._characters -= len(topic)

    # ---- permissions

    def permissions(self, group_name: str) -> dict[str, int]:
        """Permission, as text -> how many topics have it in a group."""
        topics = self._topics.get(group_name, ())
        held = Counter(self._groups[topic][group_name].perm for topic in topics)
        return {str(perm): count for perm, count in sorted(held.items())}

    def set_permission(self, group_name: str, change: Callable[[int], int]) -> int:
        """Of all topics of a group; returns how many."""
        topics = self._topics.get(group_name, ())
        changed: dict[QueueData, QueueData] = {}
        for topic in topics:
            queues = self._groups[topic]
            data = queues[group_name]
            if data not in changed:
                changed[data] = msgspec.structs.replace(data, perm=change(data.perm))
            queues[group_name] = changed[data]
        return len(topics)
