"""Reading as a member of a group: queues are shared out, progress is kept, failures are retried.

    consumer = cluster.consumer("billing", {"Orders": "paid || refunded"})
    await consumer.start()
    async for message in consumer:      # settled when the next one is asked for
        ...

or, by callback, `cluster.consumer("billing", {"Orders": "*"}, on_messages=handle, batch=32)`: `handle` gets a
list of one queue's messages, in order, and returns None, a Deferred or a coroutine.

Each queue is consumed in order, one batch at a time, and the queues beside each other; so a queue's progress is
one number, and a slow message delays its own queue only. Rejected: RocketMQ's pool that consumes one queue's
messages in any order; its progress is the oldest unfinished message, and a crash repeats all behind it.

Every delivery may be repeated ("at least once"): after a failed batch, a lost answer, or a change of members.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, DeferredList, DeferredLock, TimeoutError, succeed
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.client.allocation import allocate
from hatwisted.client.delivery import MAX_RECONSUME, GiveBack, Listener, Rejected, deliver
from hatwisted.client.errors import ClientError, Closed
from hatwisted.client.message import RETRY_PREFIX, ReceivedMessage
from hatwisted.client.offsets import BrokerOffsets, LocalOffsets, OffsetStore, broker_address
from hatwisted.client.queuereader import PREFETCH_BYTES, PREFETCH_MESSAGES, QueueReader
from hatwisted.client.routes import MASTER_ID, readable_queues
from hatwisted.client.subscription import SQL92, Sql, Subscription, subscription
from hatwisted.remoting.client import CallFailed
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue, parse_queue, parse_queue_table, queue_table
from hatwisted.wire.registration import TopicRoute
from hatwisted.wire.remoting import RemotingCommand

if TYPE_CHECKING:
    from hatwisted.client.cluster import Cluster

REBALANCE_INTERVAL: Final = 20.0
COMMIT_INTERVAL: Final = 5.0
"""Seconds, as RocketMQ's clients."""
STOP_PATIENCE: Final = 5.0
"""Seconds that a stop waits for the program to finish what it was given."""
MAX_BATCH: Final = 1000
"""Messages of one batch; a queue's buffer holds no more."""


