"""Who is connected: producer and consumer groups as the clients' heartbeats (34) describe them.

A consumer group lives as long as one connection speaks for it. Its members, its subscriptions and their
newest version are kept here; whoever changes them causes a "members changed" notification (40) to every member,
because each member divides the queues among the ids it gets from GET_CONSUMER_LIST_BY_GROUP (38). Members
go with their connection, with UNREGISTER_CLIENT (35), or after CLIENT_TTL without a heartbeat.

Plain tables: connections are opaque keys, so that the rules can be tested without sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping

import msgspec
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.consumer.heartbeat import MAX_GROUPS_PER_HEARTBEAT, MAX_WORD, ConsumerData, Heartbeat
from hatwisted.broker.filter.subscriptiondata import Subscription
from hatwisted.broker.namesizes import memberships_of
from hatwisted.broker.requests import BadClientData
from hatwisted.wire.consumerdata import BROADCASTING

CLIENT_TTL = 120.0
"""Seconds after its last heartbeat that a client is still counted; clients beat every 30 s (4.9.7: 120 s)."""

MAX_GROUPS_PER_CONNECTION = 2 * MAX_GROUPS_PER_HEARTBEAT
"""Groups that one connection is in, with those that it hasn't named for less than CLIENT_TTL. A heartbeat that
would exceed it is refused."""

MAX_MEMBERSHIPS = 200_000
"""Clients in groups, a client counting once for each of its groups, more often for long names: some 60 MB. A
heartbeat that would exceed it is refused."""

MAX_SUBSCRIPTIONS = 100_000
"""Topics of all consumer groups that are online, one with a long expression counting for each KiB of it: some 100
MB. As above."""

EXPIRY_STEP = 0.002
"""Seconds of one step of looking for silent clients."""

_SILENT = "{key} has sent no heartbeat for {group} for {ttl} s and is dropped from it"


class Member(msgspec.Struct):
    """A client in a group. last_seen: the clock's seconds at its last heartbeat."""

    client_id: str
    language: str
    version: int
    last_seen: float


class ConsumerGroup:
    """The living members of a group and what they subscribed to."""

    def __init__(self, data: ConsumerData) -> None:
        self.data = _settings(data)
        self.members: dict[Hashable, Member] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.size = 0
        """What these count together."""

    @property
    def broadcasting(self) -> bool:
        return self.data.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        return [member.client_id for member in self.members.values()]

    def more(self, data: ConsumerData) -> int:
        """By how much more its subscriptions count after this heartbeat; negative: less."""
        return _size(self._merged(data.subscriptions)) - self.size

    def join(self, key: Hashable, member: Member, data: ConsumerData) -> bool:
        """Take a heartbeat. True if it changed the group's members or subscriptions.

        - key: the connection it came on
        - member: who it is
        - data: the group's part of it
        """
        self.data = _settings(data)
        known = self.members.get(key)
        self.members[key] = member
        return self._subscribe(data.subscriptions) or known is None

    def _subscribe(self, wanted: Iterable[Subscription]) -> bool:
        """The last heartbeat's topics are the group's; within a topic the newest version counts. Changing a
        topic's expression is no news to the members: the queues stay shared as they are."""
        merged = self._merged(wanted)
        news = merged.keys() != self.subscriptions.keys()
        self.subscriptions, self.size = merged, _size(merged)
        return news

    def _merged(self, wanted: Iterable[Subscription]) -> dict[str, Subscription]:
        merged: dict[str, Subscription] = {}
        for topic, subscription in {each.topic: each for each in wanted}.items():
            old = self.subscriptions.get(topic)
            merged[topic] = subscription if old is None or subscription.version > old.version else old
        return merged


def _settings(data: ConsumerData) -> ConsumerData:
    """Without the subscriptions of one member: those of the group are kept."""
    return msgspec.structs.replace(data, subscriptions=())


def _size(subscriptions: Mapping[str, Subscription]) -> int:
    return sum(each.size for each in subscriptions.values())


