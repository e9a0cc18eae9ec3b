"""Who is connected: GET_CONSUMER_CONNECTION_LIST 203, GET_PRODUCER_CONNECTION_LIST 204, GET_ALL_PRODUCER_INFO 328.

What the tables of clients know, in the words of RocketMQ's tools. By 206 tools know that a consumer group is
offline, and do their work another way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping
from typing import Final

import msgspec
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.consumer.clienttable import ClientTable, Member
from hatwisted.broker.filter.subscriptiondata import Subscription
from hatwisted.broker.requests import Walk, answer_in_steps
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.steps import Steps
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.consumerdata import ALL_TAGS
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import text_field

MEMBERS_PER_STEP: Final = 500
"""Members of groups described in one step."""

SUBSCRIPTIONS_PER_STEP: Final = 100
"""Subscriptions described in one step, counted as `clienttable.MAX_SUBSCRIPTIONS` counts them."""


class Connection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One client of a group; client_addr: "host:port"."""

    client_addr: str
    client_id: str
    language: str
    version: int


class SubscriptionData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic's subscription, with the fields of the client's own object."""

    class_filter_mode: bool
    code_set: list[int]
    expression_type: str
    sub_string: str
    sub_version: int
    tags_set: list[str]
    topic: str


class ConsumerConnection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to 203, its parts written already."""

    connection_set: msgspec.Raw
    consume_from_where: str
    consume_type: str
    message_model: str
    subscription_table: dict[str, msgspec.Raw]


class ProducerInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One producer of 328. remote_ip: "/host:port" as Java prints an address; times in ms."""

    client_id: str
    language: str
    last_update_timestamp: int
    remote_ip: str = msgspec.field(name="remoteIP")
    version: int


class ConnectionProcessors:
    """Answers for the table of clients, which one client may fill: they are made in steps.

    - clock: measures the steps' turns
    - clients: the table
    """

    def __init__(self, clock: IReactorTime, clients: ClientTable) -> None:
        self._clients = clients
        self._steps = Steps(clock, "listing connected clients")

    def register_on(self, table: ProcessorTable) -> None:
        for code, handler in (
            (RequestCode.GET_CONSUMER_CONNECTION_LIST, self.consumers),
            (RequestCode.GET_PRODUCER_CONNECTION_LIST, self.producers),
            (RequestCode.GET_ALL_PRODUCER_INFO, self.all_producers),
        ):
            table.register(code, answer_in_steps(self._steps, handler))

    def consumers(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        name = text_field(request.ext, "consumerGroup")
        group = self._clients.consumers.get(name)
        if group is None:
            remark = f"the consumer group[{name}] not online"
            return response(request, ResponseCode.CONSUMER_NOT_ONLINE, remark)
        data, subscriptions = group.data, group.subscriptions
        members = yield from _list_text(group.members, _connection_of)
        table, walked = {}, 0
        for topic, wanted in subscriptions.items():  # replaced by a heartbeat, never changed
            if walked >= SUBSCRIPTIONS_PER_STEP:
                yield
                walked = 0
            walked += wanted.size
            table[topic] = msgspec.Raw(fastjson.dumps_compact(subscription_data(wanted)))
        body = ConsumerConnection(
            connection_set=members,
            consume_from_where=data.consume_from,
            consume_type=data.consume_type,
            message_model=data.message_model,
            subscription_table=table,
        )
        return response(request, body=fastjson.dumps_compact(body))

    def producers(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        name = text_field(request.ext, "producerGroup")
        members = self._clients.producers.get(name)
        if members is None:
            remark = f"the producer group[{name}] not exist"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        connections = yield from _list_text(members, _connection_of)
        return response(request, body=fastjson.dumps_compact({"connectionSet": connections}))

    def all_producers(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        producers, walked = self._clients.producers, 0
        groups: dict[str, msgspec.Raw] = {}
        for name in list(producers):
            if walked >= MEMBERS_PER_STEP:
                yield
                walked = 0
            members = producers.get(name)
            if members is not None:  # else they left meanwhile
                walked += len(members)
                groups[name] = yield from _list_text(members, _producer)
        return response(request, body=fastjson.dumps_compact({"data": groups}))


def _list_text(
    members: Mapping[Hashable, Member], describe: Callable[[Hashable, Member], msgspec.Struct]
) -> Generator[None, None, msgspec.Raw]:
    """A list of them as JSON, without those who leave meanwhile."""
    keys, pieces = list(members), []
    for at in range(0, len(keys), MEMBERS_PER_STEP):
        if at:
            yield
        here = [describe(key, members[key]) for key in keys[at : at + MEMBERS_PER_STEP] if key in members]
        if here:
            pieces.append(fastjson.dumps_compact(here)[1:-1])
    return msgspec.Raw(b"[" + b",".join(pieces) + b"]")


def _connection_of(key: Hashable, member: Member) -> Connection:
    return Connection(
        client_addr=_peer(key),
        client_id=member.client_id,
        language=member.language,
        version=member.version,
    )


def _producer(key: Hashable, member: Member) -> ProducerInfo:
    return ProducerInfo(
        client_id=member.client_id,
        language=member.language,
        last_update_timestamp=int(member.last_seen * 1000),
        remote_ip=f"/{_peer(key)}",
        version=member.version,
    )


def _peer(key: Hashable) -> str:
    assert isinstance(key, RemotingConnection)
    return key.peer


def subscription_data(wanted: Subscription) -> SubscriptionData:
    tags = [] if wanted.tags_codes is None else [tag.strip() for tag in wanted.expression.split("||")]
    return SubscriptionData(
        class_filter_mode=wanted.class_filter,
        code_set=sorted(wanted.tags_codes or ()),
        expression_type=wanted.expression_type,
        sub_string=wanted.expression or ALL_TAGS,
        sub_version=wanted.version,
        tags_set=[tag for tag in tags if tag],
        topic=wanted.topic,
    )
