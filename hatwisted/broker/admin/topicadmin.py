"""What operators do with topics: UPDATE_AND_CREATE_TOPIC 17, DELETE_TOPIC_IN_BROKER 215, and what is left of
topics cleaned up, CLEAN_EXPIRED_CONSUMEQUEUE 306, CLEAN_UNUSED_TOPIC 316, DELETE_EXPIRED_COMMITLOG 329.

A topic counts as made once name servers and slaves know it, so 17 is answered when they have answered, or have
had their time; slaves that lack the topic then are named in the remark. Deleting takes the queues out of
service in slices and off the reactor's back (`QueueRemoval`). A group's progress in the topic goes with it, as
in 5.x and not in 4.9.7, where a consumer of the topic created again skips as many messages as it had
consumed of the old one.

A slave makes and deletes no topics, but 5.x tools needn't know. It may be asked to clean up, but then it only
removes what its master, being alive, has had time to report: its queues may be the only place where a new
topic is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.consumer.consumeroffset import SEPARATOR
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.broker.role import Role
from hatwisted.broker.tables import BrokerTables
from hatwisted.broker.topic.topicconfig import name_problem
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.queue.queueremoval import Removed
from hatwisted.wire.codes import V5_0_0, RequestCode, ResponseCode
from hatwisted.wire.registration import (
    MAX_QUEUE_IDS,
    MULTI_TAG,
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    SINGLE_TAG,
    TopicConfig,
)
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import BadRequestField, int_field, text_field

REGISTER_WAIT = 3.0
"""Seconds that an answer to 17 waits for name servers: mqadmin waits 5 s for it."""

UNTOLD_AGE = 60_000
"""ms after which a slave, that copies its master's topics every 10 s, must know a message's topic."""

NOT_ON_A_SLAVE = (
    "Can't modify topic or subscription group from slave broker, please execute it from master broker."
)

_FILTER_TYPES = (SINGLE_TAG, MULTI_TAG)
_ALL_PERMISSIONS = PERM_READ | PERM_WRITE | PERM_INHERIT

_Answer = RemotingCommand | Deferred[RemotingCommand]


class TableSpread(NamedTuple):
    """How far a change of a table has come; neither fails.

    - registered(): fires when no name server owes an answer
    - confirmed(): fires when it's in this broker's file and the slaves have it, or have had their time; with a
      remark about what lacks it
    """

    registered: Callable[[], Deferred[None]]
    confirmed: Callable[[], Deferred[str | None]]


class TopicAdmin:
    """Answers that change the table of topics, or delete a topic's queues.

    - clock: bounds the wait for name servers
    - store: has the queues
    - tables: topics, and what belongs to them
    - spread: how far a change has come
    - role: a slave leaves most to its master
    - hears_master: has a slave a master that it copies topics from?
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        tables: BrokerTables,
        spread: TableSpread,
        role: Role,
        hears_master: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._store = store
        self._topics = tables.topics
        self._offsets = tables.offsets
        self._spread = spread
        self._role = role
        self._hears_master = hears_master

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        for code, handler in (
            (RequestCode.UPDATE_AND_CREATE_TOPIC, self.update),
            (RequestCode.DELETE_TOPIC_IN_BROKER, self.delete),
            (RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, self.clean_expired),
            (RequestCode.CLEAN_UNUSED_TOPIC, self.clean_unused),
            (RequestCode.DELETE_EXPIRED_COMMITLOG, self.delete_expired),
        ):
            table.register(code, answer_bad_requests(handler))

    # -- topics ----------------------------------------------------------------------------------------------

    def update(self, _connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        config = _parse(request)
        self._topics.put(config)
        confirmed = self._spread.confirmed()
        registered: Deferred[None] = Deferred()
        late = self._clock.callLater(REGISTER_WAIT, self._late, config.topic_name, registered)

        def settled(_: None) -> None:
            if late.active():
                late.cancel()
                registered.callback(None)

        self._spread.registered().addCallback(settled)
        answer = registered.addCallback(lambda _: confirmed)
        return answer.addCallback(lambda remark: response(request, remark=remark))

    def _late(self, topic: str, registered: Deferred[None]) -> None:
        self._log.warn("topic {topic}: not every name server knows of it yet", topic=topic)
        registered.callback(None)

    def delete(self, _connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        if self._role.slave and request.version >= V5_0_0:
            return self._follow_deletion(request)
        refused = self._refusal(request)
        if refused is not None:
            return refused
        topic = text_field(request.ext, "topic")
        self._topics.delete(topic)
        confirmed = self._spread.confirmed()
        self._offsets.remove_topic(topic)
        dropped = self._store.removal.drop_topics(lambda name: name == topic)

        def removed(outcome: Removed) -> Deferred[RemotingCommand]:
            left = _left(outcome)
            remarks = confirmed.addCallback(lambda remark: "; ".join(filter(None, (remark, left))) or None)
            return remarks.addCallback(lambda remark: response(request, remark=remark))

        return dropped.addCallback(removed)

    def _follow_deletion(self, request: RemotingCommand) -> _Answer:
        """5.x tools delete a topic on slaves too, and stop at a refusal with half of their work done. The queues
        go if the master has reported that the topic is gone; else 316 removes them once it has."""
        topic = text_field(request.ext, "topic")
        known = self._topics.get(topic) is not None or self._topics.is_system(topic)
        if known or not self._hears_master():
            return response(request)
        dropped = self._store.removal.drop_topics(lambda name: name == topic and self._is_unused(name))
        return dropped.addCallback(lambda outcome: response(request, remark=_left(outcome)))

    def _refusal(self, request: RemotingCommand) -> RemotingCommand | None:
        """Why this topic isn't to be made or deleted here."""
        if self._role.slave:
            return response(request, ResponseCode.SYSTEM_ERROR, NOT_ON_A_SLAVE)
        topic = text_field(request.ext, "topic")
        problem = name_problem(topic)
        if problem is None and self._topics.is_system(topic):
            problem = f"The topic[{topic}] is conflict with system topic."
        return None if problem is None else response(request, ResponseCode.SYSTEM_ERROR, problem)

    # -- what is left of them --------------------------------------------------------------------------------

    def clean_expired(self, _connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        # The queue of a topic that goes on keeps its numbering, and with it its last file (RocketMQ's begins at 0
        # again, below its groups' progress).
        dropped = self._store.removal.drop_expired(lambda topic: not self._is_unused(topic))
        return dropped.addCallback(self._cleaned, request)

    def clean_unused(self, _connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        if self._role.slave and not self._hears_master():
            self._log.warn(
                "keeping the queues of unknown topics: they may be the master's, which can't be reached"
            )
            return response(request)
        return self._store.removal.drop_topics(self._is_unused).addCallback(self._cleaned, request)

    def _is_unused(self, topic: str) -> bool:
        if self._topics.get(topic) is not None or self._topics.is_system(topic):
            return False
        return not self._role.slave or self._last_time(topic) < self._clock.seconds() * 1000 - UNTOLD_AGE

    def _last_time(self, topic: str) -> int:
        """storeTimestamp (ms) of the topic's newest message, -1 without one."""
        ends = [(queue.queue_id, queue.max_offset) for queue in self._store.queues if queue.topic == topic]
        return max((self._store.message_time(topic, queue_id, end - 1) for queue_id, end in ends), default=-1)

    def _cleaned(self, outcome: Removed, request: RemotingCommand) -> RemotingCommand:
        if not self._role.slave:
            self._forget_progress()
        self._log.info(
            "{count} queues removed on request {code}", count=outcome.queues, code=int(request.code)
        )
        return response(request, remark=_left(outcome))

    def _forget_progress(self) -> None:
        """In topics that are neither known nor have a queue: created again, they are numbered from 0."""
        kept = {queue.topic for queue in self._store.queues}
        for topic in dict.fromkeys(
            key.partition(SEPARATOR)[0] for key in self._offsets.progress().offset_table
        ):
            if topic not in kept and self._is_unused(topic):
                self._offsets.remove_topic(topic)

    def delete_expired(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """The next rounds of retention remove what is old enough, whatever the hour."""
        self._store.retention.clean_now()
        return response(request)


def _left(outcome: Removed) -> str | None:
    """What an answer says of queues that are still there; 316 tries again."""
    return f"{outcome.problem}; cleanUnusedTopic tries again" if outcome.problem else None


def _parse(request: RemotingCommand) -> TopicConfig:
    ext = request.ext
    text_field(ext, "defaultTopic")
    filter_type = text_field(ext, "topicFilterType")
    if filter_type not in _FILTER_TYPES:
        raise BadRequestField("topicFilterType", filter_type)
    return TopicConfig(
        topic_name=text_field(ext, "topic"),
        read_queue_nums=_number(request, "readQueueNums", MAX_QUEUE_IDS),
        write_queue_nums=_number(request, "writeQueueNums", MAX_QUEUE_IDS),
        perm=_number(request, "perm", _ALL_PERMISSIONS),
        topic_filter_type=filter_type,
        topic_sys_flag=int_field(ext, "topicSysFlag", 0),
    )


def _number(request: RemotingCommand, name: str, most: int) -> int:
    value = int_field(request.ext, name)
    if not 0 <= value <= most:
        raise BadRequestField(name, request.ext[name])
    return value
