"""What slaves, tools and consumers ask about a broker's tables, queues and messages.

GET_ALL_TOPIC_CONFIG 21, GET_ALL_DELAY_OFFSET 45 and GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201 are how a slave
copies its master's tables (43 is in `offsetsync`); GET_MAX_ and GET_MIN_OFFSET
30 and 31, SEARCH_OFFSET_BY_TIMESTAMP 29 and GET_EARLIEST_MSG_STORETIME 32 give the bounds of a queue,
VIEW_MESSAGE_BY_ID 33 shows one message, GET_TOPIC_CONFIG 351 one topic, GET_BROKER_RUNTIME_INFO 28 the
figures.
"""

from __future__ import annotations

from hatwisted.broker.admin.runtimeinfo import RuntimeInfo
from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.consumer.subscriptiongroup import SubscriptionGroupTable
from hatwisted.broker.delay.delayoffsets import DelayOffsets
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import encode_body
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import int_field, long_field, text_field


class AdminProcessors:
    """Answers for the tables and the store.

    - store, topics, groups, offsets: what is shown, or asked to clean up
    - delays: how far delayed messages are delivered
    - runtime: the figures of 28
    """

    def __init__(
        self,
        store: MessageStore,
        topics: TopicConfigTable,
        groups: SubscriptionGroupTable,
        offsets: ConsumerOffsetTable,
        delays: DelayOffsets,
        runtime: RuntimeInfo,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._delays = delays
        self._runtime = runtime

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        for code, handler in (
            (RequestCode.GET_ALL_TOPIC_CONFIG, self.all_topics),
            (RequestCode.GET_TOPIC_CONFIG, self.topic),
            (RequestCode.GET_ALL_DELAY_OFFSET, self.all_delay_offsets),
            (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self.all_groups),
            (RequestCode.GET_BROKER_RUNTIME_INFO, self.runtime_info),
            (RequestCode.GET_MAX_OFFSET, self.max_offset),
            (RequestCode.GET_MIN_OFFSET, self.min_offset),
            (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.offset_by_time),
            (RequestCode.GET_EARLIEST_MSG_STORETIME, self.earliest_store_time),
            (RequestCode.VIEW_MESSAGE_BY_ID, self.message),
        ):
            table.register(code, answer_bad_requests(handler))

    # ---- tables, for slaves

    def all_topics(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        return response(request, body=self._topics.encode_compact())

    def topic(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        name = text_field(request.ext, "topic")
        config = self._topics.get(name)
        if config is None:
            remark = f"No topic in this broker. topic: {name}"
            return response(request, ResponseCode.TOPIC_NOT_EXIST, remark)
        return response(request, body=encode_body(config))

    def all_delay_offsets(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        return response(request, body=self._delays.encode_compact())

    def all_groups(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        return response(request, body=self._groups.encode_compact())

    def runtime_info(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        return response(request, body=self._runtime.encode())

    # ---- queues and messages

    def max_offset(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        return response(request, ext={"offset": str(self._bounds(request)[1])})

    def min_offset(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        return response(request, ext={"offset": str(self._bounds(request)[0])})

    def _bounds(self, request: RemotingCommand) -> tuple[int, int]:
        return self._store.queue_offsets(*_queue(request))

    def offset_by_time(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        offset = self._store.offset_by_time(*_queue(request), long_field(request.ext, "timestamp"))
        return response(request, ext={"offset": str(offset)})

    def earliest_store_time(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand:
        timestamp = self._store.earliest_store_time(*_queue(request))
        return response(request, ext={"timestamp": str(timestamp)})

    def message(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        offset = long_field(request.ext, "offset")
        record = self._store.look_message(offset)
        if record is None:
            remark = f"can not find message by the offset, {offset}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        return response(request, body=record)


def _queue(request: RemotingCommand) -> tuple[str, int]:
    return text_field(request.ext, "topic"), int_field(request.ext, "queueId")
