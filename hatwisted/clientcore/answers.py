"""Values out of the answers of brokers and name servers: the one place that takes a body or a field apart.

An answer may come from a foreign program or be damaged; whatever is wrong with it is a BadAnswer that names who
gave it, so that nothing else leaves the client. A list or table that RocketMQ leaves out when it's empty may be
missing; one that it always writes may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from hatwisted.clientcore.errors import BadAnswer
from hatwisted.wire.messagequeue import MessageQueue, parse_queue_key
from hatwisted.wire.registration import BadRegistration, TopicRoute, decode_body
from hatwisted.wire.remoting import RemotingCommand

T = TypeVar("T")

MAX_ROUTE_QUEUES: Final = 1 << 18
"""Queues of one topic, to read and to write, at all brokers: some 60 MB as objects."""


NO_REMARK: Final = "not set any response code"
"""What every answer of RocketMQ's begins with; where it has succeeded, some brokers leave it there."""


class TopicList(msgspec.Struct, rename="camel"):
    """Of 206: names of topics."""

    topic_list: list[str] | None = None


class RuntimeInfo(msgspec.Struct):
    """Of 28: a broker's words about itself."""

    table: dict[str, Any]


class GroupTable(msgspec.Struct, rename="camel"):
    """Of 201: settings by consumer group."""

    subscription_group_table: dict[str, dict[str, Any]] | None = None


class ConnectedClient(msgspec.Struct, rename="camel"):
    """A member of a group."""

    client_id: str
    client_addr: str


class ConnectionList(msgspec.Struct, rename="camel"):
    """Of 203: the members of a group and where they are."""

    connection_set: list[ConnectedClient] | None = None


class MemberList(msgspec.Struct, rename="camel"):
    """Of 38: the client ids of a group."""

    consumer_id_list: list[str] | None = None


class TopicOffset(msgspec.Struct, rename="camel"):
    """A queue's first and next offset."""

    min_offset: int
    max_offset: int


class TopicStats(msgspec.Struct, rename="camel"):
    """Of 202, by queue."""

    offset_table: dict[str, TopicOffset]


class GroupOffset(msgspec.Struct, rename="camel"):
    """A group's place in a queue, the queue's end, and the store time (ms) of what was consumed last."""

    consumer_offset: int
    broker_offset: int
    last_timestamp: int = 0


class ConsumeStatsTable(msgspec.Struct, rename="camel"):
    """Of 208, by queue."""

    offset_table: dict[str, GroupOffset]


class ResetOffsets(msgspec.Struct, rename="camel"):
    """Of 222: the new offsets, by queue."""

    offset_table: dict[str, int] | None = None


class LockedQueues(msgspec.Struct):
    """Of 41: the queues whose locks were granted."""

    queues: list[MessageQueue] | None = msgspec.field(name="lockOKMQSet", default=None)


def decoded(address: str, answer: RemotingCommand, kind: type[T]) -> T:
    """The body of an answer. BadAnswer if it can't be one of this kind.

    - address: who gave it, for the error
    - answer: in JSON
    - kind: what the body should be
    """
    try:
        return decode_body(answer.body, kind)
    except BadRegistration as error:
        raise BadAnswer(f"{address}: unreadable answer, {error}") from None


def decoded_route(address: str, answer: RemotingCommand) -> TopicRoute:
    """The route in an answer. BadAnswer if it can't be one, or has more than MAX_ROUTE_QUEUES.

    - address: who gave it, for the error
    - answer: to a GET_ROUTEINFO_BY_TOPIC
    """
    route = decoded(address, answer, TopicRoute)
    queues = sum(data.read_queue_nums + data.write_queue_nums for data in route.queue_datas)
    if queues > MAX_ROUTE_QUEUES:
        raise BadAnswer(f"{address}: a route of {queues} queues, at most {MAX_ROUTE_QUEUES} make sense")
    return route


def by_queue(address: str, table: Mapping[str, T]) -> dict[MessageQueue, T]:
    """A decoded table whose keys are queues. BadAnswer if one isn't."""
    try:
        return {parse_queue_key(key): value for key, value in table.items()}
    except ValueError as error:
        raise BadAnswer(f"{address}: unreadable key in its answer, {error}") from None


def remark_in(answer: RemotingCommand) -> str:
    """What a broker says of something that it has done; "" if that's nothing."""
    return "" if answer.remark is None or answer.remark == NO_REMARK else answer.remark


def number_in(address: str, answer: RemotingCommand, name: str) -> int:
    """A number out of an answer's fields. BadAnswer if it isn't there.

    - address: who gave it, for the error
    - answer: which
    - name: of the field
    """
    try:
        return int(answer.ext[name])
    except (KeyError, ValueError):
        raise BadAnswer(
            f"{address}: its answer's field {name} is {answer.ext.get(name)!r}, not a number"
        ) from None
