"""Reading as a member of a group: queues are shared out, progress is kept, failures are retried.

Each queue is consumed in order, one batch at a time, and different queues concurrently; so a queue's progress is
one number, and a slow message delays its own queue only. Rejected: RocketMQ's pool that consumes one queue's
messages in any order; its progress is the oldest unfinished message, and a crash repeats all after it.

Two things can still put a later message before an earlier one: a failure, which goes on with the next and comes
back, and a change of members, when old and new owner of a queue overlap. `orderly=True` excludes both, by
suspending the queue and by locks at the brokers, at the price of a queue that waits.

Every delivery may be repeated ("at least once"): after a failed batch, a lost answer, or a change of members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from hatwisted.clientcore.assignment import Assignment
from hatwisted.clientcore.consumefrom import PullFrom
from hatwisted.clientcore.consumerrequests import ConsumerRequests
from hatwisted.clientcore.consumerstats import ConsumerStats
from hatwisted.clientcore.consumeservice import ConsumeService, InOrder, LogAndSkip, Retries, Rule
from hatwisted.clientcore.delivery import AckIndex, Listener
from hatwisted.clientcore.driver import Answer, Repeating
from hatwisted.clientcore.errors import BadSetting, ClientError, Closed, Refused
from hatwisted.clientcore.membership import Membership
from hatwisted.clientcore.message import ReceivedMessage, checked_group
from hatwisted.clientcore.messagestream import Messages, MessageStream
from hatwisted.clientcore.offsets import BrokerOffsets, LocalOffsets, OffsetStore
from hatwisted.clientcore.options import ConsumerOptions
from hatwisted.clientcore.producer import Producer
from hatwisted.clientcore.queuelocks import QueueLocks
from hatwisted.clientcore.queuereader import QueueReader
from hatwisted.clientcore.runninginfo import info_table, queue_info
from hatwisted.clientcore.sendback import MAX_RECONSUME, SendBack
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.subscription import Sql, Subscription, parse_subscription
from hatwisted.clientcore.tasks import Lock, Task, Waiter, ends_within
from hatwisted.wire.consumerdata import ALL_TAGS, BROADCASTING, CLUSTERING, CONSUME_PASSIVELY
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import RETRY_PREFIX

REBALANCE_INTERVAL: Final = 20.0
COMMIT_INTERVAL: Final = 5.0
"""Seconds, as RocketMQ's clients."""
STOP_PATIENCE: Final = 5.0
"""Seconds that a stop waits for the program to finish what it was given."""


