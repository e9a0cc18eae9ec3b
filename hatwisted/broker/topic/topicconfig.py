"""The broker's topics: which exist, with how many queues, who may do what; `config/topics.json`.

Every send looks its topic up here, so that is one dict access. What makes a topic come into being is rarer:
the first start, a send to an unknown topic by way of one that lets others inherit (TBW102), a consumer
group's first heartbeat, an operator. Each change gives the table a new DataVersion and reaches the listeners:
the file writes it, the registration sends it to the name servers. A slave makes no topics of its own but
takes over its master's table as a whole.

Rules and first-start topics are those of RocketMQ 4.9.7's TopicConfigManager.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.requests import Refusal
from hatwisted.broker.tabletext import KeptBody, TableText
from hatwisted.timing.ratelimit import RateLimit
from hatwisted.timing.throttle import more_like_it
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.layout import MAX_TOPIC_LENGTH, SCHEDULE_TOPIC
from hatwisted.wire.registration import (
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    TopicConfig,
    TopicTable,
    decode_body,
    encode_body,
)
from hatwisted.wire.topics import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    NOT_FOR_PRODUCERS,
    OFFSET_MOVED_TOPIC,
    REPLY_SUFFIX,
    RETRY_PREFIX,
    SELF_TEST_TOPIC,
    SYSTEM_PREFIX,
    TRACE_TOPIC,
)

MAX_TOPICS = 25_000
"""From so many on none is made by a send any more: with the groups' own topics a broker has no more than it can
register. Operators may make more."""

MADE_LINES = 10
"""Lines a second that the log has of topics made on demand; clients can have thousands made in that time."""

SCHEDULE_QUEUES = 18
"""One queue a delay level."""

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")


class FirstTopics(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the topics of a first start; names and defaults of RocketMQ's keys."""

    broker_cluster_name: str = "DefaultCluster"
    broker_name: str
    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = TRACE_TOPIC

    def topics(self) -> list[TopicConfig]:
        """The topics, in RocketMQ's order."""
        open_to = {True: PERM_INHERIT | PERM_READ | PERM_WRITE, False: PERM_INHERIT}
        found = [_topic(SELF_TEST_TOPIC, 1)]
        if self.auto_create_topic_enable:
            found.append(_topic(AUTO_CREATE_TOPIC, self.default_topic_queue_nums, open_to[True]))
        found += [
            _topic(BENCHMARK_TOPIC, 1024),
            _topic(self.broker_cluster_name, 16, open_to[self.cluster_topic_enable]),
            _topic(self.broker_name, 1, open_to[self.broker_topic_enable]),
            _topic(OFFSET_MOVED_TOPIC, 1),
            _topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        ]
        if self.trace_topic_enable:
            found.append(_topic(self.msg_trace_topic_name, 1))
        return [*found, _topic(f"{self.broker_cluster_name}{REPLY_SUFFIX}", 1)]


def _topic(name: str, queues: int, perm: int = PERM_READ | PERM_WRITE, sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=sys_flag
    )


