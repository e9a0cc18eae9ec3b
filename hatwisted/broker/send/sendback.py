"""CONSUMER_SEND_MSG_BACK (36): a consumer couldn't deal with a message and wants it again later.

The broker reads the message out of its own log, so the request is small: a copy goes to the group's retry
topic by way of a delay level (3 + how often it has been tried, unless the consumer chooses one), or, tried
often enough, or with a level below 0, to the group's dead letters. The copy carries the topic and the id of
the original message. Rules of RocketMQ 4.9.7's SendMessageProcessor.

The consumer forgets the message once it has the answer. So that comes when the copy is as safe as the flush and
replication mode says, and otherwise with the codes of a send. (RocketMQ answers after the append.) Whatever isn't
SUCCESS makes the consumer send the copy itself, as an ordinary message to the retry topic; see `send`. So a copy
that no slave acknowledged in time may be there twice; where it's known that none will, none is stored here.

A master that has lost the end of its log puts other messages where those were that consumers still work on. So the
message at the offset has to be the one that the consumer names. (RocketMQ takes back what it finds there.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from twisted.internet.defer import Deferred

from hatwisted.broker.consumer.consumerprocessors import ConsumerTables
from hatwisted.broker.consumer.subscriptiongroup import GroupConfig
from hatwisted.broker.delay.delayrouting import route_delayed, without_delay
from hatwisted.broker.put.innerput import STOPPING, InnerMessage, InnerPuts
from hatwisted.broker.put.responsecode import response_code
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.requests import Refusal, answer_bad_requests
from hatwisted.broker.send.deadletter import dead_letter_topic, max_times, retry_topic, unknown_group
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.log.put import STORED, Put, PutStatus
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.layout import (
    PROPERTY_DELAY,
    PROPERTY_ORIGIN_ID,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_UNIQ_KEY,
    PROPERTY_WAIT,
    SCHEDULE_TOPIC,
)
from hatwisted.wire.messageid import encode_message_id
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import bool_field, int_field, long_field, text_field
from hatwisted.wire.storedrecord import Record
from hatwisted.wire.topics import DLQ_PREFIX, RETRY_PREFIX

FIRST_LEVEL = 3
"""Delay level of the first repetition; each further one waits a level longer."""

MOST_TIMES = (1 << 31) - 1
"""A record has no room for a greater count; a producer may begin with this one."""

NO_SLAVE = "no slave is connected, or close enough to be waited for: the copy isn't stored"

_UNIT_RETRY = 2
"""topicSysFlag of the retry topic of a group in unit mode."""

_COPIES = (RETRY_PREFIX, DLQ_PREFIX, SCHEDULE_TOPIC)
"""Begin the names of topics with messages that have been taken back before."""

Answer = RemotingCommand | Deferred[RemotingCommand]


class SendBackHeader(msgspec.Struct, frozen=True):
    """offset: of the message in the log; max_times: None if the consumer doesn't say."""

    group: str
    offset: int
    delay_level: int
    unit_mode: bool
    max_times: int | None


def parse_send_back(request: RemotingCommand) -> SendBackHeader:
    """The header of a 36; raises BadRequestField."""
    ext = request.ext
    return SendBackHeader(
        group=text_field(ext, "group"),
        offset=long_field(ext, "offset"),
        delay_level=int_field(ext, "delayLevel"),
        unit_mode=bool_field(ext, "unitMode"),
        max_times=int_field(ext, "maxReconsumeTimes") if ext.get("maxReconsumeTimes") else None,
    )


