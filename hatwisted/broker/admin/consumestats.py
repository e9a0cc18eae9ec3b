"""How far groups are behind: GET_CONSUME_STATS 208, GET_BROKER_CONSUME_STATS 317, QUERY_CONSUME_TIME_SPAN 303,
QUERY_CORRECTION_OFFSET 308.

A table of queues with the broker's end, the group's progress and the store time of the last message consumed.
Of a group that is online, topics that it has unsubscribed from are left out, although their offsets are kept.
5.x tools read `pullOffset` too, which is the committed offset here: nothing in between is known to a broker
without pop consumption. Reading a store time is a read of the log, so an answer costs one for each queue with
progress: MAX_QUEUES bounds it, and it's made in steps.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

import msgspec
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.admin.brokerstats import BrokerStats
from hatwisted.broker.admin.progresswalk import groups_of, topics_by_group, topics_of
from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.identity import BrokerIdentity
from hatwisted.broker.requests import BadClientData, Walk, answer_in_steps
from hatwisted.broker.tables import BrokerTables
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.messagestore import MessageStore
from hatwisted.timing.steps import Steps
from hatwisted.wire import fastjson
from hatwisted.wire.codes import V5_0_0, RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue, queue_table
from hatwisted.wire.registration import TopicConfig
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import bool_field, text_field

MAX_QUEUES = 20_000
"""Queues one answer may describe, some 20 us each. Beyond it the request is refused, with the advice to ask
for less at a time."""

QUEUES_PER_STEP: Final = 32
"""Some 20 to 60 us each."""

GROUPS_PER_STEP: Final = 256
"""Some us each, if they have no progress."""

_LONG_MAX = (1 << 63) - 1
"""In the answer of 308: no group stands lower than the one compared with."""


class OffsetWrapper(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One queue of 208. Offsets count messages; last_timestamp: ms, 0 if nothing is known."""

    broker_offset: int
    consumer_offset: int
    last_timestamp: int
    pull_offset: int | None = None


class ConsumeStats:
    """The answer to 208, and the items of 317. consume_tps: messages a second in the last minute."""

    def __init__(self) -> None:
        self.consume_tps = 0.0
        self.queues: dict[MessageQueue, OffsetWrapper] = {}

    @property
    def behind(self) -> int:
        """Messages not yet consumed."""
        return sum(queue.broker_offset - queue.consumer_offset for queue in self.queues.values())

    def body(self) -> dict[str, object]:
        """As it is written."""
        return {"consumeTps": self.consume_tps, "offsetTable": queue_table(self.queues)}