def name_problem(topic: str) -> str | None:
    """What is wrong with a topic's name, in the client's answer; None if nothing."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _NAME.fullmatch(topic):
        shown = topic[:MAX_TOPIC_LENGTH]
        return f"The specified topic {shown!r} contains illegal characters, allowed are a-z A-Z 0-9 % | _ -"
    if len(topic) > MAX_TOPIC_LENGTH:
        return f"The specified topic is longer than topic max length {MAX_TOPIC_LENGTH}."
    return None


class TopicConfigTable:
    """All topics of this broker.

    - clock: dates the versions
    - first: the topics it has without a file
    - auto_create: is an unknown one made on demand at present? None: as `first` says
    """

    _log = Logger()

    def __init__(
        self, clock: IReactorTime, first: FirstTopics, auto_create: Callable[[], bool] | None = None
    ) -> None:
        self._clock = clock
        self._auto_create = auto_create or (lambda: first.auto_create_topic_enable)
        self._topics = {topic.topic_name: topic for topic in first.topics()}
        self._system = frozenset(self._topics) | NOT_FOR_PRODUCERS | {AUTO_CREATE_TOPIC, TRACE_TOPIC}
        self._listeners: list[Callable[[], None]] = []
        self._on_made: list[Callable[[str], None]] = []
        self._text = TableText("topicConfigTable")
        self._body = KeptBody(lambda: encode_body(self.table()))
        self._ordered_as: Mapping[str, object] | None = None
        """By these names all topics are ordered as they should be; None: that isn't known."""
        self._made_lines = RateLimit(clock, MADE_LINES)
        self._made_silently = 0
        self.version = DataVersion(timestamp=self._now())
        self.filed = 0
        """When the table in the file that was read had changed last (ms); 0 without a file."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def on_made(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each topic that is made on demand, after those of `on_change`."""
        self._on_made.append(listener)

    def get(self, topic: str) -> TopicConfig | None:
        return self._topics.get(topic)

    def names(self) -> list[str]:
        return list(self._topics)

    def made(self) -> Iterator[str]:
        """Names of those that operators or clients have made."""
        return (topic for topic in self._topics if not self.is_system(topic))

    def known(self) -> Mapping[str, TopicConfig]:
        """All of them, by name; not a copy."""
        return self._topics

    def is_system(self, topic: str) -> bool:
        """Is it one that operators may neither make nor delete?"""
        return topic in self._system or topic.startswith(SYSTEM_PREFIX)

    def system_topics(self) -> list[str]:
        """The names that operators may neither make nor delete, but for those with the prefix."""
        return sorted(self._system)

    # ---- topics come and go

    def for_send(
        self, topic: str, default_topic: str, default_queue_nums: int, sys_flag: int = 0
    ) -> TopicConfig | Refusal:
        """The topic a producer sends to, or why it can't.

        - topic: its name
        - default_topic: whose settings an unknown one gets, if that one allows it
        - default_queue_nums: most queues that an unknown one gets
        - sys_flag: that an unknown one gets
        """
        config = self._topics.get(topic)
        if config is not None and config.perm & PERM_WRITE and topic not in NOT_FOR_PRODUCERS:
            return config
        problem = name_problem(topic)
        if problem is not None:
            return Refusal(ResponseCode.SYSTEM_ERROR, problem)
        if topic in NOT_FOR_PRODUCERS:
            return Refusal(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
        if config is not None:
            return Refusal(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
        inherited = self._inherit(topic, default_topic, default_queue_nums, sys_flag)
        if inherited is None and topic.startswith(RETRY_PREFIX):
            inherited = _topic(topic, 1, sys_flag=sys_flag)
        if inherited is None:
            return Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        if len(self._topics) >= MAX_TOPICS:
            remark = f"topic[{topic}] isn't created: the broker has {len(self._topics)} topics already"
            return Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
        self._make(inherited)
        return inherited

    def _inherit(self, topic: str, parent_name: str, queue_nums: int, sys_flag: int) -> TopicConfig | None:
        parent = self._topics.get(parent_name)
        if parent is None or not parent.perm & PERM_INHERIT:
            return None
        if parent_name == AUTO_CREATE_TOPIC and not self._auto_create():
            return None
        queues = max(1, min(queue_nums, parent.write_queue_nums))
        perm = parent.perm & ~PERM_INHERIT
        return msgspec.structs.replace(
            _topic(topic, queues, perm, sys_flag), topic_filter_type=parent.topic_filter_type
        )

    def ensure(
        self, topic: str, queues: int, perm: int = PERM_READ | PERM_WRITE, sys_flag: int = 0
    ) -> TopicConfig:
        """The topic; made like this if it is unknown (retry and dead-letter topics of groups).

        - topic: its name
        - queues: to read and to write
        - perm: PERM_READ, PERM_WRITE, or both
        - sys_flag: its units
        """
        config = self._topics.get(topic)
        if config is None:
            config = _topic(topic, queues, perm, sys_flag)
            self._make(config)
        return config

    def _make(self, config: TopicConfig) -> None:
        self._put(config)
        if self._made_lines.admits(""):
            self._tell(config, "created", self._made_silently)
            self._made_silently = 0
        else:
            self._made_silently += 1
        self._changed()
        for made in self._on_made:
            made(config.topic_name)

    def put(self, config: TopicConfig) -> None:
        """Make or change a topic."""
        known = config.topic_name in self._topics
        self._put(config)
        self._tell(config, "changed" if known else "created")
        self._changed()

    def _put(self, config: TopicConfig) -> None:
        self._topics[config.topic_name] = config
        if self._ordered_as is not None and config.order != (config.topic_name in self._ordered_as):
            self._ordered_as = None

    def _tell(self, config: TopicConfig, done: str, left_out: int = 0) -> None:
        self._log.info(
            "topic {topic} {done}: {read} queues to read, {write} to write, perm {perm}{more}",
            topic=config.topic_name,
            done=done,
            read=config.read_queue_nums,
            write=config.write_queue_nums,
            perm=config.perm,
            more=more_like_it(left_out),
        )

    def delete(self, topic: str) -> None:
        """Forget a topic; that it's unknown is no error."""
        if self._topics.pop(topic, None) is not None:
            self._log.info("topic {topic} deleted", topic=topic)
            self._changed()

    def set_ordered(self, topics: Mapping[str, object]) -> None:
        """Exactly these topics are ordered, says a name server: with each answer to a registration."""
        if topics == self._ordered_as:
            return
        wrong = [config for name, config in self._topics.items() if config.order != (name in topics)]
        for config in wrong:
            self._topics[config.topic_name] = msgspec.structs.replace(config, order=not config.order)
        self._ordered_as = topics
        if wrong:
            self._changed()

    def replace(self, table: TopicTable) -> bool:
        """Take over the master's table, deletions included, unless it is the one held; was it another?"""
        if table.data_version == self.version:
            return False
        self._topics = dict(table.topic_config_table)
        self._ordered_as = None
        self.version = table.data_version
        self._notify()
        return True

    def _changed(self) -> None:
        self.version = self.version.following(self._now())
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    def _now(self) -> int:
        return int(self._clock.seconds() * 1000)

    def touch(self) -> None:
        """Another version without a change here: what is registered of the topics depends on more than the
        table."""
        self._changed()

    # ---- outside forms

    def table(self, permission: int = PERM_READ | PERM_WRITE) -> TopicTable:
        """All topics and their version; on a broker that may not both read and write, with its permission."""
        topics: Iterable[TopicConfig] = self._topics.values()
        if permission & (PERM_READ | PERM_WRITE) != PERM_READ | PERM_WRITE:
            topics = (msgspec.structs.replace(topic, perm=permission) for topic in topics)
        return TopicTable(
            data_version=self.version, topic_config_table={topic.topic_name: topic for topic in topics}
        )

    def encode(self) -> bytes:
        """The content of topics.json."""
        return self._text.text(TopicTable(data_version=self.version, topic_config_table={}), self._topics)

    def encode_compact(self) -> bytes:
        """The answer to GET_ALL_TOPIC_CONFIG."""
        return self._body.of(self.version)

    def decode(self, data: bytes) -> None:
        """Take over topics.json: its topics join those of the first start. Raises ValueError."""
        table = decode_body(data, TopicTable)
        self._topics.update(table.topic_config_table)
        self._ordered_as = None
        self.version = table.data_version
        self.filed = self.version.timestamp