class ConsumeFrom(Enum):
    """Where a group begins in a queue it has never read."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class Consumer:
    """Made by `Cluster.consumer`.

    subscriptions: topic -> "*", "tag || tag" or Sql(...); on_messages: the callback, None for `async for`;
    batch: messages for one call; consume_from, timestamp (ms): where a new group begins; broadcasting: every
    member gets everything, progress is kept in local_offsets (a file; None: only while it runs).
    """

    _log = Logger(namespace="hatwisted.client")

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        subscriptions: Mapping[str, str | Sql],
        *,
        on_messages: Listener | None = None,
        batch: int = 1,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        timestamp: int = 0,
        broadcasting: bool = False,
        local_offsets: Path | None = None,
        max_reconsume: int = MAX_RECONSUME,
        prefetch_messages: int = PREFETCH_MESSAGES,
        prefetch_bytes: int = PREFETCH_BYTES,
    ) -> None:
        if not 0 < batch <= MAX_BATCH:
            raise ValueError(f"a batch of {batch}: 1 to {MAX_BATCH} messages are allowed")
        self.group = group
        self._cluster = cluster
        version = int(cluster.clock.seconds() * 1000)
        self._subscriptions = {
            topic: subscription(topic, wish, version) for topic, wish in subscriptions.items()
        }
        if not broadcasting:
            retry = RETRY_PREFIX + group
            self._subscriptions[retry] = subscription(retry, "*", version)
        self._on_messages = on_messages or self._offer
        self._batch = batch if on_messages is not None else 1
        self._from = consume_from
        self._timestamp = timestamp
        self._broadcasting = broadcasting
        self._offsets: OffsetStore = (
            LocalOffsets(local_offsets) if broadcasting else BrokerOffsets(cluster, group)
        )
        self._give_back = GiveBack(cluster, group, max_reconsume)
        self._prefetch = {"prefetch_messages": prefetch_messages, "prefetch_bytes": prefetch_bytes}
        self._readers: dict[MessageQueue, QueueReader] = {}
        self._working: dict[QueueReader, Deferred[None]] = {}
        self._balancing = DeferredLock()
        self._running = self._stopped = False
        self._stopping: Deferred[None] = succeed(None)
        self._loops: list[LoopingCall] = []
        self._offers: deque[tuple[ReceivedMessage, Deferred[None]]] = deque()
        self._takers: deque[Deferred[ReceivedMessage | None]] = deque()
        self._handed: dict[str, tuple[ReceivedMessage, Deferred[None]]] = {}

    # ---- what a program calls

    def start(self) -> Deferred[None]:
        """Join the group and begin to read; fires after the first share-out of queues.

        Fails with NoNameServer, or Refused for an SQL92 expression that the broker doesn't take.
        """
        return Deferred.fromCoroutine(self._start())

    def stop(self) -> Deferred[None]:
        """Read no more, wait up to STOP_PATIENCE for what the program works on, commit, leave the group."""
        if not self._stopped:
            self._stopped = True
            # In place before it begins: a loop that ends by it may ask to stop again at once.
            self._stopping = Deferred()
            Deferred.fromCoroutine(self._stop()).chainDeferred(self._stopping)
        # Every caller waits for the one stop, and none of them can end it.
        again: Deferred[None] = Deferred()

        def ended(outcome: object) -> object:
            again.callback(None)
            return outcome

        self._stopping.addBoth(ended)
        return again

    def commit(self) -> Deferred[None]:
        """Tell the brokers (or the file) how far this consumer is, now; done every 5 s anyway."""
        return Deferred.fromCoroutine(self._commit())

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues being read."""
        return list(self._readers)

    @property
    def progress(self) -> dict[MessageQueue, int]:
        """By queue the offset to go on from."""
        return {queue: reader.progress for queue, reader in self._readers.items()}

    async def _start(self) -> None:
        if self._running or self._stopped:
            raise Closed(f"consumer {self.group} was started before")
        routes = self._cluster.routes
        for topic in self._subscriptions:
            await routes.route(topic, fresh=True)
        await self._check_expressions()
        self._cluster.join(self, consumer=True)
        self._running = True
        await self._cluster.heartbeat()
        await self._rebalance()
        for interval, work in ((REBALANCE_INTERVAL, self.rebalance), (COMMIT_INTERVAL, self._commit_soon)):
            loop = LoopingCall(work)
            loop.clock = self._cluster.clock
            loop.start(interval, now=False)
            self._loops.append(loop)

    async def _check_expressions(self) -> None:
        for wish in self._subscriptions.values():
            route = await self._cluster.routes.route(wish.topic)
            if wish.kind == SQL92 and route is not None:
                body = {"clientId": self._cluster.client_id, "group": self.group}
                text = fastjson.dumps_compact(body | {"subscriptionData": wish.entry()})
                await self._cluster.ask(next(_addresses(route)), RequestCode.CHECK_CLIENT_CONFIG, body=text)

    async def _stop(self) -> None:
        for loop in self._loops:
            loop.stop()
        self._end_offers()
        working = list(self._working.values())
        if working:
            done = DeferredList(working, consumeErrors=True)
            try:
                await done.addTimeout(STOP_PATIENCE, self._cluster.clock)
            except TimeoutError:
                self._log.warn("{group}: the program still works on messages at the stop", group=self.group)
        self._give_back.stopped = True
        if self._running:
            await self._commit()
        for reader in self._readers.values():
            reader.stop()
        self._readers.clear()
        if self._running:
            await self._cluster.leave(self, consumer=True)

    # ---- one message after the other

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Messages, until the consumer stops; each is settled when the next is asked for."""
        return _Messages(self)

    def settle(self, message: ReceivedMessage) -> None:
        """`message`, got by `async for`, is done with; needed only before leaving the loop."""
        self._finish(message, None)

    def reject(self, message: ReceivedMessage) -> None:
        """`message`, got by `async for`, is to be tried again later."""
        self._finish(message, Rejected("rejected"))

    def _finish(self, message: ReceivedMessage, error: Exception | None) -> None:
        _, done = self._handed.pop(_place(message), (None, None))
        if done is not None and not done.called:
            done.callback(None) if error is None else done.errback(error)

    def _offer(self, batch: Sequence[ReceivedMessage]) -> Deferred[None]:
        """The listener behind `async for`."""
        (message,) = batch
        done: Deferred[None] = Deferred()
        self._handed[_place(message)] = message, done
        if self._takers:
            self._takers.popleft().callback(message)
        else:
            self._offers.append((message, done))
        return done

    def next_message(self) -> Deferred[ReceivedMessage | None]:
        """The next one for `async for`; None when the consumer has stopped."""
        taker: Deferred[ReceivedMessage | None] = Deferred(self._forget_taker)
        while self._offers:
            message, _ = self._offers.popleft()
            if _place(message) in self._handed:
                taker.callback(message)
                return taker
        if self._stopped:
            taker.callback(None)
        else:
            self._takers.append(taker)
        return taker

    def _forget_taker(self, taker: Deferred[Any]) -> None:
        if taker in self._takers:
            self._takers.remove(taker)

    def _end_offers(self) -> None:
        """What nobody has taken, or nobody has settled, is left for the next reader of its queue."""
        self._offers.clear()
        handed, self._handed = self._handed, {}
        for _, done in handed.values():
            done.errback(_Unsettled())
        while self._takers:
            self._takers.popleft().callback(None)

    # ---- delivering

    def _arrived(self, reader: QueueReader) -> None:
        if reader not in self._working and not self._stopped:
            # Noted before it begins: it may be over when fromCoroutine returns.
            done = self._working[reader] = Deferred()
            work = Deferred.fromCoroutine(self._work(reader)).addErrback(self._work_failed, reader)
            work.addBoth(lambda _: self._worked(reader, done))

    def _worked(self, reader: QueueReader, done: Deferred[None]) -> None:
        del self._working[reader]
        done.callback(None)

    async def _work(self, reader: QueueReader) -> None:
        """Deliver what `reader` has, batch after batch, until its buffer is empty."""
        while not self._stopped and not reader.dropped and (batch := reader.take(self._batch)):
            await deliver(batch, self._on_messages, self._failed)
            reader.settle()

    def _work_failed(self, failure: Failure, reader: QueueReader) -> None:
        if failure.check(_Unsettled) or (self._stopped and failure.check(ClientError)):
            return
        self._log.failure("consuming {queue} ended", failure=failure, queue=reader.queue)

    async def _failed(self, message: ReceivedMessage, error: Exception) -> None:
        if isinstance(error, _Unsettled):
            raise error
        if self._broadcasting:
            self._log.error(
                "message {id} of {topic} failed and is passed over, as broadcasting has no retries: {error!r}",
                id=message.message_id,
                topic=message.topic,
                error=error,
            )
            return
        await self._give_back.give_back(message, error)

    # ---- sharing out queues

    def rebalance(self) -> None:
        """Look anew who of the group reads what."""
        # One round under way and one after it see everything there is to see.
        if len(self._balancing.waiting) == 0 and self._running and not self._stopped:
            self._cluster.in_background(self._rebalance(), "share-out of queues")

    async def _rebalance(self) -> None:
        await self._balancing.run(lambda: Deferred.fromCoroutine(self._share_out()))

    async def _share_out(self) -> None:
        for wish in list(self._subscriptions.values()):
            try:
                share = await self._share(wish)
            except (CallFailed, ClientError) as error:
                self._log.info("queues of {topic} stay as they are: {error}", topic=wish.topic, error=error)
                continue
            if share is not None and not self._stopped:
                await self._adopt(wish, share)

    async def _share(self, wish: Subscription) -> list[MessageQueue] | None:
        """This member's queues of a topic; None if that can't be told now."""
        route = await self._cluster.routes.route(wish.topic)
        if route is None:
            return None
        queues = readable_queues(wish.topic, route)
        if self._broadcasting:
            return queues
        members = await self._members(route)
        if self._cluster.client_id not in members:
            # A broker that has just started: it learns who's here before anybody gives up queues.
            await self._cluster.heartbeat()
            members = await self._members(route)
        if self._cluster.client_id not in members:
            return None
        return allocate(queues, members, self._cluster.client_id)

    async def _members(self, route: TopicRoute) -> list[str]:
        failed: Exception = ClientError("no broker to ask for the group's members")
        for address in _addresses(route):
            try:
                answer = await self._cluster.call(
                    address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self.group}
                )
            except CallFailed as error:
                failed = error
                continue
            if answer.code != ResponseCode.SUCCESS:
                return []
            found = fastjson.loads(answer.body).get("consumerIdList") or []
            return [str(each) for each in found]
        raise failed

    async def _adopt(self, wish: Subscription, share: Iterable[MessageQueue]) -> None:
        wanted = set(share)
        gone = [queue for queue in self._readers if queue.topic == wish.topic and queue not in wanted]
        await self._give_up(gone)
        for queue in sorted(
            wanted - self._readers.keys(), key=lambda each: (each.broker_name, each.queue_id)
        ):
            try:
                start = await self._beginning(queue)
            except (CallFailed, ClientError) as error:
                # Reading from a guess would lose or repeat messages: the next round asks again.
                self._log.info("{queue}: progress isn't known yet: {error}", queue=queue, error=error)
                continue
            if self._stopped:
                return
            reader = self._readers[queue] = QueueReader(
                self._cluster,
                self.group,
                queue,
                wish,
                start,
                self._arrived,
                clustering=not self._broadcasting,
                **self._prefetch,
            )
            reader.start()

    async def _give_up(self, queues: Iterable[MessageQueue]) -> None:
        progress = {}
        for queue in queues:
            reader = self._readers.pop(queue)
            progress[queue] = reader.progress
            reader.stop()
        if progress:
            self._tell(await self._offsets.write(progress))

    async def _beginning(self, queue: MessageQueue) -> int:
        """Where to begin to read."""
        known = await self._offsets.read(queue)
        if known is not None:
            return known
        if queue.topic.startswith(RETRY_PREFIX):
            return 0
        fields: dict[str, object] = {"topic": queue.topic, "queueId": queue.queue_id}
        code = {
            ConsumeFrom.LAST: RequestCode.GET_MAX_OFFSET,
            ConsumeFrom.FIRST: RequestCode.GET_MIN_OFFSET,
            ConsumeFrom.TIMESTAMP: RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        }[self._from]
        if self._from is ConsumeFrom.TIMESTAMP:
            fields["timestamp"] = self._timestamp
        answer = await self._cluster.ask(broker_address(self._cluster, queue), code, fields)
        return int(answer.ext["offset"])

    # ---- progress

    def _commit_soon(self) -> None:
        self._cluster.in_background(self._commit(), "commit of offsets")

    async def _commit(self) -> None:
        changed = {
            queue: reader.progress
            for queue, reader in self._readers.items()
            if reader.progress != reader.committed
        }
        if not changed:
            return
        failed = await self._offsets.write(changed)
        self._tell(failed)
        if not failed:
            for queue, offset in changed.items():
                if queue in self._readers:
                    self._readers[queue].committed = offset

    def _tell(self, failed: Iterable[Exception]) -> None:
        for error in failed:
            self._log.warn("progress of {group} isn't noted yet: {error}", group=self.group, error=error)

    async def _reset(self, table: Mapping[MessageQueue, int]) -> None:
        """An administrator moves the group: forget what was read, go on from there."""
        for queue in table:
            reader = self._readers.pop(queue, None)
            if reader is not None:
                reader.stop()
        self._tell(await self._offsets.write(table))
        await self._rebalance()

    # ---- as the cluster sees it

    @property
    def topics(self) -> list[str]:
        """Topics it reads."""
        return list(self._subscriptions)

    def heartbeat(self) -> Mapping[str, object]:
        """Its entry in a heartbeat."""
        return {
            "consumeFromWhere": self._from.value,
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": self.group,
            "messageModel": "BROADCASTING" if self._broadcasting else "CLUSTERING",
            "subscriptionDataSet": [wish.entry() for wish in self._subscriptions.values()],
            "unitMode": False,
        }

    def asked(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        """40: members changed; 220: go elsewhere; 221: where are you?"""
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self.rebalance()
        elif request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            try:
                table = _offset_table(request.body)
            except (ValueError, KeyError, TypeError) as error:
                self._log.warn("{address}: a reset that can't be read: {error}", address=address, error=error)
                return None
            self._cluster.in_background(self._reset(table), "reset of offsets")
        elif request.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            topic = request.ext.get("topic")
            standing = {queue: at for queue, at in self.progress.items() if queue.topic == topic}
            body = fastjson.dumps_compact({"messageQueueTable": queue_table(standing)})
            return RemotingCommand(ResponseCode.SUCCESS, body=body)
        return None


class _Unsettled(ClientError):
    """The consumer stopped while the program had the message."""


class _Messages:
    """One `async for`."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._current: ReceivedMessage | None = None

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> ReceivedMessage:
        if self._current is not None:
            current, self._current = self._current, None
            self._consumer.settle(current)
        message = await self._consumer.next_message()
        if message is None:
            raise StopAsyncIteration
        self._current = message
        return message


def _place(message: ReceivedMessage) -> str:
    queue = message.queue
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}/{message.queue_offset}"


def _addresses(route: TopicRoute) -> Any:
    """All brokers of a topic, masters first."""
    found = [(number, each) for group in route.broker_datas for number, each in group.broker_addrs.items()]
    return (address for _, address in sorted(found, key=lambda each: each[0] != MASTER_ID))


def _offset_table(body: bytes) -> dict[MessageQueue, int]:
    """Of a 220: a map from queue to offset, or the list that clients other than Java's are sent."""
    table = fastjson.loads(body)["offsetTable"]
    if isinstance(table, list):
        return {parse_queue(each): int(each["offset"]) for each in table}
    return parse_queue_table(table)