class Consumer:
    """A member of a group; reads nothing before it is started.

    - session: its identity among the brokers
    - group: its name; BadSetting if it can't be one
    - subscriptions: topic -> "*", "tag || tag" or Sql(...)
    - inner_producer: gives the producer for copies of failed messages
    - listener: the program's callback, None for `next_message`
    - options: how it consumes
    """

    def __init__(
        self,
        session: Session,
        group: str,
        subscriptions: Mapping[str, str | Sql],
        inner_producer: Callable[[], Producer],
        listener: Listener | None,
        options: ConsumerOptions,
    ) -> None:
        self.group = checked_group(group)
        if not subscriptions:
            raise BadSetting(f"group {group} has no subscription")
        self.orderly = options.orderly
        self._session = session
        # One after the other, a message is settled by itself.
        self._options = options if listener is not None else replace(options, batch=1)
        self._broadcasting = options.broadcasting
        self._subscriptions = self._made(subscriptions)
        self._paused: set[MessageQueue] = set()
        self._stream = MessageStream()
        self.stats = ConsumerStats(session.driver)
        self._membership = Membership(session, group, self._broadcasting, options.assigned)
        offsets: OffsetStore = (
            LocalOffsets(session.driver, options.local_offsets, options.assigned)
            if self._broadcasting
            else BrokerOffsets(session, group)
        )
        pull_from = PullFrom(session, offsets, options.consume_from, options.timestamp)
        self._locks = QueueLocks(session, group) if self.orderly and not self._broadcasting else None
        most = options.max_reconsume
        self._send_back = SendBack(session, group, inner_producer, MAX_RECONSUME if most is None else most)
        self._work = ConsumeService(
            session.driver,
            listener or self._stream.offer,
            self._rule(),
            lambda reader: reader.queue not in self._paused and self._assignment.holds(reader.queue),
            self.stats,
            self._options,
        )
        self._assignment = Assignment(
            session, self, self._work, pull_from, self._locks, auto_commit=options.auto_commit
        )
        self._requests = ConsumerRequests(self, session.driver)
        self._balancing = Lock()
        self._running = self._stopped = False
        self._started = session.driver.seconds()
        self._stopping: Task[None] | None = None
        self._loops: list[Repeating] = []

    def _made(self, subscriptions: Mapping[str, str | Sql]) -> dict[str, Subscription]:
        version = int(self._session.driver.seconds() * 1000)
        made = {
            topic: parse_subscription(topic, expression, version)
            for topic, expression in subscriptions.items()
        }
        if not self._broadcasting:
            retry = RETRY_PREFIX + self.group
            made[retry] = parse_subscription(retry, ALL_TAGS, version)
        return made

    def _rule(self) -> Rule:
        if self.orderly:
            send_back = None if self._broadcasting else self._send_back
            return InOrder(send_back, self._options.max_reconsume, self._session.log)
        if self._broadcasting:
            return LogAndSkip(self._session.log)
        return Retries(self._send_back, whole_batch=self._options.whole_batch)

    # ---- what a program calls

    async def start(self) -> None:
        """Join the group and begin to read; returns after the first share-out of queues.

        Raises NoNameServer, or Refused for an SQL92 expression that the broker doesn't take.
        """
        if self._running or self._stopped:
            raise Closed(f"consumer {self.group} was already started")
        self._running = True
        try:
            for topic in self._subscriptions:
                await self._session.routes.route(topic, fresh=True)
            for subscription in self._subscriptions.values():
                await self._membership.check_expression(subscription)
            if self._stopped:
                raise Closed(f"consumer {self.group} was stopped while starting")
            self._session.join(self, consumer=True)
        except BaseException:
            self._running = False
            raise
        try:
            await self._session.heartbeat()
            await self._balance()
        except BaseException:
            # As a member that reads nothing it would keep its share of the queues from the others.
            self._session.in_background(self.stop(), "leaving the group")
            raise
        if not self._stopped:
            self._loop(REBALANCE_INTERVAL, self.rebalance, "rebalancing")
            if self._options.auto_commit:
                self._loop(COMMIT_INTERVAL, self._commit_soon, "committing offsets")

    async def stop(self) -> None:
        """Stop reading, wait up to STOP_PATIENCE for what the program is working on, commit, leave the group."""
        if self._stopping is None:
            self._stopped = True
            # In place before it begins: a loop that ends by it may ask to stop again at once.
            begun: Waiter[None] = Waiter()
            self._stopping = Task(self._stop(begun))
            begun.fire(None)
        await self._stopping

    async def commit(self) -> None:
        """Commit this consumer's progress to the brokers (or the file) now; `auto_commit` does it every 5 s."""
        await self._assignment.commit()

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at `offset` of a queue being read, and commit that as the group's progress. BadSetting for a queue
        that isn't."""
        if queue not in self.readers:
            raise BadSetting(f"{queue} isn't read by this consumer now")
        await self._reset({queue: offset})

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Deliver nothing more of these queues until `resume`; what was delivered stays with the program."""
        for queue in queues:
            self._paused.add(queue)
            self._stream.withdraw(queue)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """End a pause."""
        readers = self.readers
        for queue in queues:
            self._paused.discard(queue)
            if queue in readers:
                self._work.arrived(readers[queue])

    def messages(self) -> Messages:
        """One loop over the messages until the consumer stops; each is settled when the next is asked for."""
        return Messages(self._stream)

    async def next_message(self) -> ReceivedMessage | None:
        """The next message, which the program itself settles or rejects; None when the consumer has stopped."""
        return await self._stream.next()

    def settle(self, message: ReceivedMessage) -> None:
        """Settle `message`, which `next_message` or a loop gave; in a loop needed only before leaving it."""
        self._stream.settle(message)

    def reject(self, message: ReceivedMessage) -> None:
        """Reject `message`, which `next_message` or a loop gave: it is delivered again later."""
        self._stream.reject(message)

    @property
    def refusal(self) -> Refused | None:
        """Why nothing comes: no broker lets the group in, for good. None if one does, or none has answered yet."""
        return self._session.refusal

    @property
    def uncommitted(self) -> int:
        """Queues whose progress isn't committed yet; after a stop, some of their messages are delivered again."""
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

    def _loop(self, interval: float, work: Callable[[], None], what: str) -> None:
        loop = Repeating(self._session.driver, interval, work, what)
        loop.start()
        self._loops.append(loop)

    def _commit_soon(self) -> None:
        if not self._assignment.committing:
            self._session.in_background(self._assignment.commit(), "committing offsets")

    async def _stop(self, begun: Waiter[None]) -> None:
        await begun
        for loop in self._loops:
            loop.stop()
        self._work.stop()
        self._stream.end()
        finished = Task(self._work.all_finished())
        if not await ends_within(self._session.driver, finished, STOP_PATIENCE):
            self._session.log.warn(
                "{group}: stopped while the program was still handling messages", group=self.group
            )
        self._send_back.stop()
        if self._running:
            await self._assignment.close()
            await self._session.leave(self, consumer=True)

    # ---- sharing out queues

    def rebalance(self) -> None:
        """Rebalance: share the queues out again."""
        # One round under way and one after it see everything there is to see.
        if not self._balancing.waiting and self._running and not self._stopped:
            self._session.in_background(self._balance(), "rebalancing")

    async def _balance(self) -> None:
        async with self._balancing:
            await self._share_out()

    async def _share_out(self) -> None:
        for subscription in list(self._subscriptions.values()):
            try:
                share = await self._membership.share(subscription)
            except ClientError as error:
                self._session.log.info(
                    "keeping the queues of {topic} as they are: {error}",
                    topic=subscription.topic,
                    error=error,
                )
                continue
            if share is not None and not self._stopped:
                await self._assignment.adopt(subscription, share)

    # ---- as its queues see it

    def reader(self, queue: MessageQueue, subscription: Subscription, start: int) -> QueueReader:
        """As Owner."""
        return QueueReader(self._session, self, queue, subscription, start, self._options)

    def arrived(self, reader: QueueReader) -> None:
        """There is something to take."""
        self._work.arrived(reader)

    def dropped(self, queue: MessageQueue) -> None:
        """What the program hasn't taken of it belongs to another member now."""
        self._stream.withdraw(queue)

    def carries_progress(self, queue: MessageQueue) -> bool:
        """May pulls note the progress of `queue` at their broker?"""
        return self._options.auto_commit and not self._broadcasting and self._assignment.holds(queue)

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
            "consumeFromWhere": self._options.consume_from.value,
            "consumeType": CONSUME_PASSIVELY,
            "groupName": self.group,
            "messageModel": BROADCASTING if self._broadcasting else CLUSTERING,
            "subscriptionDataSet": [each.entry() for each in self._subscriptions.values()],
            "unitMode": False,
        }

    def on_request(self, address: str, request: RemotingCommand) -> Answer:
        """A broker's request."""
        return self._requests.answer(address, request)

    def reset(self, table: Mapping[MessageQueue, int]) -> None:
        """An administrator moves the group: go on at these offsets."""
        self._session.in_background(self._reset(table), "resetting offsets")

    async def _reset(self, table: Mapping[MessageQueue, int]) -> None:
        # A share-out beside it would begin to read where the group was before: the place is told in its turn.
        async with self._balancing:
            await self._assignment.reset(table)
            await self._share_out()

    async def listen(self, message: ReceivedMessage) -> AckIndex | None:
        """One message to the program, besides those of the queues; returns when it's consumed."""
        return await self._work.consume([message])

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
            "statusTable": {topic: self.stats.status(topic) for topic in self._subscriptions},
            "subscriptionSet": [each.entry() for each in self._subscriptions.values()],
        }

    def _properties(self) -> dict[str, str]:
        return {
            "PROP_CLIENT_VERSION": "V4_9_7",
            "PROP_CONSUMEORDERLY": str(self.orderly).lower(),
            "PROP_CONSUMER_START_TIMESTAMP": str(round(self._started * 1000)),
            "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
            "PROP_NAMESERVER_ADDR": ";".join(self._session.routes.servers),
            "PROP_THREADPOOL_CORE_SIZE": "1",
            "consumeFromWhere": self._options.consume_from.value,
            "consumeMessageBatchMaxSize": str(self._options.batch),
            "consumerGroup": self.group,
            "messageModel": BROADCASTING if self._broadcasting else CLUSTERING,
        }
