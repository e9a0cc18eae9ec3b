"""Sends messages to a cluster in the order of each queue, many queues at once.

A broker takes requests off one connection into a pool of threads, so that two for the same queue may be stored
the wrong way round. Hence each queue has one request under way, and messages that come meanwhile are sent
together in the queue's next one (SEND_BATCH_MESSAGE); requests of other queues go on in parallel. What waits and
what is under way is bounded, in messages, bytes and requests: `send` blocks until there's room.

A request whose connection breaks is sent again, as RocketMQ's producers do: stored twice is possible then, lost
is not. How many messages that may concern is counted. A message that the broker finds illegal is counted and
left out; any other refusal that retries don't overcome ends the sending.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from hatwisted.blocking.connection import MAX_IN_FLIGHT
from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.routes import Routes
from hatwisted.clientcore import sending
from hatwisted.clientcore.errors import (
    BadAnswer,
    BadSetting,
    BrokerGone,
    ClientError,
    NoRoute,
    Refused,
)
from hatwisted.clientcore.rounds import Rounds
from hatwisted.clientcore.routes import replicas_of, writable_queues
from hatwisted.clientcore.tasks import Waiter
from hatwisted.pipeline.remote.queuepull import queue_name
from hatwisted.wire import layout
from hatwisted.wire.batch import BATCH_ENTRY_FIXED, encode_batch
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import MASTER_ID, TopicRoute
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import AUTO_CREATE_TOPIC, RETRY_PREFIX

GROUP: Final = "hatwisted-import"

BATCH_COUNT: Final = 128
"""Messages of one request."""
BATCH_BYTES: Final = 512 * 1024
"""Of one request: an eighth of what brokers take by default. One longer message goes alone."""
REQUESTS: Final = MAX_IN_FLIGHT // 2
"""Under way at once, over all brokers."""
HELD_MESSAGES: Final = 8192
HELD_BYTES: Final = 32 * 1024 * 1024
"""What waits or is under way: memory, and how many messages a failure leaves in doubt."""
REFUSALS_KEPT: Final = 20
"""Refused messages listed one by one; more are only counted."""

STATUSES: Final = {status.value: status.name for status in sending.SendStatus}
"""All of them mean stored; all but OK: not flushed or replicated as the broker is configured."""
TRANSIENT: Final = frozenset((ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE))
ILLEGAL: Final = ResponseCode.MESSAGE_ILLEGAL


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message. number: its place in the input, from 0; queue_id, broker: where it has to go, None for any
    queue; place: instead of those, which of the topic's queues by broker and number, counted round and round;
    born: ms since the epoch, None for now; properties: as they are stored."""

    number: int
    topic: str
    body: bytes
    properties: bytes = b""
    flag: int = 0
    reconsume_times: int = 0
    born: int | None = None
    broker: str | None = None
    queue_id: int | None = None
    place: int | None = None
    alone: bool = False
    """It can't share a request: it's delayed, or a retry topic's."""

    @property
    def size(self) -> int:
        """Bytes in a request."""
        return BATCH_ENTRY_FIXED + len(self.body) + len(self.properties)


@dataclass
class SendCounts:
    """What became of messages. statuses: stored ones by status; refused: numbers and reasons of the first
    REFUSALS_KEPT; resent: messages of requests whose first answer was lost."""

    statuses: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    refused_count: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    resent: int = 0

    @property
    def stored(self) -> int:
        return self.statuses.total()

    def refuse(self, number: int, reason: str) -> None:
        """Count a message that can't be stored."""
        self.refused_count += 1
        if len(self.refused) < REFUSALS_KEPT:
            self.refused.append((number, reason))


@dataclass(eq=False)
class _QueueSends:
    """One queue: what waits for it, and the request under way with the number of its answer."""

    queue: MessageQueue
    address: str
    waiting: list[Outgoing] = field(default_factory=list)
    waiting_bytes: int = 0
    under_way: list[Outgoing] = field(default_factory=list)
    answer: Waiter[RemotingCommand] | None = None

    @property
    def first(self) -> int | None:
        """The number of the first message whose outcome isn't known."""
        held = self.under_way or self.waiting
        return held[0].number if held else None

    def joins(self, message: Outgoing) -> bool:
        """May it share a request with those that wait?"""
        if not self.waiting:
            return True
        last = self.waiting[-1]
        return (
            not (message.alone or last.alone)
            and (message.born, message.reconsume_times) == (last.born, last.reconsume_times)
            and len(self.waiting) < BATCH_COUNT
            and self.waiting_bytes + message.size <= BATCH_BYTES
        )


