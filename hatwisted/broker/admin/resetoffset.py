"""Moving a group to another place: INVOKE_BROKER_TO_RESET_OFFSET 222, by which RESET_CONSUMER_CLIENT_OFFSET 220
goes to the group's members, and CLONE_GROUP_OFFSET 314.

A living group carries a reset out itself: each member gets the new offsets, stops its queues, lets what it's
working on end, commits and begins again. So the table of offsets changes by the members' commits, which may
go back for a while (see OffsetCommits). For a group that is offline the answer is 206, and the tool commits
by itself; but when 5.x tools name one queue, for which they have no such fallback, the broker commits at
once.

C++ members get the offsets as a list, since they can't read a map keyed by objects. RocketMQ decides that by the
language of the tool that asks; here it's the member's own.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.admin.progresswalk import at_once, topics_of
from hatwisted.broker.consumer.clientcalls import ClientCalls
from hatwisted.broker.consumer.consumerprocessors import ConsumerProcessors
from hatwisted.broker.requests import Refusal, Walk, answer_bad_requests, answer_in_steps
from hatwisted.broker.tables import BrokerTables
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.messagestore import MessageStore
from hatwisted.timing.steps import Steps
from hatwisted.wire import fastjson
from hatwisted.wire.codes import V3_0_7_SNAPSHOT, RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import TopicConfig
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import BadRequestField, bool_field, int_field, long_field, text_field

END = -1
"""As a timestamp: the queue's end. As an offset: go by the timestamp."""

ALL_QUEUES = -1
"""As a queue id."""

QUEUES_PER_STEP: Final = 8
"""Each is searched by time: some 20 reads of the log."""

PAIRS_PER_STEP: Final = 500
"""Queues written into the answer, and into what members are told."""

Offsets = Mapping[int, int]
"""Queue id -> queue offset."""


