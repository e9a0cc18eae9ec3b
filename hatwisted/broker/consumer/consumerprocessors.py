"""Requests by which consumer groups share their queues: heartbeats, members, progress.

HEART_BEAT 34, UNREGISTER_CLIENT 35, GET_CONSUMER_LIST_BY_GROUP 38, QUERY_ and UPDATE_CONSUMER_OFFSET 14 and
15, CHECK_CLIENT_CONFIG 46, and the notification NOTIFY_CONSUMER_IDS_CHANGED 40 that goes out. Master and slave
answer alike; a slave makes no topics or groups for it, they come from its master.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.consumer.heartbeat import ConsumerData, parse_heartbeat
from hatwisted.broker.consumer.membernotices import Leavers, MemberNotices
from hatwisted.broker.consumer.offsetcommit import OffsetCommits
from hatwisted.broker.consumer.subscriptiongroup import MAX_GROUP_LENGTH, SubscriptionGroupTable
from hatwisted.broker.filter.consumerfilter import ConsumerFilterTable, compile_filter
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.broker.role import Role
from hatwisted.broker.topic.topicconfig import TopicConfigTable, name_problem
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.sqlfilter.errors import Sql92Error
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.steps import Steps
from hatwisted.wire import fastjson
from hatwisted.wire.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from hatwisted.wire.consumerdata import TAG
from hatwisted.wire.layout import MAX_TOPIC_LENGTH
from hatwisted.wire.registration import MAX_QUEUE_IDS, UNIT_SUBSCRIPTION
from hatwisted.wire.remoting import RemotingCommand, encode_command
from hatwisted.wire.requestheader import BadRequestField, bool_field, int_field, long_field, text_field
from hatwisted.wire.topics import RETRY_PREFIX

CLIENT_SCAN_INTERVAL = 10.0
"""Seconds between looks for clients that have gone silent."""

StartsHot = Callable[[str, int], bool]
"""(topic, queue id): does the queue still begin at offset 0, with a message fresh enough to be in memory?"""


class ConsumerTables(Protocol):
    """The tables that consumers' requests are about."""

    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    filters: ConsumerFilterTable


