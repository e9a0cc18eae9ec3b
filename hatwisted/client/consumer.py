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

Two things can still put a later message before an earlier one: a failure, which goes on with the next and comes
back, and a change of members, when old and new owner of a queue overlap. `orderly=True` excludes both, by
suspending the queue and by locks at the brokers, at the price of a queue that waits.

Every delivery may be repeated ("at least once"): after a failed batch, a lost answer, or a change of members.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Final

from twisted.internet.defer import Deferred, DeferredLock, TimeoutError, succeed
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from hatwisted.client.assignment import Assignment
from hatwisted.client.beginning import Beginning, ConsumeFrom
from hatwisted.client.consumestats import ConsumeStats
from hatwisted.client.delivery import Listener
from hatwisted.client.errors import ClientError, Closed
from hatwisted.client.giveback import MAX_RECONSUME, GiveBack
from hatwisted.client.membership import Membership
from hatwisted.client.message import ReceivedMessage
from hatwisted.client.messagestream import Messages, MessageStream
from hatwisted.client.offsets import BrokerOffsets, LocalOffsets, OffsetStore
from hatwisted.client.producer import Producer
from hatwisted.client.questions import Questions, info_table, queue_info
from hatwisted.client.queuelocks import QueueLocks
from hatwisted.client.queuereader import PREFETCH_BYTES, PREFETCH_MESSAGES, QueueReader
from hatwisted.client.queuework import SUSPENSION, InOrder, PassOver, QueueWork, Retries, Rule
from hatwisted.client.session import Session
from hatwisted.client.subscription import Sql, Subscription, subscription
from hatwisted.remoting.client import Answer, CallFailed
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import RETRY_PREFIX

REBALANCE_INTERVAL: Final = 20.0
COMMIT_INTERVAL: Final = 5.0
"""Seconds, as RocketMQ's clients."""
STOP_PATIENCE: Final = 5.0
"""Seconds that a stop waits for the program to finish what it was given."""
MAX_BATCH: Final = 1000
"""Messages of one batch; a queue's buffer holds no more."""


