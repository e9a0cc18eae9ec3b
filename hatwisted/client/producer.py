"""Sending: round robin over all masters, retries elsewhere, back-pressure, and batches by themselves.

Every send is a Deferred of its own result; nothing is sent twice unless the first try failed or got no answer
(so "at least once": a broker that stored a message and couldn't say so makes a second copy possible).

With `coalesce`, messages that have to wait anyway, because requests of their topic are under way, travel
together in one request (320) when an answer frees the line. Nothing is ever held back to make a batch bigger:
without load each message goes at once and alone.

Rejected: a linger time. It buys throughput with latency even when there's none to buy.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from hatwisted.client.command import command
from hatwisted.client.compression import COMPRESS_ABOVE
from hatwisted.client.errors import Closed, NoNameServer, NoRoute, ProducerFull, Refused, SendFailed
from hatwisted.client.lanes import LANE_REQUESTS, MAX_BATCH_BYTES, Batch, Lane
from hatwisted.client.message import Message, UniqueKeys, checked_properties, checked_topic
from hatwisted.client.routes import writable_queues
from hatwisted.client.selection import BrokerFaults, RoundRobin, interleaved
from hatwisted.client.sending import (
    DEFAULT_QUEUES,
    STORED,
    Outgoing,
    SendResult,
    batch_share,
    batched,
    results,
    single,
)
from hatwisted.client.session import Session
from hatwisted.client.window import SendWindow
from hatwisted.remoting.client import CallFailed
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.javahash import java_hash
from hatwisted.wire.layout import MAX_MESSAGE_SIZE, PROPERTY_UNIQ_KEY
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import AUTO_CREATE_TOPIC

RETRIES: Final = 2
"""Further tries of a send (4.9.7: retryTimesWhenSendFailed)."""
SEND_TIMEOUT: Final = 6.0
"""Seconds for one try: brokers wait up to 5 s for the disk and 3 s for a slave, and then still say *stored*."""
MAX_IN_FLIGHT: Final = 512
"""Requests without an answer; remoting allows 1024 a broker."""
MAX_WAITING_BYTES: Final = 32 * 1024 * 1024
"""Bytes of messages that wait for their turn."""
MAKING_TIME: Final = 30.0
"""Seconds after a topic's first message in which it is sent to brokers that don't have it yet, too; RocketMQ's
clients do so until they refresh their routes."""

RETRY_CODES: Final = frozenset((
    ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST, 204, 205, 1500,
))  # fmt: skip
"""What another broker may not say; 204, 205: no buyer, no current buyer; 1500: flow control of 5.x."""


class Producer:
    """Made by `Cluster.producer`. group: producer group; timeout: seconds for one try; retries: further tries;
    compress_above: bytes of a body; coalesce: gather waiting messages into batches."""

    _log = Logger(namespace="hatwisted.client")

    def __init__(
        self,
        session: Session,
        group: str,
        *,
        timeout: float = SEND_TIMEOUT,
        retries: int = RETRIES,
        compress_above: int = COMPRESS_ABOVE,
        max_message_size: int = MAX_MESSAGE_SIZE,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        coalesce: bool = False,
    ) -> None:
        self.group = group
        self.faults = BrokerFaults()
        self._session = session
        self._timeout = timeout
        self._retries = retries
        self._compress_above = compress_above
        self._limit = max_message_size
        self._window = SendWindow(max_in_flight, max_waiting_bytes)
        self._max_waiting = max_waiting_bytes
        self._coalesce = coalesce
        self._lanes: dict[tuple[str, bool, str | None], Lane] = {}
        self._laned_bytes = 0
        self._keys = UniqueKeys()
        self._turns: dict[str, RoundRobin] = {}
        self._unsettled = 0
        self._settled: list[Deferred[None]] = []
        self._making: dict[str, float] = {}
        self._stopped = False
        session.join(self, consumer=False)

    # ---- what a program calls

    def send(self, message: Message, *, queue: MessageQueue | None = None) -> Deferred[SendResult]:
        """Store one message; queue: there and nowhere else.

        Fires with the result. Fails with BadMessage, NoRoute, Refused (an answer that no other broker would
        give differently), SendFailed (all tries), ProducerFull, Closed, NoNameServer.
        """
        if self._coalesce and queue is None and self._may_share(message):
            return self._counted(Deferred.fromCoroutine(self._send_sharing(message)))
        return self._counted(Deferred.fromCoroutine(self._send_one(message, queue)))

    def _counted(self, send: Deferred[SendResult]) -> Deferred[SendResult]:
        self._unsettled += 1
        return send.addBoth(self._count_settled)

    def _count_settled(self, outcome: Any) -> Any:
        self._unsettled -= 1
        if not self._unsettled:
            waiting, self._settled = self._settled, []
            for each in waiting:
                each.callback(None)
        return outcome

    def send_batch(self, messages: Sequence[Message]) -> Deferred[list[SendResult]]:
        """Store messages of one topic side by side in one queue, all or none; errors as `send`."""
        return Deferred.fromCoroutine(self._send_batch(list(messages)))

    def send_oneway(self, message: Message) -> Deferred[None]:
        """Hand one message to a broker's connection and hope; fires when it was written."""
        return Deferred.fromCoroutine(self._send_oneway(message))

    def ready(self) -> Deferred[None]:
        """Fires when the next send would go at once: wait for it between sends, and nothing piles up."""
        if self._laned_bytes * 2 > self._max_waiting:
            return self._window.idle()
        return self._window.ready()

    def settled(self) -> Deferred[None]:
        """Fires when every `send` has its result."""
        if not self._unsettled:
            return succeed(None)
        self._settled.append(Deferred())
        return self._settled[-1]

    def queues(self, topic: str) -> Deferred[list[MessageQueue]]:
        """The queues that take messages of `topic` now. NoRoute if there are none."""
        return Deferred.fromCoroutine(self._queues(topic))

    def stop(self) -> Deferred[None]:
        """Send what is under way to its end, refuse the rest, take leave of the brokers."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self._stopped = True
        for lane in self._lanes.values():
            lane.close()
        self._window.close()
        await self._window.idle()
        await self._session.leave(self, consumer=False)

    # ---- preparing

    def outgoing(self, message: Message, extra: Mapping[str, str] | None = None) -> Outgoing:
        """`message` as a request. BadMessage if it can't be one."""
        return single(
            message, self._keys.next(), above=self._compress_above, limit=self._limit, extra=extra or {}
        )

    def _may_share(self, message: Message) -> bool:
        small = batch_share(message) <= min(MAX_BATCH_BYTES, self._limit)
        return small and len(message.body) <= self._compress_above and not message.delay_level

    async def _send_one(self, message: Message, queue: MessageQueue | None) -> SendResult:
        out = self.outgoing(message)
        if queue is not None:
            out = _pinned(out, queue)
        return (await self.deliver(out))[0]

    async def _send_batch(self, messages: list[Message]) -> list[SendResult]:
        return await self.deliver(batched(messages, [self._keys.next() for _ in messages], self._limit))

    async def _send_oneway(self, message: Message) -> None:
        self._check_open()
        out = self.outgoing(message)
        queue = self._choose(out, await self._queues(out.topic), set())
        await self._window.ready()
        request = command(out.code, out.fields(self.group, queue, self._now_ms()), out.body)
        self._session.remoting.oneway(self._master(out.topic, queue), request)

    async def send_retry(self, message: Message, unique_key: str, times: int, most: int) -> SendResult:
        """A consumer's copy of a message that failed; times: failures so far, of `most` allowed."""
        out = self.outgoing(message, {PROPERTY_UNIQ_KEY: unique_key})
        out = replace(out, ids=(unique_key,), reconsume_times=times, max_reconsume_times=most)
        return (await self.deliver(out))[0]

    # ---- delivering

    async def deliver(self, out: Outgoing) -> list[SendResult]:
        """Send a prepared request within the limits, with retries."""
        self._check_open()
        await self._window.enter(out.size)
        try:
            return await self._try(out)
        finally:
            self._window.leave()

    async def _try(self, out: Outgoing) -> list[SendResult]:
        queues = await self._queues(out.topic)
        failures: list[Exception] = []
        tried: set[str] = set()
        pinned = out.order_key is not None or out.fixed_queue is not None
        for _ in range(1 if pinned else 1 + self._retries):
            if failures:
                queues = await self._queues_again(out.topic, queues)
            queue = self._choose(out, queues, tried)
            try:
                return await self._try_once(out, queue)
            except (CallFailed, Refused, NoRoute) as error:
                if isinstance(error, Refused) and error.code not in RETRY_CODES:
                    raise
                failures.append(error)
                tried.add(queue.broker_name)
                self.faults.failed(queue.broker_name, self._session.clock.seconds())
        if pinned:  # others have asked where the brokers are now, before their next try
            await self._session.routes.refresh([out.topic])
        raise SendFailed(out.topic, failures) from failures[-1]

    async def _try_once(self, out: Outgoing, queue: MessageQueue) -> list[SendResult]:
        clock = self._session.clock
        address = self._master(out.topic, queue)
        began = clock.seconds()
        fields = out.fields(self.group, queue, self._now_ms())
        answer = await self._session.call(address, out.code, fields, out.body, self._timeout)
        if answer.code not in STORED:
            raise Refused.of(address, answer)
        self.faults.answered(queue.broker_name, clock.seconds() - began, clock.seconds())
        return results(answer, out, queue, address)

    def _choose(self, out: Outgoing, queues: list[MessageQueue], tried: set[str]) -> MessageQueue:
        if out.fixed_queue is not None:
            return out.fixed_queue
        if out.order_key is not None:
            return queues[abs(java_hash(out.order_key)) % len(queues)]
        turn = self._turns.get(out.topic)
        if turn is None:
            turn = self._turns[out.topic] = RoundRobin(random.randrange(len(queues)))
        return turn.choose(queues, self.faults, self._session.clock.seconds(), tried)

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
        queues = [] if route is None else writable_queues(topic, route)
        if route is None or self._making.get(topic, 0.0) > self._session.clock.seconds():
            # A topic lives on the brokers that its first messages reach: for a while that's all of them.
            self._making.setdefault(topic, self._session.clock.seconds() + MAKING_TIME)
            default = await routes.route(AUTO_CREATE_TOPIC, fresh=fresh)
            if default is None and route is None:
                raise NoRoute(topic, "the name servers don't know it, and no broker creates topics by itself")
            planned = [] if default is None else writable_queues(topic, default, DEFAULT_QUEUES)
            queues = list(dict.fromkeys([*planned, *queues]))
        if not queues and not fresh:
            # What is remembered has no master; it may be back by now.
            return await self._queues(topic, fresh=True)
        if not queues:
            routes.forget(topic)
            routes.forget(AUTO_CREATE_TOPIC)
            raise NoRoute(topic, "no master takes messages of it now")
        self._session.introduce()
        return interleaved(queues)

    async def _queues_again(self, topic: str, known: list[MessageQueue]) -> list[MessageQueue]:
        try:
            await self._session.routes.route(topic, fresh=True)
            if topic in self._making:
                await self._session.routes.route(AUTO_CREATE_TOPIC, fresh=True)
            return await self._queues(topic)
        except (NoNameServer, NoRoute, Refused):
            return known

    def _now_ms(self) -> int:
        return int(self._session.clock.seconds() * 1000)

    def _check_open(self) -> None:
        if self._stopped:
            raise Closed(f"producer {self.group} was stopped")

    # ---- sharing requests

    async def _send_sharing(self, message: Message) -> SendResult:
        self._check_open()
        # Its own mistakes are told now: they'd be those of its whole batch.
        checked_topic(message.topic)
        checked_properties(message.all_properties(self.group))
        key = (message.topic, message.wait, message.order_key)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(1 if message.order_key is not None else LANE_REQUESTS)
        size = batch_share(message)
        if self._laned_bytes and self._laned_bytes + size > self._max_waiting:
            raise ProducerFull(f"{self._laned_bytes} bytes wait for their turn: await ready() between sends")
        self._laned_bytes += size
        try:
            batch = await lane.turn(message, size)
        finally:
            self._laned_bytes -= size
        if isinstance(batch, SendResult):
            return batch
        return await self._lead(batch, lane, key)

    async def _lead(self, batch: Batch, lane: Lane, key: tuple[str, bool, str | None]) -> SendResult:
        """Send for all of `batch`; the caller's own message is its first."""
        messages = [message for message, _ in batch]
        try:
            if len(messages) == 1:
                found = [await self._send_one(messages[0], None)]
            else:
                found = await self._send_batch(messages)
        except Exception as error:
            for _, waiter in batch[1:]:
                waiter.errback(error)
            raise
        else:
            for (_, waiter), result in zip(batch[1:], found[1:], strict=True):
                waiter.callback(result)
            return found[0]
        finally:
            lane.leave()
            if lane.empty:
                self._lanes.pop(key, None)

    # ---- as the session sees it

    @property
    def topics(self) -> list[str]:
        """Topics it has sent to."""
        return list(self._turns)

    def heartbeat(self) -> Mapping[str, object]:
        """Its entry in a heartbeat."""
        return {"groupName": self.group}

    def asked(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        """Brokers ask producers of transactions only."""
        return None


def _pinned(out: Outgoing, queue: MessageQueue) -> Outgoing:
    return replace(out, fixed_queue=queue)