class SendBackProcessor:
    """Takes messages back on a master.

    - store: has them
    - puts: store the copies
    - tables: the groups' settings, and their topics
    - state: may clients send at present?
    - count: called with (group, topic) of each message taken back
    """

    def __init__(
        self,
        store: MessageStore,
        puts: InnerPuts,
        tables: ConsumerTables,
        state: SendState,
        count: Callable[[str, str], None],
    ) -> None:
        self._store = store
        self._puts = puts
        self._topics = tables.topics
        self._groups = tables.groups
        self._state = state
        self._count = count
        self._turn = 0

    def register_on(self, table: ProcessorTable) -> None:
        """Put the handler into `table`."""
        table.register(RequestCode.CONSUMER_SEND_MSG_BACK, answer_bad_requests(self.take_back))

    def take_back(self, _connection: RemotingConnection, request: RemotingCommand) -> Answer:
        header = parse_send_back(request)
        if self._state.stopping:  # the consumer sends its copy to another master
            return response(request, ResponseCode.SERVICE_NOT_AVAILABLE, STOPPING)
        group = self._groups.find(header.group)
        refusal = self._refusal(header.group, group)
        if refusal is not None or group is None:
            refusal = refusal or unknown_group(header.group)
            return response(request, refusal.code, refusal.remark)
        if group.retry_queue_nums <= 0:
            return response(request)  # the group wants no repetition
        topic = retry_topic(
            self._topics, group.group_name, group.retry_queue_nums, _UNIT_RETRY if header.unit_mode else 0
        )
        if isinstance(topic, Refusal):
            return response(request, topic.code, topic.remark)
        record = self._store.record_at(header.offset)
        if record is None or not _is_meant(record, request.ext):
            return response(
                request, ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}"
            )
        if self._puts.lacks_slave():
            # A copy stored here and not vouched for would be there twice: the consumer sends its own then.
            return response(request, ResponseCode.SLAVE_NOT_AVAILABLE, NO_SLAVE)
        message = self._message(header, group, record, topic, request.version)
        if isinstance(message, Refusal):
            return response(request, message.code, message.remark)
        return self._puts.put(message).addCallback(self._answer, request, header.group, message)

    def _refusal(self, name: str, group: GroupConfig | None) -> Refusal | None:
        return unknown_group(name) if group is None else self._state.forbidden()

    def _message(
        self, header: SendBackHeader, group: GroupConfig, record: Record, topic: str, version: int
    ) -> InnerMessage | Refusal:
        properties = record.properties
        if not record.topic.startswith(_COPIES):
            # Only a copy has an origin; what a producer has written there is none.
            properties.pop(PROPERTY_RETRY_TOPIC, None)
            properties.pop(PROPERTY_ORIGIN_ID, None)
        properties.setdefault(PROPERTY_RETRY_TOPIC, record.topic)
        properties.setdefault(
            PROPERTY_ORIGIN_ID, encode_message_id(record.store_host, record.physical_offset)
        )
        properties[PROPERTY_WAIT] = "false"
        tried = record.reconsume_times
        self._turn += 1
        if tried >= max_times(group, version, header.max_times) or header.delay_level < 0:
            dead = dead_letter_topic(self._topics, group.group_name)
            if isinstance(dead, Refusal):
                return dead
            topic, queue_id, properties = dead, 0, without_delay(properties)
        else:
            properties[PROPERTY_DELAY] = str(header.delay_level or FIRST_LEVEL + tried)
            queue_id = self._turn % self._retry_queues(group, topic)
            topic, queue_id = route_delayed(properties, topic, queue_id, self._store.delay_levels)
        return InnerMessage(
            topic=topic,
            queue_id=queue_id,
            body=record.body,
            properties=properties,
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp=record.born_timestamp,
            born_host=record.born_host.pack(),
            reconsume_times=min(tried + 1, MOST_TIMES),
        )

    def _retry_queues(self, group: GroupConfig, topic: str) -> int:
        """A group may be given more queues than its retry topic has; consumers read those of the topic."""
        config = self._topics.get(topic)
        read = 1 if config is None else config.read_queue_nums
        return max(1, min(group.retry_queue_nums, read))

    def _answer(
        self, put: Put, request: RemotingCommand, group: str, message: InnerMessage
    ) -> RemotingCommand:
        status = put.status
        assert status is not None
        if status is not PutStatus.PUT_OK:
            code = response_code(status) if status in STORED else ResponseCode.SYSTEM_ERROR
            return response(request, code, put.reason or status.value)
        assert not isinstance(message.properties, bytes)
        self._count(group, message.properties[PROPERTY_RETRY_TOPIC])
        return response(request)


def _is_meant(record: Record, ext: Mapping[str, str]) -> bool:
    """Is it the message that a consumer means, as far as it says which? Consumers know a message by its UNIQ_KEY,
    or by its place, and its topic as it was before it came again, or without its namespace."""
    properties = record.properties
    asked, key = ext.get("originMsgId"), properties.get(PROPERTY_UNIQ_KEY)
    if asked and key:
        return asked in (key, encode_message_id(record.store_host, record.physical_offset))
    topic = ext.get("originTopic")
    names = (record.topic, properties.get(PROPERTY_RETRY_TOPIC, ""))
    return not topic or any(f"%{name}".endswith(f"%{topic}") for name in names)


def refuse_send_back(_connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
    """A slave takes nothing; the consumer sends its copy to the master then."""
    return response(
        request,
        ResponseCode.SYSTEM_ERROR,
        "this broker is a slave and takes no messages back; its master does",
    )
