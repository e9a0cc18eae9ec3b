"""What operators see of topics and queues: GET_TOPIC_STATS_INFO 202, QUERY_TOPIC_CONSUME_BY_WHO 300,
GET_SYSTEM_TOPIC_LIST_FROM_BROKER 305, QUERY_CONSUME_QUEUE 321."""

from __future__ import annotations

import msgspec
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.admin.connections import subscription_data
from hatwisted.broker.admin.consumestats import QUEUES_PER_STEP
from hatwisted.broker.admin.progresswalk import groups_of
from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.requests import Walk, answer_bad_requests, answer_in_steps
from hatwisted.broker.tables import BrokerTables
from hatwisted.logcodec.queueentry import ENTRY_SIZE
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.messagestore import MessageStore
from hatwisted.timing.steps import Steps
from hatwisted.wire import fastjson, layout
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue, queue_table
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import int_field, long_field, text_field

MAX_ENTRIES = 8192
"""Queue entries in one answer: some 600 KB of JSON. Whoever wants more asks again from a later index."""


class TopicOffset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of 202. last_update_timestamp: ms, 0 for a queue that never had a message."""

    last_update_timestamp: int
    max_offset: int
    min_offset: int


class ConsumeQueueEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of 321. eval: does the group's filter let it pass by what is kept beside the queue? RocketMQ says
    no of every entry for which nothing is (enableConsumeQueueExt=false), and nothing is here."""

    eval: bool = False
    physic_offset: int
    physic_size: int
    tags_code: int


class TopicView:
    """Answers from the tables and the store.

    - clock: bounds the time of a step
    - store: has the queues
    - tables: topics, offsets, filters
    - clients: who is connected
    - broker_name: as in queues' names
    """

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        tables: BrokerTables,
        clients: ClientTable,
        broker_name: str,
    ) -> None:
        self._store = store
        self._topics = tables.topics
        self._offsets = tables.offsets
        self._clients = clients
        self._filters = tables.filters
        self._broker_name = broker_name
        self._steps = Steps(clock, "describing a topic's queues")

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        table.register(RequestCode.GET_TOPIC_STATS_INFO, answer_in_steps(self._steps, self.stats))
        table.register(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, answer_in_steps(self._steps, self.groups))
        for code, handler in (
            (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, self.system_topics),
            (RequestCode.QUERY_CONSUME_QUEUE, self.entries),
        ):
            table.register(code, answer_bad_requests(handler))

    def stats(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        topic = text_field(request.ext, "topic")
        config = self._topics.get(topic)
        if config is None:
            return response(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        queues = {}
        for queue_id in range(config.write_queue_nums):
            queue = MessageQueue(broker_name=self._broker_name, queue_id=queue_id, topic=topic)
            queues[queue] = self._offset(topic, queue_id)
            if queue_id % QUEUES_PER_STEP == QUEUES_PER_STEP - 1:
                yield
        return response(request, body=fastjson.dumps_compact({"offsetTable": queue_table(queues)}))

    def _offset(self, topic: str, queue_id: int) -> TopicOffset:
        low, high = self._store.queue_offsets(topic, queue_id)
        last = self._store.message_time(topic, queue_id, high - 1) if high else 0
        return TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=last)

    def groups(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        """Who consumes the topic now, and who has."""
        topic = text_field(request.ext, "topic")
        found = dict.fromkeys(
            name for name, group in self._clients.consumers.items() if topic in group.subscriptions
        )
        consumed = yield from groups_of(self._offsets, topic)
        found |= dict.fromkeys(consumed)
        return response(request, body=fastjson.dumps_compact({"groupList": list(found)}))

    def system_topics(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        body = {"topicList": self._topics.system_topics()}
        return response(request, body=fastjson.dumps_compact(body))

    def entries(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        ext = request.ext
        topic, queue_id = text_field(ext, "topic"), int_field(ext, "queueId")
        index, count = long_field(ext, "index"), int_field(ext, "count")
        queue = self._store.queues.find(topic, queue_id)
        if queue is None:
            return response(request, ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        found = queue.read(index, min(count, MAX_ENTRIES)) if index >= 0 and count > 0 else b""
        if not found:
            return response(request, remark=f"Index {index} of {queue_id}@{topic} is not exist!")
        body: dict[str, object] = {
            "maxQueueIndex": queue.max_offset,
            "minQueueIndex": queue.min_offset,
            "queueData": [_entry(found, at) for at in range(0, len(found), ENTRY_SIZE)],
        }
        if ext.get("consumerGroup"):
            body |= self._subscription(ext["consumerGroup"], topic)
        return response(request, body=fastjson.dumps_compact(body))

    def _subscription(self, name: str, topic: str) -> dict[str, object]:
        group = self._clients.consumers.get(name)
        wanted = group.subscriptions.get(topic) if group is not None else None
        if wanted is None:
            return {"filterData": f"{name}@{topic} is not online!"}
        return {"filterData": self._filters.shown(topic, name), "subscriptionData": subscription_data(wanted)}


def _entry(data: bytes, at: int) -> ConsumeQueueEntry:
    physical, size, tags_code = layout.QUEUE_ENTRY.unpack_from(data, at)
    return ConsumeQueueEntry(physic_offset=physical, physic_size=size, tags_code=tags_code)