class ConsumerProcessors:
    """Answers for the tables of clients, groups, topics, offsets and filters.

    - clock: tells who is silent
    - tables: the tables
    - starts_hot: see StartsHot
    - queue_end: (topic, queue id) -> the queue's max offset
    - role: a slave makes no topics
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        tables: ConsumerTables,
        starts_hot: StartsHot,
        queue_end: Callable[[str, int], int],
        role: Role,
    ) -> None:
        self._notices = MemberNotices(clock, self._told, self._tell)
        self.clients = ClientTable(clock, self._notify, tables.filters.unregister)
        self.progress = OffsetCommits(clock, tables.offsets, self.clients, queue_end)
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._filters = tables.filters
        self._starts_hot = starts_hot
        self._role = role
        self._expiring = Steps(clock, "dropping silent clients")
        self._leavers = Leavers(clock, self._leave)
        self._scan = PeriodicCall(clock, "scanning for silent clients", self._expire)

    def start(self) -> None:
        """Start looking for silent clients."""
        self._scan.start(CLIENT_SCAN_INTERVAL)

    def stop(self) -> None:
        """Stop looking, and telling."""
        self._scan.stop()
        self._expiring.forget(self)
        self._leavers.stop()
        self._notices.stop()

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        for code, handler in (
            (RequestCode.HEART_BEAT, self.heartbeat),
            (RequestCode.UNREGISTER_CLIENT, self.unregister),
            (RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.members),
            (RequestCode.QUERY_CONSUMER_OFFSET, self.query_offset),
            (RequestCode.UPDATE_CONSUMER_OFFSET, self.update_offset),
            (RequestCode.CHECK_CLIENT_CONFIG, self.check_client),
        ):
            table.register(code, answer_bad_requests(handler))

    # ---- who is there

    def heartbeat(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        beat = parse_heartbeat(fastjson.loads_request(request.body))
        for data in beat.consumers:
            self._prepare(data)
        connection.on_close(self._leavers.add)
        self.clients.heartbeat(connection, beat, request.language, request.version)
        for data in beat.consumers:
            self._filters.register(data.group, data.subscriptions)
        self._filters.go_on()
        return response(request)

    def _prepare(self, data: ConsumerData) -> None:
        """The group's settings and the topic for what it sends back."""
        group = self._groups.find(data.group)
        retry_topic = RETRY_PREFIX + data.group
        if group is None or self._role.slave or name_problem(retry_topic) is not None:
            return
        flags = UNIT_SUBSCRIPTION if data.unit_mode else 0
        self._topics.ensure(retry_topic, group.retry_queue_nums, sys_flag=flags)

    def _expire(self) -> Deferred[None]:
        return self._expiring.run(self, self.clients.expiring())

    def _leave(self, connection: Hashable) -> None:
        assert isinstance(connection, RemotingConnection)
        self.clients.closed(connection)
        self.progress.closed(connection)

    def _notify(self, group: str, _members: list[Hashable]) -> None:
        """Tell every member that the members changed, unless the group's settings forbid it."""
        config = self._groups.find(group)
        if config is None or config.notify_consumer_ids_changed_enable:
            self._notices.changed(group)

    def _told(self, group: str) -> Iterable[Hashable]:
        found = self.clients.consumers.get(group)
        return () if found is None else list(found.members)

    def _tell(self, group: str, member: Hashable) -> None:
        assert isinstance(member, RemotingConnection)
        if not member.paused:  # who doesn't read looks for himself, every 20 s
            notice = RemotingCommand(
                RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, flag=FLAG_ONEWAY, ext={"consumerGroup": group}
            )
            member.send(encode_command(notice))

    def unregister(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        ext = request.ext
        self.clients.unregister(connection, ext.get("producerGroup"), ext.get("consumerGroup"))
        return response(request)

    def members(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        name = text_field(request.ext, "consumerGroup")
        group = self.clients.consumers.get(name)
        if group is None:
            return response(request, ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
        return response(request, body=fastjson.dumps_compact({"consumerIdList": group.client_ids()}))

    def check_client(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """Asked before a consumer with a filter expression starts: is the expression understood?"""
        content = fastjson.loads_request(request.body)
        data = content.get("subscriptionData") if isinstance(content, dict) else None
        kind = data.get("expressionType") if isinstance(data, dict) else None
        if not isinstance(data, dict) or kind in (None, "", TAG):
            return response(request)
        if not self._filters.enabled:
            remark = f"The broker does not support consumer to filter message by {kind}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        expression = data.get("subString")
        try:
            compile_filter(str(kind), expression if isinstance(expression, str) else "")
        except Sql92Error as error:
            return response(request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
        return response(request)

    # ---- how far they have come

    def query_offset(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """Without a committed offset a small, fresh queue is read from its beginning (4.9.7)."""
        ext = request.ext
        group, topic = text_field(ext, "consumerGroup"), text_field(ext, "topic")
        queue_id = int_field(ext, "queueId")
        self.progress.asked(connection, group, topic, queue_id)
        offset = self._offsets.query(group, topic, queue_id)
        if offset is None or offset < 0:
            if not bool_field(ext, "setZeroIfNotFound", default=True):
                remark = "Not found, do not set to zero, maybe this group boot first"
                return response(request, ResponseCode.QUERY_NOT_FOUND, remark)
            if not self._starts_hot(topic, queue_id):
                remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
                return response(request, ResponseCode.QUERY_NOT_FOUND, remark)
            offset = 0
        return response(request, ext={"offset": str(offset)})

    def update_offset(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """Answered with success even if it came too late to count; see OffsetCommits.

        A master keeps progress in topics that it has, as in 5.x: consumers of a deleted topic go on committing,
        and would skip the first messages of one created again. A slave may not have heard of the topic yet.
        """
        ext = request.ext
        group, topic = text_field(ext, "consumerGroup"), text_field(ext, "topic")
        queue_id, offset = int_field(ext, "queueId"), long_field(ext, "commitOffset")
        if not 0 <= queue_id < MAX_QUEUE_IDS:
            raise BadRequestField("queueId", ext["queueId"])
        if offset < 0:
            raise BadRequestField("commitOffset", ext["commitOffset"])
        if not 0 < len(group) <= MAX_GROUP_LENGTH:
            raise BadRequestField("consumerGroup", group)
        if self._topics.get(topic) is None and (not self._role.slave or name_problem(topic) is not None):
            remark = f"topic[{topic[:MAX_TOPIC_LENGTH]}] not exist, apply first please!"
            return response(request, ResponseCode.TOPIC_NOT_EXIST, remark)
        self.progress.commit(connection, group, topic, queue_id, offset)
        return response(request)