class ClientTable:
    """All groups and their members.

    - clock: tells who has been silent for too long
    - notify: called with a group's name and its members' connections when its members or topics changed
    - gone: called with a group's name when its last member has left
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        notify: Callable[[str, list[Hashable]], None],
        gone: Callable[[str], None] = lambda group: None,
    ) -> None:
        self._clock = clock
        self._notify = notify
        self._gone = gone
        self.consumers: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, dict[Hashable, Member]] = {}
        self._producer_keys: dict[str, Hashable] = {}
        self._producer_ids: dict[Hashable, str] = {}
        """Client id -> connection of a producer, for replies, and back."""
        self._consumes: dict[Hashable, dict[str, None]] = {}
        self._produces: dict[Hashable, dict[str, None]] = {}
        """The groups of each connection: one that closes needn't be looked for in all."""
        self.memberships = 0
        self.subscriptions = 0
        """How many of MAX_MEMBERSHIPS and MAX_SUBSCRIPTIONS there are."""

    def heartbeat(self, key: Hashable, beat: Heartbeat, language: str, version: int) -> None:
        """A client is there.

        - key: the connection the heartbeat came on
        - beat: its groups
        - language, version: of the client, as in the request's head

        Raises BadClientData if that were more than there may be. Nothing is changed then, but the client stays
        where it is: whoever fills the tables doesn't drive others out.
        """
        try:
            self._check_room(key, beat)
        except BadClientData:
            self._keep(key)
            raise
        member = Member(beat.client_id, language[:MAX_WORD], version, self._clock.seconds())
        for data in beat.consumers:
            group = self.consumers.get(data.group)
            if group is None:
                group = self.consumers[data.group] = ConsumerGroup(data)
            self.memberships += 0 if key in group.members else memberships_of(data.group)
            self._consumes.setdefault(key, {})[data.group] = None
            self.subscriptions -= group.size
            news = group.join(key, member, data)
            self.subscriptions += group.size
            if news:
                self._changed(data.group, group)
        for name in beat.producers:
            members = self.producers.setdefault(name, {})
            self.memberships += 0 if key in members else memberships_of(name)
            members[key] = member
            self._produces.setdefault(key, {})[name] = None
        if beat.producers:
            if self._producer_ids.get(key) != beat.client_id:
                self._forget_producer(key)
            self._producer_keys[beat.client_id] = key
            self._producer_ids[key] = beat.client_id

    def _check_room(self, key: Hashable, beat: Heartbeat) -> None:
        groups = [self.consumers.get(data.group) for data in beat.consumers]
        consumes, produces = self._consumes.get(key, {}), self._produces.get(key, {})
        joined = {data.group for data in beat.consumers} - consumes.keys()
        begun = set(beat.producers) - produces.keys()
        topics = sum(
            (ConsumerGroup(data) if group is None else group).more(data)
            for group, data in zip(groups, beat.consumers, strict=True)
        )
        held = len(consumes) + len(produces)
        if (joined or begun) and held + len(joined) + len(begun) > MAX_GROUPS_PER_CONNECTION:
            raise BadClientData(f"the client is in {held} groups already")
        more = sum(map(memberships_of, joined)) + sum(map(memberships_of, begun))
        if more and self.memberships + more > MAX_MEMBERSHIPS:
            raise BadClientData(f"clients have {self.memberships} memberships in groups already")
        if topics > 0 and self.subscriptions + topics > MAX_SUBSCRIPTIONS:
            raise BadClientData(f"consumer groups have {self.subscriptions} subscriptions already")

    def _keep(self, key: Hashable) -> None:
        now = self._clock.seconds()
        for name in self._consumes.get(key, ()):
            self.consumers[name].members[key].last_seen = now
        for name in self._produces.get(key, ()):
            self.producers[name][key].last_seen = now

    def unregister(self, key: Hashable, producer_group: str | None, consumer_group: str | None) -> None:
        """A client leaves; groups that aren't there are no error.

        - key: its connection
        - producer_group, consumer_group: which of its groups; None: none of that kind
        """
        if producer_group:
            self._drop_producer(producer_group, key)
            if key not in self._produces:
                self._forget_producer(key)
        if consumer_group:
            self._drop_consumer(consumer_group, key)

    def closed(self, key: Hashable) -> None:
        """The connection is gone, and with it its client from every group."""
        self._forget_producer(key)
        for name in list(self._produces.get(key, ())):
            self._drop_producer(name, key)
        for name in list(self._consumes.get(key, ())):
            self._drop_consumer(name, key)

    def consumer(self, group: str, client_id: str) -> tuple[Hashable, Member] | None:
        """Connection and description of one member of a consumer group; None if it isn't there."""
        members = self.consumers[group].members if group in self.consumers else {}
        return next((pair for pair in members.items() if pair[1].client_id == client_id), None)

    def producer(self, client_id: str) -> Hashable | None:
        """The connection of a producer's client; None if it isn't there."""
        return self._producer_keys.get(client_id)

    def subscribes(self, group: str, topic: str) -> bool:
        """Is the group, as far as its members say anything, consuming the topic? True if nobody says anything
        (RocketMQ's statistics leave out what an online group has unsubscribed from)."""
        members = self.consumers.get(group)
        return members is None or not members.subscriptions or topic in members.subscriptions

    def expire(self) -> None:
        """Drop members unheard of for CLIENT_TTL. A client may have left one group and live on in others."""
        for _ in self.expiring():
            pass

    def expiring(self) -> Generator[None, None, None]:
        """The same, stopping whenever it has taken EXPIRY_STEP: there may be MAX_MEMBERSHIPS to drop."""
        limit = self._clock.seconds() - CLIENT_TTL
        pause = self._clock.seconds() + EXPIRY_STEP
        told: set[Hashable] = set()
        for name, key in self._drop_silent(limit):
            if self._clock.seconds() >= pause:
                yield
                pause = self._clock.seconds() + EXPIRY_STEP
            if key is not None and key not in told:  # a line for each of its groups would be a thousand
                told.add(key)
                self._log.warn(_SILENT, key=key, group=name, ttl=CLIENT_TTL)

    def _drop_silent(self, limit: float) -> Iterator[tuple[str, Hashable | None]]:
        """Each that was dropped, with its group; with None when a group has been looked through."""
        for name in list(self.consumers):
            group = self.consumers.get(name)
            for key in () if group is None else _silent(group.members, limit):
                self._drop_consumer(name, key)
                yield name, key
            yield name, None
        for name in list(self.producers):
            for key in _silent(self.producers.get(name, {}), limit):
                self.unregister(key, name, None)
                yield name, key
            yield name, None

    def _drop_producer(self, name: str, key: Hashable) -> None:
        members = self.producers.get(name)
        if members is None or members.pop(key, None) is None:
            return
        _leave(self._produces, key, name)
        self.memberships -= memberships_of(name)
        if not members:
            del self.producers[name]

    def _forget_producer(self, key: Hashable) -> None:
        """Replies no longer go to this connection."""
        client_id = self._producer_ids.pop(key, None)
        if client_id is not None and self._producer_keys.get(client_id) == key:
            del self._producer_keys[client_id]

    def _drop_consumer(self, name: str, key: Hashable) -> None:
        group = self.consumers.get(name)
        if group is None or group.members.pop(key, None) is None:
            return
        _leave(self._consumes, key, name)
        self.memberships -= memberships_of(name)
        if not group.members:
            self.subscriptions -= group.size
            del self.consumers[name]
            self._gone(name)
        self._changed(name, group)

    def _changed(self, name: str, group: ConsumerGroup) -> None:
        if group.members:
            self._notify(name, list(group.members))


def _leave(groups: dict[Hashable, dict[str, None]], key: Hashable, name: str) -> None:
    del groups[key][name]
    if not groups[key]:
        del groups[key]


def _silent(members: Mapping[Hashable, Member], limit: float) -> list[Hashable]:
    return [key for key, member in members.items() if member.last_seen < limit]