class OffsetResets:
    """Answers 222 and 314.

    - clock: bounds the time of a step
    - store: has the queues
    - tables: topics, groups, offsets
    - consumers: who is connected, and commits
    - calls: notify the members
    - broker_name: as in queues' names
    """

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        tables: BrokerTables,
        consumers: ConsumerProcessors,
        calls: ClientCalls,
        broker_name: str,
    ) -> None:
        self._store = store
        self._topics = tables.topics
        self._offsets = tables.offsets
        self._progress = consumers.progress
        self._clients = consumers.clients
        self._calls = calls
        self._broker_name = broker_name
        self._steps = Steps(clock, "finding the offsets that groups are reset to")

    def register_on(self, table: ProcessorTable) -> None:
        table.register(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, answer_in_steps(self._steps, self.reset))
        table.register(RequestCode.CLONE_GROUP_OFFSET, answer_bad_requests(self.clone))

    # -- reset -----------------------------------------------------------------------------------------------

    def reset(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        ext = request.ext
        topic, group = text_field(ext, "topic"), text_field(ext, "group")
        timestamp = long_field(ext, "timestamp")
        force = bool_field({"isForce": text_field(ext, "isForce")}, "isForce")
        queue_id = int_field(ext, "queueId", ALL_QUEUES)
        config = self._topics.get(topic)
        if config is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        if queue_id == ALL_QUEUES:
            if group not in self._clients.consumers:  # whatever it's answered, the tool commits by itself
                self._progress.reset(group, topic, range(config.write_queue_nums))
            found = yield from self._all_targets(config, group, timestamp, force)
        else:
            found = self._one_target(config, queue_id, timestamp, ext)
        if isinstance(found, Refusal):
            return response(request, found.code, found.remark)
        body = yield from self._encoded(topic, found)
        if group in self._clients.consumers:
            told = {
                "topic": topic,
                "group": group,
                "timestamp": str(timestamp),
                "isForce": str(force).lower(),
            }
            refusal = self._push(told, body, found)
        else:
            refusal = self._reset_offline(topic, group, timestamp, found, one=queue_id != ALL_QUEUES)
        if refusal is not None:
            return response(request, refusal.code, refusal.remark)
        return response(request, body=body)

    def _all_targets(
        self, config: TopicConfig, group: str, timestamp: int, force: bool
    ) -> Generator[None, None, Offsets | Refusal]:
        """Where all queues are to go. Without force no queue is moved forward."""
        targets = {}
        for queue_id in range(config.write_queue_nums):
            now = self._offsets.query(group, config.topic_name, queue_id)
            if now is None or now < 0:
                # RocketMQ's words, by which its tools learn that there is no such group.
                return Refusal(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")
            wanted = self._at_time(config.topic_name, queue_id, timestamp)
            targets[queue_id] = wanted if force else min(wanted, now)
            if queue_id % QUEUES_PER_STEP == QUEUES_PER_STEP - 1:
                yield
        return targets

    def _one_target(
        self, config: TopicConfig, queue_id: int, timestamp: int, ext: Mapping[str, str]
    ) -> Offsets | Refusal:
        """Where the one named queue is to go: the 5.x form, always with force."""
        if not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            raise BadRequestField("queueId", ext["queueId"])
        offset = long_field(ext, "offset", END)
        if offset == END:
            return {queue_id: self._at_time(config.topic_name, queue_id, timestamp)}
        low, high = self._store.queue_offsets(config.topic_name, queue_id)
        if not low <= offset <= high:
            remark = f"Target offset {offset} not in consume queue range [{low}-{high}]"
            return Refusal(ResponseCode.SYSTEM_ERROR, remark)
        return {queue_id: offset}

    def _at_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp == END:
            return self._store.queue_end(topic, queue_id)
        return max(0, self._store.offset_by_time(topic, queue_id, timestamp))

    def _push(self, ext: dict[str, str], table: bytes, targets: Offsets) -> Refusal | None:
        """Tell all members.

        - ext: what it's about
        - table: the targets as most members read them
        - targets: where the queues are to go
        """
        topic, group = ext["topic"], ext["group"]
        members = self._clients.consumers[group].members
        for member in members.values():
            if member.version < V3_0_7_SNAPSHOT:
                remark = f"the client does not support this feature. version={member.version}"
                return Refusal(ResponseCode.SYSTEM_ERROR, remark)
        self._progress.reset(group, topic, targets)
        listed = None
        for key, member in members.items():
            assert isinstance(key, RemotingConnection)
            if member.language == "CPP":
                body = listed = listed or self._listed(topic, targets)
            else:
                body = table
            order = RemotingCommand(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext=ext, body=body)
            self._calls.oneway(key, order)
        return None

    def _reset_offline(
        self, topic: str, group: str, timestamp: int, targets: Offsets, *, one: bool
    ) -> Refusal | None:
        if not one:
            remark = (
                f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} "
                f"Timestamp: {timestamp}"
            )
            return Refusal(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        for queue_id, offset in targets.items():
            self._offsets.reset(group, topic, queue_id, offset)
        return None

    def _encoded(self, topic: str, targets: Offsets) -> Generator[None, None, bytes]:
        """The targets as a map keyed by queues, in steps."""
        pieces = list[bytes]()
        for number, (queue_id, offset) in enumerate(targets.items(), 1):
            pieces.append(b"%b:%d" % (self._key(topic, queue_id), offset))
            if number % PAIRS_PER_STEP == 0:
                yield
        return b'{"offsetTable":{%b}}' % b",".join(pieces)

    def _key(self, topic: str, queue_id: int) -> bytes:
        queue = MessageQueue(broker_name=self._broker_name, queue_id=queue_id, topic=topic)
        return fastjson.dumps_compact(queue)

    def _listed(self, topic: str, targets: Offsets) -> bytes:
        """The same as a list."""
        name = self._broker_name
        rows = [
            {"brokerName": name, "offset": offset, "queueId": queue_id, "topic": topic}
            for queue_id, offset in targets.items()
        ]
        return fastjson.dumps_compact({"offsetTable": rows})

    # -- clone -----------------------------------------------------------------------------------------------

    def clone(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """Put one group where another one is, in one topic or in all."""
        ext = request.ext
        source, target = text_field(ext, "srcGroup"), text_field(ext, "destGroup")
        topic, offline = ext.get("topic", "").strip(), bool_field(ext, "offline")
        for name in [topic] if topic else at_once(topics_of(self._offsets, source)):
            if self._topics.get(name) is not None and (offline or self._clients.subscribes(source, name)):
                self._offsets.clone(source, target, name)
        return response(request)
