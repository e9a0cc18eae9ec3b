"""What a route table has of a broker, and how brokers leave it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import NamedTuple

import msgspec

from hatwisted.wire.registration import DataVersion, QueueData, TopicConfig


class Member(msgspec.Struct, frozen=True):
    """One broker of a group. `address` and `ha_address` are "host:port"."""

    cluster: str
    group: str
    id: int
    address: str
    ha_address: str = ""


class Master(msgspec.Struct, frozen=True):
    """Where a slave finds its master."""

    address: str
    ha_address: str


class Source(NamedTuple):
    """Where somebody's word for a broker comes from. connection: on which; host: its address, as `counted_as` has
    it."""

    connection: Hashable
    host: str


class Lease:
    """A living member.

    - member: who it is, and where
    - version: of the topics that it has registered
    - source: of its last registration
    - filter_servers: their addresses
    - renewed: seconds since the epoch of its last word
    """

    __slots__ = ("filter_servers", "member", "renewed", "source", "version")

    def __init__(
        self,
        member: Member,
        version: DataVersion,
        source: Source,
        filter_servers: list[str],
        renewed: float,
    ) -> None:
        self.member = member
        self.version = version
        self.source = source
        self.filter_servers = filter_servers
        self.renewed = renewed

    def is_of(self, source: Source) -> bool:
        """May this one speak for the broker? Brokers connect again, so another connection of their host may."""
        return self.source.connection is source.connection or self.source.host == source.host


def queues_of_topics(group_name: str) -> Callable[[TopicConfig], QueueData]:
    """Tells what a group has of a topic. Topics that are alike share it: most are."""
    known: dict[tuple[int, ...], QueueData] = {}

    def queues_of(topic: TopicConfig) -> QueueData:
        shape = (topic.perm, topic.read_queue_nums, topic.topic_sys_flag, topic.write_queue_nums)
        queues = known.get(shape)
        if queues is None:
            perm, reads, flags, writes = shape
            queues = known[shape] = QueueData(
                broker_name=group_name,
                perm=perm,
                read_queue_nums=reads,
                topic_sys_flag=flags,
                write_queue_nums=writes,
            )
        return queues

    return queues_of


class Gone(Enum):
    """Why a broker isn't registered any more."""

    UNREGISTERED = "unregistered"
    """It said so."""
    CLOSED = "connection_closed"
    EXPIRED = "lease_expired"
    RENAMED = "renamed"
    """Its address is in another group now."""


class Size(NamedTuple):
    """How much a route table holds. leaderless: groups without a living master; routes: topics of all groups, one
    counting once for each group that has it."""

    brokers: int
    groups: int
    leaderless: int
    topics: int
    routes: int