class Consumer:
    """Made by `Cluster.consumer`.

    subscriptions: topic -> "*", "tag || tag" or Sql(...); on_messages: the callback, None for `async for`;
    batch: messages for one call; consume_from, timestamp (ms): where a new group begins; broadcasting: every
    member gets everything, progress is kept in local_offsets (a file; None: only while it runs); orderly: a
    failed message holds its queue up, for `suspension` seconds at a time, and a queue never has two readers;
    max_reconsume: failures until a dead letter (None: 16, and without end if orderly).
    """

    _log = Logger(namespace="hatwisted.client")

    def __init__(
        self,
        session: Session,
        group: str,
        subscriptions: Mapping[str, str | Sql],
        copies: Callable[[], Producer],
        *,
        on_messages: Listener | None = None,
        batch: int = 1,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        timestamp: int = 0,
        broadcasting: bool = False,
        local_offsets: Path | None = None,
        orderly: bool = False,
        suspension: float = SUSPENSION,
        max_reconsume: int | None = None,
        prefetch_messages: int = PREFETCH_MESSAGES,
        prefetch_bytes: int = PREFETCH_BYTES,
    ) -> None:
        if not 0 < batch <= MAX_BATCH:
            raise ValueError(f"a batch of {batch}: 1 to {MAX_BATCH} messages are allowed")
        if not subscriptions:
            raise ValueError(f"group {group} subscribes to nothing")
        self.group = group
        self.orderly = orderly
        self._session = session
        self._broadcasting = broadcasting
        self._subscriptions = self._made(subscriptions)
        self._batch = batch if on_messages is not None else 1
        self._prefetch = prefetch_messages, prefetch_bytes
        self._stream = MessageStream()
        self._stats = ConsumeStats(session.clock)
        self._membership = Membership(session, group, broadcasting)
        offsets: OffsetStore = LocalOffsets(local_offsets) if broadcasting else BrokerOffsets(session, group)
        self._beginning = Beginning(session, offsets, consume_from, timestamp)
        self._locks = QueueLocks(session, group) if orderly and not broadcasting else None
        self._give_back = GiveBack(
            session, group, copies, MAX_RECONSUME if max_reconsume is None else max_reconsume
        )
        self._work = QueueWork(
            session.clock,
            on_messages or self._stream.offer,
            self._rule(max_reconsume),
            lambda reader: self._assignment.holds(reader.queue),
            self._stats,
            batch=self._batch,
            suspension=suspension,
        )
        self._assignment = Assignment(
            session,
            offsets,
            self._beginning,
            self._work,
            self._reader,
            self._stream.withdraw,
            self.rebalance,
            self._locks,
        )
        self._questions = Questions(self, session.clock)
        self._balancing = DeferredLock()
        self._running = self._stopped = False
        self._started = session.clock.seconds()
        self._stopping: Deferred[None] = succeed(None)
        self._loops: list[LoopingCall] = []

    def _made(self, subscriptions: Mapping[str, str | Sql]) -> dict[str, Subscription]:
        version = int(self._session.clock.seconds() * 1000)
        made = {topic: subscription(topic, wish, version) for topic, wish in subscriptions.items()}
        if not self._broadcasting:
            retry = RETRY_PREFIX + self.group
            made[retry] = subscription(retry, "*", version)
        return made

    def _rule(self, max_reconsume: int | None) -> Rule:
        if self.orderly:
            return InOrder(None if self._broadcasting else self._give_back, max_reconsume)
        return PassOver() if self._broadcasting else Retries(self._give_back)

    def _reader(self, queue: MessageQueue, wish: Subscription, start: int) -> QueueReader:
        messages, size = self._prefetch
        return QueueReader(
            self._session,
            self.group,
            queue,
            wish,
            start,
            self._work.arrived,
            commits=lambda: not self._broadcasting and self._assignment.holds(queue),
            stats=self._stats,
            prefetch_messages=messages,
            prefetch_bytes=size,
        )

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
        return Deferred.fromCoroutine(self._assignment.commit())

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Messages, until the consumer stops; each is settled when the next is asked for."""
        return Messages(self._stream)

    def next_message(self) -> Deferred[ReceivedMessage | None]:
        """The next one, which the program settles or rejects by itself; None when the consumer has stopped."""
        return self._stream.next()

    def settle(self, message: ReceivedMessage) -> None:
        """`message`, got by `async for`, is done with; needed only before leaving the loop."""
        self._stream.settle(message)

    def reject(self, message: ReceivedMessage) -> None:
        """`message`, got by `async for`, is to be tried again later."""
        self._stream.reject(message)

    @property
    def uncommitted(self) -> int:
        """Queues whose progress isn't noted yet; after a stop, those that will be repeated in part."""
        return self._assignment.uncommitted

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues being read."""
        return list(self.readers)

    @property
    def progress(self) -> dict[MessageQueue, int]:
        """By queue the offset to go on from."""
        return {queue: reader.progress for queue, reader in self.readers.items()}

    # ---- coming and going

    async def _start(self) -> None:
        if self._running or self._stopped:
            raise Closed(f"consumer {self.group} was started before")
        self._running = True
        try:
            for topic in self._subscriptions:
                await self._session.routes.route(topic, fresh=True)
            for wish in self._subscriptions.values():
                await self._membership.check_expression(wish)
            if self._stopped:
                raise Closed(f"consumer {self.group} was stopped while it started")
            self._session.join(self, consumer=True)
        except BaseException:
            self._running = False
            raise
        await self._session.heartbeat()
        await self._balance()
        if not self._stopped:
            self._loop(REBALANCE_INTERVAL, self.rebalance)
            self._loop(COMMIT_INTERVAL, self._commit_soon)

    def _loop(self, interval: float, work: Callable[[], None]) -> None:
        loop = LoopingCall(work)
        loop.clock = self._session.clock
        loop.start(interval, now=False)
        self._loops.append(loop)

    def _commit_soon(self) -> None:
        if not self._assignment.committing:
            self._session.in_background(self._assignment.commit(), "commit of offsets")

    async def _stop(self) -> None:
        for loop in self._loops:
            loop.stop()
        self._work.stop()
        self._stream.end()
        try:
            await self._work.all_finished().addTimeout(STOP_PATIENCE, self._session.clock)
        except TimeoutError:
            self._log.warn("{group}: the program still works on messages at the stop", group=self.group)
        self._give_back.stopped = True
        if self._running:
            await self._assignment.close()
            await self._session.leave(self, consumer=True)

    # ---- sharing out queues

    def rebalance(self) -> None:
        """Look anew who of the group reads what."""
        # One round under way and one after it see everything there is to see.
        if not self._balancing.waiting and self._running and not self._stopped:
            self._session.in_background(self._balance(), "share-out of queues")

    async def _balance(self) -> None:
        await self._balancing.run(lambda: Deferred.fromCoroutine(self._share_out()))

    async def _share_out(self) -> None:
        for wish in list(self._subscriptions.values()):
            try:
                share = await self._membership.share(wish)
            except (CallFailed, ClientError) as error:
                self._log.info("queues of {topic} stay as they are: {error}", topic=wish.topic, error=error)
                continue
            if share is not None and not self._stopped:
                await self._assignment.adopt(wish, share)

    # ---- as its session and the brokers see it

    @property
    def topics(self) -> list[str]:
        """Topics it reads."""
        return list(self._subscriptions)

    @property
    def readers(self) -> dict[MessageQueue, QueueReader]:
        """Who reads what."""
        return self._assignment.readers

    def heartbeat(self) -> Mapping[str, object]:
        """Its entry in a heartbeat."""
        return {
            "consumeFromWhere": self._beginning.place.value,
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": self.group,
            "messageModel": "BROADCASTING" if self._broadcasting else "CLUSTERING",
            "subscriptionDataSet": [wish.entry() for wish in self._subscriptions.values()],
            "unitMode": False,
        }

    def asked(self, address: str, request: RemotingCommand) -> Answer:
        """A broker's question."""
        return self._questions.answer(address, request)

    def reset(self, table: Mapping[MessageQueue, int]) -> None:
        """An administrator moves the group: go on at these offsets."""
        self._session.in_background(self._reset(table), "reset of offsets")

    async def _reset(self, table: Mapping[MessageQueue, int]) -> None:
        await self._assignment.reset(table)
        await self._balance()

    def listen(self, message: ReceivedMessage) -> Deferred[None]:
        """One message to the program, beside those of the queues; fires when it's consumed."""
        return self._work.listen(message)

    def running_info(self) -> dict[str, object]:
        """Body of 307: what operators' tools show of a consumer."""
        locks = self._locks
        infos = {
            queue: queue_info(
                reader,
                locks is not None and locks.held(queue),
                None if locks is None else locks.locked_at(queue),
            )
            for queue, reader in self.readers.items()
        }
        return {
            "mqTable": info_table(infos),
            "properties": self._properties(),
            "statusTable": {topic: self._stats.status(topic) for topic in self._subscriptions},
            "subscriptionSet": [wish.entry() for wish in self._subscriptions.values()],
        }

    def _properties(self) -> dict[str, str]:
        return {
            "PROP_CLIENT_VERSION": "V4_9_7",
            "PROP_CONSUMEORDERLY": str(self.orderly).lower(),
            "PROP_CONSUMER_START_TIMESTAMP": str(round(self._started * 1000)),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_NAMESERVER_ADDR": ";".join(self._session.routes.servers),
            "PROP_THREADPOOL_CORE_SIZE": "1",
            "consumeFromWhere": self._beginning.place.value,
            "consumeMessageBatchMaxSize": str(self._batch),
            "consumerGroup": self.group,
            "messageModel": "BROADCASTING" if self._broadcasting else "CLUSTERING",
        }
