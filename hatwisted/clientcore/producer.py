"""Sending: round robin over all masters, retries elsewhere, back-pressure, and batches by themselves.

Every send is a coroutine of its own result; nothing is sent twice unless the first try failed or got no answer
(so "at least once": a broker that stored a message and couldn't say so makes a second copy possible).

With `coalesce`, messages that have to wait anyway, because requests of their topic are under way, travel
together in one request (320) when an answer frees the line. Nothing is ever held back to make a batch bigger:
without load each message goes at once and alone.

Rejected: a linger time. It buys throughput with latency even when there's none to buy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hatwisted.clientcore.accumulator import MAX_BATCH_BYTES, TOPIC_REQUESTS, Accumulator, Batch
from hatwisted.clientcore.errors import (
    BadAnswer,
    CallFailed,
    Closed,
    NoNameServer,
    NoRoute,
    ProducerFull,
    Refused,
)
from hatwisted.clientcore.message import Message, UniqueKeys, checked_group, checked_properties, checked_topic
from hatwisted.clientcore.options import ProducerOptions
from hatwisted.clientcore.routes import writable_queues
from hatwisted.clientcore.selection import BrokerFaults, RoundRobin, interleaved
from hatwisted.clientcore.sending import (
    DEFAULT_QUEUES,
    STORED,
    Outgoing,
    SendResult,
    batch_share,
    batched,
    results,
    single,
)
from hatwisted.clientcore.sendwindow import SendWindow
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.tasks import Waiter, sleep
from hatwisted.clientcore.tries import Tries
from hatwisted.wire.javahash import java_hash
from hatwisted.wire.layout import PROPERTY_UNIQ_KEY
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import TopicRoute
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import AUTO_CREATE_TOPIC

MAKING_TIME: Final = 30.0
"""Seconds after a topic's first message in which it is sent to brokers that don't have it yet, too; RocketMQ's
clients do so until they refresh their routes."""


class Producer:
    """One group's producer; nothing is sent before it is asked to.

    - session: its identity among the brokers
    - group: its name; BadSetting if it can't be one
    - options: how it sends
    """

    def __init__(self, session: Session, group: str, options: ProducerOptions) -> None:
        self.group = checked_group(group)
        self.faults = BrokerFaults()
        self._session = session
        self._driver = session.driver
        self._options = options
        self._window = SendWindow(options.max_in_flight, options.max_waiting_bytes)
        self._accumulators: dict[_Shared, Accumulator] = {}
        self._gathered_bytes = 0
        self._keys = UniqueKeys(session.driver.randomness.randbytes(8))
        self._turns: dict[str, RoundRobin] = {}
        self._unsettled = 0
        self._settled: list[Waiter[None]] = []
        self._making: dict[str, float] = {}
        # By topic the route that its queues were made of last: routes are replaced, never changed.
        self._writable: dict[str, tuple[TopicRoute, list[MessageQueue]]] = {}
        self._stopped = False
        session.join(self, consumer=False)

    # ---- what a program calls

    async def send(self, message: Message, *, queue: MessageQueue | None = None) -> SendResult:
        """Store one message; queue: there and nowhere else.

        Raises BadMessage, NoRoute, Refused (an answer that no other broker would give differently), SendFailed
        (all tries), ProducerFull, Closed, NoNameServer.
        """
        if self._options.coalesce and queue is None:
            size = batch_share(message)
            shares = self._may_share(message, size)
            if shares or message.order_key is not None:  # who goes alone mustn't overtake those that wait
                return await self._send_sharing(message, size, shares)
        out = self.outgoing(message)
        if queue is not None:
            out = replace(out, fixed_queue=queue)
        return (await self.deliver(out))[0]

    def _count_settled(self) -> None:
        self._unsettled -= 1
        if not self._unsettled:
            waiting, self._settled = self._settled, []
            for each in waiting:
                each.fire(None)

    async def send_batch(self, messages: Sequence[Message]) -> list[SendResult]:
        """Store messages of one topic side by side in one queue, all or none; errors as `send`."""
        unique_keys = [self._keys.next() for _ in messages]
        return await self.deliver(batched(messages, unique_keys, self._options.max_message_size))

    async def send_oneway(self, message: Message) -> None:
        """Hand one message to a broker's connection and hope."""
        self._check_open()
        out = self.outgoing(message)
        queue = self._choose(out, await self._queues(out.topic), (), self._driver.seconds())
        await self._window.ready()
        request = out.request(self.group, queue, _ms(self._driver.seconds()))
        self._driver.oneway(self._master(out.topic, queue), request)

    async def ready(self) -> None:
        """Returns when the next send would go at once: wait for it between sends, and nothing piles up."""
        if self._gathered_bytes * 2 > self._options.max_waiting_bytes:
            await self._window.idle()
        else:
            await self._window.ready()

    async def settled(self) -> None:
        """Fires when every send has its result."""
        if self._unsettled:
            settled: Waiter[None] = Waiter()
            self._settled.append(settled)
            await settled
            # The last one's result is handed out after this has been heard: a turn later, everybody has theirs.
            await sleep(self._driver, 0)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that take messages of `topic` now. NoRoute if there are none."""
        return list(await self._queues(topic))

    async def stop(self) -> None:
        """Finish the sends under way, refuse the rest, unregister from the brokers."""
        self._stopped = True
        for accumulator in self._accumulators.values():
            accumulator.close()
        self._window.close()
        await self._window.idle()
        await self._session.leave(self, consumer=False)

    # ---- preparing

    def outgoing(self, message: Message, extra: Mapping[str, str] | None = None) -> Outgoing:
        """`message` as a request. BadMessage if it can't be one."""
        return single(
            message,
            self._keys.next(),
            above=self._options.compress_above,
            limit=self._options.max_message_size,
            extra=extra or {},
        )

    def _may_share(self, message: Message, size: int) -> bool:
        small = size <= self._most_shared
        return small and len(message.body) <= self._options.compress_above and not message.delay_level

    @property
    def _most_shared(self) -> int:
        """Bytes of a batch that is gathered: no more than a program's own batches may have."""
        return min(MAX_BATCH_BYTES, self._options.max_message_size)

    async def send_retry(self, message: Message, unique_key: str, times: int, most: int) -> SendResult:
        """Send a consumer's copy of a message that failed.

        - message: the copy
        - unique_key: of the message that it copies
        - times: failures so far
        - most: of them allowed
        """
        out = self.outgoing(message, {PROPERTY_UNIQ_KEY: unique_key})
        out = replace(out, ids=(unique_key,), reconsume_times=times, max_reconsume_times=most)
        return (await self.deliver(out))[0]

    # ---- delivering

    async def deliver(self, out: Outgoing) -> list[SendResult]:
        """Send a prepared request within the limits, with retries: one result for each of its ids."""
        self._check_open()
        self._unsettled += 1
        try:
            await self._window.enter(out.size)
            try:
                return await self._try(out)
            finally:
                self._window.leave()
        finally:
            self._count_settled()

    async def _try(self, out: Outgoing) -> list[SendResult]:
        queues = await self._queues(out.topic)
        now = self._driver.seconds()
        tries = Tries(out, self._options, now)
        while tries.next_at(now):
            if tries.failures:
                queues = await self._queues_again(out.topic, queues)
                now = self._driver.seconds()
            queue = self._choose(out, queues, tries.tried, now)
            try:
                found = await self._try_once(out, queue, tries.left(now), now)
            except (CallFailed, Refused, NoRoute) as error:
                now = self._driver.seconds()
                tries.failed(queue.broker_name, error)
                self.faults.failed(queue.broker_name, now)
            else:
                if tries.stored(queue.broker_name, found):
                    return found
                now = self._driver.seconds()
        if out.pinned:  # others have asked where the brokers are now, before their next try
            await self._session.routes.refresh([out.topic])
        return tries.outcome()

    async def _try_once(
        self, out: Outgoing, queue: MessageQueue, timeout: float, began: float
    ) -> list[SendResult]:
        address = self._master(out.topic, queue)
        fields = out.fields(self.group, queue, _ms(began))
        answer = await self._session.call(address, out.code, fields, out.body, timeout)
        if answer.code not in STORED:
            raise Refused.of(address, answer)
        now = self._driver.seconds()
        self.faults.answered(queue.broker_name, now - began, now)
        return results(answer, out, queue, address)

    def _choose(
        self, out: Outgoing, queues: list[MessageQueue], tried: Collection[str], now: float
    ) -> MessageQueue:
        if out.fixed_queue is not None:
            return out.fixed_queue
        if out.order_key is not None:
            return queues[abs(java_hash(out.order_key)) % len(queues)]
        turn = self._turns.get(out.topic)
        if turn is None:
            turn = self._turns[out.topic] = RoundRobin(self._driver.randomness.randrange(len(queues)))
        return turn.choose(queues, self.faults, now, tried)

    def _master(self, topic: str, queue: MessageQueue) -> str:
        routes = self._session.routes
        address = routes.master(topic, queue.broker_name) or routes.master(
            AUTO_CREATE_TOPIC, queue.broker_name
        )
        if address is None:
            raise NoRoute(topic, f"{queue.broker_name} has no master now")
        return address

    # ---- queues

    async def _queues(self, topic: str, *, fresh: bool = False) -> list[MessageQueue]:
        """Those of its route; for a topic that isn't there yet, those it will have: brokers create it. fresh: ask
        for the route, whatever is remembered."""
        routes = self._session.routes
        route = await routes.route(topic, fresh=fresh)
        made = route is not None and self._making.get(topic, 0.0) <= self._driver.seconds()
        known = self._writable.get(topic)
        if made and known is not None and known[0] is route:
            self._session.introduce()
            return known[1]
        queues = [] if route is None else writable_queues(topic, route)
        if not made:
            # A topic lives on the brokers that its first messages reach: for a while that's all of them.
            self._making.setdefault(topic, self._driver.seconds() + MAKING_TIME)
            default = await routes.route(AUTO_CREATE_TOPIC, fresh=fresh)
            if default is None and route is None:
                raise NoRoute(
                    topic, "the name servers don't know it, and no broker creates topics automatically"
                )
            planned = [] if default is None else writable_queues(topic, default, DEFAULT_QUEUES)
            queues = list(dict.fromkeys([*planned, *queues]))
        if not queues and not fresh:
            # What is remembered has no master; it may be back by now.
            return await self._queues(topic, fresh=True)
        if not queues:
            routes.forget(topic)
            routes.forget(AUTO_CREATE_TOPIC)
            raise NoRoute(topic, "no master accepts messages for it now")
        self._session.introduce()
        queues = interleaved(queues)
        if made and route is not None:
            self._writable[topic] = route, queues
        return queues

    async def _queues_again(self, topic: str, known: list[MessageQueue]) -> list[MessageQueue]:
        try:
            await self._session.routes.route(topic, fresh=True)
            if topic in self._making:
                await self._session.routes.route(AUTO_CREATE_TOPIC, fresh=True)
            return await self._queues(topic)
        except (NoNameServer, NoRoute, Refused, BadAnswer):
            return known

    def _check_open(self) -> None:
        if self._stopped:
            raise Closed(f"producer {self.group} was stopped")

    # ---- sharing requests

    async def _send_sharing(self, message: Message, size: int, shares: bool) -> SendResult:
        self._check_open()
        # Its own mistakes fail it now: later they would fail its whole batch.
        checked_topic(message.topic)
        checked_properties(message.all_properties(self.group))
        key = (message.topic, message.wait or message.order_key is not None, message.order_key)
        accumulator = self._accumulators.get(key)
        if accumulator is None:
            requests = 1 if message.order_key is not None else TOPIC_REQUESTS
            accumulator = self._accumulators[key] = Accumulator(requests, self._most_shared)
        held = self._gathered_bytes
        if held and held + size > self._options.max_waiting_bytes:
            raise ProducerFull(f"{held} bytes are waiting to be sent: await ready() between sends")
        self._gathered_bytes += size
        self._unsettled += 1
        try:
            try:
                batch = await accumulator.turn(message, size if shares else self._most_shared + 1)
            finally:
                self._gathered_bytes -= size
            if isinstance(batch, SendResult):
                return batch
            return await self._lead(batch, accumulator, key)
        finally:
            self._count_settled()

    async def _lead(self, batch: Batch, accumulator: Accumulator, key: _Shared) -> SendResult:
        """Send for all of `batch`; the caller's own message is its first."""
        try:
            if batch.followers:
                found = await self.send_batch(batch.messages)
            else:
                found = await self.deliver(self.outgoing(batch.messages[0]))
        except BaseException as error:
            failure = (
                error
                if isinstance(error, Exception)
                else Closed("the send that led this batch was cancelled")
            )
            for waiter in batch.followers:
                waiter.fail(failure)
            raise
        else:
            for waiter, result in zip(batch.followers, found[1:], strict=True):
                waiter.fire(result)
            return found[0]
        finally:
            accumulator.leave()
            if accumulator.empty:
                self._accumulators.pop(key, None)

    # ---- as the session sees it

    @property
    def topics(self) -> list[str]:
        """Topics it has sent to."""
        return list(self._turns)

    def heartbeat(self) -> Mapping[str, object]:
        """Its entry in a heartbeat."""
        return {"groupName": self.group}

    def on_request(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        """Brokers ask producers of transactions only."""
        return None


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


_Shared = tuple[str, bool, str | None]
"""What messages that wait in one line have in common: topic, wait (of those without an order key), order key."""