class Producer:
    """For one thread. `counts` counts as answers come in. `send` and `drain` raise ClientError when a broker
    is gone for longer than the settings' retries last, or refuses a message for good.

    - driver: asks the cluster
    - group: the producer group
    - wall_clock: seconds since the epoch
    """

    def __init__(
        self, driver: BlockingDriver, group: str = GROUP, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._driver = driver
        self._group = group
        self._wall_clock = wall_clock
        self._routes: dict[str, TopicRoute] = {}
        self._queues: dict[str, list[MessageQueue]] = {}
        self._turns: Counter[str] = Counter()
        self._by_queue: dict[MessageQueue, _QueueSends] = {}
        self._under_way: deque[_QueueSends] = deque()
        self._held = 0
        self._held_bytes = 0
        self.counts = SendCounts()

    def send(self, message: Outgoing) -> None:
        """Take the message; blocks while too much is held."""
        sends = self._sends_to(message)
        if not sends.joins(message):
            self._post(sends)
        sends.waiting.append(message)
        sends.waiting_bytes += message.size
        self._held += 1
        self._held_bytes += message.size
        while self._held > HELD_MESSAGES or self._held_bytes > HELD_BYTES:
            self._make_room()

    def drain(self) -> None:
        """Send what waits and take all answers."""
        for sends in self._by_queue.values():
            if sends.waiting:
                self._post(sends)
        while self._under_way:
            self._settle(self._under_way[0])

    def first_unsettled(self) -> int | None:
        """The smallest number of a message whose outcome isn't known; None if all are."""
        return min(
            (sends.first for sends in self._by_queue.values() if sends.first is not None), default=None
        )

    # ---- queues

    def _sends_to(self, message: Outgoing) -> _QueueSends:
        queue = self._queue(message)
        sends = self._by_queue.get(queue)
        if sends is None:
            sends = self._by_queue[queue] = _QueueSends(queue, self._address(queue))
        return sends

    def _queue(self, message: Outgoing) -> MessageQueue:
        queues = self._queues.get(message.topic) or self._find_queues(message.topic)
        if message.place is not None:
            return queues[message.place % len(queues)]
        if message.queue_id is None:
            # The next queue after each full request: those between share one.
            turn = self._turns[message.topic]
            self._turns[message.topic] += 1
            return queues[turn // BATCH_COUNT % len(queues)]
        names = sorted({queue.broker_name for queue in queues})
        name = (
            message.broker
            if message.broker in names
            else names[crc32((message.broker or "").encode()) % len(names)]
        )
        queue = MessageQueue(broker_name=name, queue_id=message.queue_id, topic=message.topic)
        if queue not in queues:
            count = sum(each.broker_name == name for each in queues)
            raise BadSetting(
                f"topic {message.topic} has {count} queues on {name}, and message {message.number} "
                f"belongs to queue {message.queue_id}: give the topic more queues, or let messages go to any queue"
            )
        return queue

    def _find_queues(self, topic: str) -> list[MessageQueue]:
        routes = Routes(self._driver)
        route = routes.route(topic)
        at_most = None
        if route is None:
            # As RocketMQ's producers do: where a topic may be created by its first message, this one says so.
            route, at_most = routes.route(AUTO_CREATE_TOPIC), sending.DEFAULT_QUEUES
        queues = [] if route is None else writable_queues(topic, route, at_most)
        if route is None:
            raise NoRoute(
                topic, "the name servers don't know it, and no broker makes it: create it (updateTopic)"
            )
        if not queues:
            reason = (
                "none of its queues may be written to: see its permission (updateTopicPerm), and its masters"
            )
            raise NoRoute(topic, reason)
        self._routes[topic], self._queues[topic] = route, queues
        return queues

    def _address(self, queue: MessageQueue) -> str:
        return replicas_of(self._routes[queue.topic], queue.broker_name)[MASTER_ID]

    def _renew_address(self, sends: _QueueSends) -> None:
        """The master may have come back elsewhere."""
        route = Routes(self._driver).route(sends.queue.topic)
        found = {} if route is None else replicas_of(route, sends.queue.broker_name)
        sends.address = found.get(MASTER_ID, sends.address)

    # ---- requests

    def _make_room(self) -> None:
        if len(self._under_way) < REQUESTS:
            ready = [sends for sends in self._by_queue.values() if sends.waiting and not sends.under_way]
            if ready:
                self._post(max(ready, key=lambda sends: sends.waiting_bytes))
                return
        self._settle(self._under_way[0])

    def _post(self, sends: _QueueSends) -> None:
        """Send what waits, when the queue's request before that is settled."""
        if sends.under_way:
            self._settle(sends)
        if len(self._under_way) >= REQUESTS:
            self._settle(self._under_way[0])
        sends.under_way, sends.waiting, sends.waiting_bytes = sends.waiting, [], 0
        self._under_way.append(sends)
        # What goes wrong shows when it's settled, which tries again.
        sends.answer = self._driver.post(sends.address, self._request(sends.queue, sends.under_way))

    def _settle(self, sends: _QueueSends) -> None:
        """Wait for the answer, and make sure that its messages are stored or refused."""
        error: ClientError | None = None
        assert sends.answer is not None, "nothing is under way"
        try:
            answer = self._driver.wait(sends.answer)
        except (BrokerGone, BadAnswer) as lost:
            self.counts.resent += len(sends.under_way)
            error = lost
        else:
            if not self._take(sends, sends.under_way, answer):
                error = self._refusal(sends, answer, sends.under_way)
        if error is not None:
            self._deliver(sends, sends.under_way, error)
        self._under_way.remove(sends)
        self._held -= len(sends.under_way)
        self._held_bytes -= sum(message.size for message in sends.under_way)
        sends.under_way = []

    def _deliver(self, sends: _QueueSends, messages: Sequence[Outgoing], error: ClientError) -> None:
        """Send `messages` until they are settled; raises the last error when retries are used up."""
        rounds = Rounds(self._driver.settings.retries)
        while (pause := rounds.pause()) is not None:
            self._driver.pause(pause)
            try:
                if isinstance(error, BrokerGone):
                    self._renew_address(sends)
                answer = self._driver.ask(sends.address, self._request(sends.queue, messages))
            except (BrokerGone, BadAnswer) as lost:
                error = lost
                continue
            if self._take(sends, messages, answer):
                return
            error = self._refusal(sends, answer, messages)
        raise BrokerGone(f"{queue_name(sends.queue)}: {error}") if isinstance(error, BrokerGone) else error

    def _take(self, sends: _QueueSends, messages: Sequence[Outgoing], answer: RemotingCommand) -> bool:
        """Does the answer settle these messages? Raises Refused if no retry would help."""
        status = STATUSES.get(answer.code)
        if status is not None:
            self.counts.statuses[status] += len(messages)
            self.counts.bytes += sum(len(message.body) for message in messages)
            return True
        if answer.code in TRANSIENT:
            return False
        if answer.code != ILLEGAL:
            raise self._refusal(sends, answer, messages)
        if len(messages) == 1:
            self.counts.refuse(messages[0].number, " ".join((answer.remark or "illegal").split()))
            return True
        for message in messages:
            self._send_alone(sends, message)
        return True

    def _send_alone(self, sends: _QueueSends, message: Outgoing) -> None:
        """One of those that were found illegal together. What goes wrong with it is no matter of the others, of
        which some are stored by now."""
        try:
            answer = self._driver.ask(sends.address, self._request(sends.queue, [message]))
        except (BrokerGone, BadAnswer) as lost:
            self.counts.resent += 1
            self._deliver(sends, [message], lost)
            return
        if not self._take(sends, [message], answer):
            self._deliver(sends, [message], self._refusal(sends, answer, [message]))

    def _refusal(self, sends: _QueueSends, answer: RemotingCommand, messages: Sequence[Outgoing]) -> Refused:
        queue, first = sends.queue, messages[0].number
        return Refused.of(
            sends.address, answer, f"message {first} for topic {queue.topic} queue {queue.queue_id}"
        )

    def _request(self, queue: MessageQueue, messages: Sequence[Outgoing]) -> RemotingCommand:
        first = messages[0]
        batch = len(messages) > 1
        whole = sending.Outgoing(
            topic=queue.topic,
            code=RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2,
            body=encode_batch(map(_entry, messages)) if batch else first.body,
            properties=b"" if batch else first.properties,
            ids=(),
            flag=0 if batch else first.flag,
            reconsume_times=first.reconsume_times,
        )
        born = first.born if first.born is not None else round(self._wall_clock() * 1000)
        return whole.request(self._group, queue, born)


def can_share(topic: str, properties: Iterable[str]) -> bool:
    """May messages of this topic with these properties travel in a batch?"""
    return layout.PROPERTY_DELAY not in properties and not topic.startswith(RETRY_PREFIX)


def _entry(message: Outgoing) -> tuple[int, bytes, bytes]:
    return message.flag, message.body, message.properties