class QueueTimeSpan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of 303, all in ms: store times of the first, the last and the last consumed message, and how
    long the next one has been waiting."""

    consume_time_stamp: int
    delay_time: int
    max_time_stamp: int
    message_queue: MessageQueue
    min_time_stamp: int


class ConsumeStatsProcessors:
    """Answers for groups' progress.

    - clock: tells how late a group is
    - store: has the queues
    - tables: topics, groups, offsets
    - clients: who is connected
    - stats: has what groups get per second
    - identity: whose queues they are
    """

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        tables: BrokerTables,
        clients: ClientTable,
        stats: BrokerStats,
        identity: BrokerIdentity,
    ) -> None:
        self._clock = clock
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._clients = clients
        self._stats = stats
        self._broker_name = identity.name
        self._address = identity.store_address
        self._steps = Steps(clock, "describing the progress of groups")

    def register_on(self, table: ProcessorTable) -> None:
        for code, handler in (
            (RequestCode.GET_CONSUME_STATS, self.group),
            (RequestCode.GET_BROKER_CONSUME_STATS, self.all_groups),
            (RequestCode.QUERY_CONSUME_TIME_SPAN, self.time_span),
            (RequestCode.QUERY_CORRECTION_OFFSET, self.correction),
        ):
            table.register(code, answer_in_steps(self._steps, handler))

    # -- progress --------------------------------------------------------------------------------------------

    def group(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        group, topic = text_field(request.ext, "consumerGroup"), request.ext.get("topic", "").strip()
        stats = ConsumeStats()
        topics = [topic] if topic else (yield from topics_of(self._offsets, group))
        for config in self._consumed(group, topics):
            self._check_size(len(stats.queues) + config.read_queue_nums)
            yield from self._add_topic(
                stats, group, config, config.read_queue_nums, request.version >= V5_0_0
            )
        return response(request, body=fastjson.dumps_compact(stats.body()))

    def all_groups(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        text_field(request.ext, "isOrder")
        ordered_only = bool_field(request.ext, "isOrder")
        queues, behind = 0, 0
        every: list[dict[str, list[dict[str, object]]]] = []
        topics = yield from topics_by_group(self._offsets)
        for number, group in enumerate(self._groups.table().subscription_group_table):
            found = []
            for config in self._consumed(group, topics.get(group, ())):
                if ordered_only and not config.order:
                    continue
                queues += config.write_queue_nums
                self._check_size(queues)
                stats = ConsumeStats()
                yield from self._add_topic(
                    stats, group, config, config.write_queue_nums, request.version >= V5_0_0
                )
                behind += stats.behind
                found.append(stats.body())
            every.append({group: found})
            if number % GROUPS_PER_STEP == GROUPS_PER_STEP - 1:
                yield
        body = {
            "brokerAddr": self._address,
            "consumeStatsList": every,
            "totalDiff": behind,
            "totalInflightDiff": 0,
        }
        return response(request, body=fastjson.dumps_compact(body))

    def _check_size(self, queues: int) -> None:
        if queues > MAX_QUEUES:
            raise BadClientData(
                f"the answer would describe more than {MAX_QUEUES} queues, ask for less at a time"
            )

    def _consumed(self, group: str, topics: Iterable[str]) -> Iterable[TopicConfig]:
        """Those of `topics` that exist and that the group, if it's online, still wants."""
        for topic in topics:
            config = self._topics.get(topic)
            if config is not None and self._clients.subscribes(group, topic):
                yield config

    def _add_topic(
        self, stats: ConsumeStats, group: str, config: TopicConfig, queues: int, with_pull_offset: bool
    ) -> Generator[None, None, None]:
        topic = config.topic_name
        for queue_id in range(queues):
            consumed = max(0, self._offsets.query(group, topic, queue_id) or 0)
            stats.queues[self._queue(topic, queue_id)] = OffsetWrapper(
                broker_offset=self._store.queue_end(topic, queue_id),
                consumer_offset=consumed,
                last_timestamp=max(0, self._store.message_time(topic, queue_id, consumed - 1)),
                pull_offset=consumed if with_pull_offset else None,
            )
            if queue_id % QUEUES_PER_STEP == QUEUES_PER_STEP - 1:
                yield
        stats.consume_tps += self._stats.consume_tps(group, topic)

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(broker_name=self._broker_name, queue_id=queue_id, topic=topic)

    # -- times -----------------------------------------------------------------------------------------------

    def time_span(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        topic, group = text_field(request.ext, "topic"), text_field(request.ext, "group")
        config = self._topics.get(topic)
        if config is None:
            return response(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        self._check_size(config.write_queue_nums)
        spans = []
        for queue_id in range(config.write_queue_nums):
            spans.append(self._span(group, topic, queue_id))
            if queue_id % QUEUES_PER_STEP == QUEUES_PER_STEP - 1:
                yield
        return response(request, body=fastjson.dumps_compact({"consumeTimeSpanSet": spans}))

    def _span(self, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
        store = self._store
        first = store.earliest_store_time(topic, queue_id)
        end = store.queue_end(topic, queue_id)
        consumed = max(0, self._offsets.query(group, topic, queue_id) or 0)
        delay = 0
        if consumed < end:
            # A message that retention has removed has no time any more: the oldest one left waits next.
            waiting = store.message_time(topic, queue_id, consumed)
            delay = int(self._clock.seconds() * 1000) - (waiting if waiting >= 0 else first)
        return QueueTimeSpan(
            consume_time_stamp=store.message_time(topic, queue_id, consumed - 1) if consumed else first,
            delay_time=delay,
            max_time_stamp=store.message_time(topic, queue_id, end - 1),
            message_queue=self._queue(topic, queue_id),
            min_time_stamp=first,
        )

    # -- all groups of a topic -------------------------------------------------------------------------------

    def correction(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        """The lowest progress of all groups but `filterGroups`, by queue; as high as can be where
        `compareGroup` stands lower still."""
        ext = request.ext
        topic, compared = text_field(ext, "topic"), text_field(ext, "compareGroup")
        left_out = set(ext.get("filterGroups", "").split(","))
        lowest: dict[int, int] = {}
        queues = 0
        groups = yield from groups_of(self._offsets, topic)
        for number, group in enumerate(groups, 1):
            if number % GROUPS_PER_STEP == 0:
                yield
            if group in left_out:
                continue
            for queue_id, offset in self._offsets.queues(group, topic).items():
                if offset >= self._store.queue_offsets(topic, queue_id)[0]:
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
                queues += 1
                if queues % QUEUES_PER_STEP == 0:
                    yield
        for queue_id, offset in self._offsets.queues(compared, topic).items():
            if lowest.get(queue_id, -1) > offset:
                lowest[queue_id] = _LONG_MAX
        return response(request, body=fastjson.dumps_compact({"correctionOffsets": lowest}))
