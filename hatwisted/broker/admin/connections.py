"""Who is connected: GET_CONSUMER_CONNECTION_LIST 203, GET_PRODUCER_CONNECTION_LIST 204, GET_ALL_PRODUCER_INFO 328.

What the tables of clients know, in the words of RocketMQ's tools. By 206 tools know that a consumer group is
offline, and do their work another way.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import msgspec

from hatwisted.broker.consumer.clienttable import ClientTable, Member
from hatwisted.broker.filter.subscriptiondata import Subscription
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.consumerdata import ALL_TAGS
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import text_field


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
    """The answer to 203."""

    connection_set: list[Connection]
    consume_from_where: str
    consume_type: str
    message_model: str
    subscription_table: dict[str, SubscriptionData]


class ProducerInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One producer of 328. remote_ip: "/host:port" as Java prints an address; times in ms."""

    client_id: str
    language: str
    last_update_timestamp: int
    remote_ip: str = msgspec.field(name="remoteIP")
    version: int


class ConnectionProcessors:
    """Answers for the table of clients."""

    def __init__(self, clients: ClientTable) -> None:
        self._clients = clients

    def register_on(self, table: ProcessorTable) -> None:
        for code, handler in (
            (RequestCode.GET_CONSUMER_CONNECTION_LIST, self.consumers),
            (RequestCode.GET_PRODUCER_CONNECTION_LIST, self.producers),
            (RequestCode.GET_ALL_PRODUCER_INFO, self.all_producers),
        ):
            table.register(code, answer_bad_requests(handler))

    def consumers(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        name = text_field(request.ext, "consumerGroup")
        group = self._clients.consumers.get(name)
        if group is None:
            remark = f"the consumer group[{name}] not online"
            return response(request, ResponseCode.CONSUMER_NOT_ONLINE, remark)
        body = ConsumerConnection(
            connection_set=_connections(group.members),
            consume_from_where=group.data.consume_from,
            consume_type=group.data.consume_type,
            message_model=group.data.message_model,
            subscription_table={
                topic: subscription_data(wanted) for topic, wanted in group.subscriptions.items()
            },
        )
        return response(request, body=fastjson.dumps_compact(body))

    def producers(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        name = text_field(request.ext, "producerGroup")
        members = self._clients.producers.get(name)
        if members is None:
            remark = f"the producer group[{name}] not exist"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        return response(request, body=fastjson.dumps_compact({"connectionSet": _connections(members)}))

    def all_producers(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        groups = {
            name: [_producer(key, member) for key, member in members.items()]
            for name, members in self._clients.producers.items()
        }
        return response(request, body=fastjson.dumps_compact({"data": groups}))


def _connections(members: Mapping[Hashable, Member]) -> list[Connection]:
    return [
        Connection(
            client_addr=_peer(key),
            client_id=member.client_id,
            language=member.language,
            version=member.version,
        )
        for key, member in members.items()
    ]


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
