"""One queue being read: a pull after the other, into a buffer that a bounded number of messages and bytes fit.

A pull waits at the broker until something comes (long polling). What an answer means for the place reached and for
the broker to ask next is `pullprogress.py`; what is read and not yet consumed is `processqueue.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from hatwisted.clientcore.driver import in_background
from hatwisted.clientcore.errors import CallFailed, ClientError, TooManyCalls
from hatwisted.clientcore.message import ReceivedMessage, decode_records, received_anyway
from hatwisted.clientcore.offsets import broker_address
from hatwisted.clientcore.options import ConsumerOptions
from hatwisted.clientcore.processqueue import ProcessQueue
from hatwisted.clientcore.pullprogress import NextStep, PullProgress, PullTerms, pull_fields
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.subscription import Subscription
from hatwisted.clientcore.tasks import Task, Waiter, sleep
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.consumerdata import TAG
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import PullHeader

PULL_MESSAGES: Final = 32
"""Of one pull; brokers give no more at once."""
HOLD: Final = 15.0
"""Seconds that a broker keeps a pull that finds nothing (4.9.7: 15 s)."""
PULL_TIMEOUT: Final = 30.0
"""Seconds for the answer; brokers look at held pulls every 5 s only (4.9.7: 30 s)."""
PAUSE: Final = 3.0
"""Seconds before the next pull after an error (4.9.7: 3 s)."""
ELSEWHERE_PAUSE: Final = 0.1
"""Seconds before the next pull when another broker of the group can be asked."""


class PullStats(Protocol):
    """Who counts what was read."""

    def pulled(self, topic: str, messages: int, seconds: float) -> None:
        """An answer to a pull brought messages.

        - topic: of the queue
        - messages: in it
        - seconds: after the request
        """


class ReaderOwner(Protocol):
    """The consumer, as a queue's reader sees it."""

    @property
    def group(self) -> str:
        """Its name."""

    @property
    def stats(self) -> PullStats:
        """Its counts."""

    def arrived(self, reader: QueueReader) -> None:
        """There is something to take."""

    def carries_progress(self, queue: MessageQueue) -> bool:
        """May pulls note the progress at their broker?"""


class QueueReader(ProcessQueue):
    """Reads one queue.

    - session: asks the brokers
    - owner: takes what is read
    - queue: which
    - subscription: its topic's
    - start: offset of the first message
    - options: how much is held, how long a pull waits
    """

    def __init__(
        self,
        session: Session,
        owner: ReaderOwner,
        queue: MessageQueue,
        subscription: Subscription,
        start: int,
        options: ConsumerOptions,
    ) -> None:
        super().__init__(queue, start, options.prefetch_messages, options.prefetch_bytes)
        self._committed: int | None = None
        self.times_back = 0
        """How often a broker has sent it back."""
        self.last_pull = self.last_consumed = session.driver.seconds()
        self._session = session
        self._driver = session.driver
        self._owner = owner
        self._subscription = subscription
        self._pulls = PullProgress(queue, session.log)
        self._room: Waiter[None] | None = None
        self._running: Task[None] | None = None

    # ---- its consumer's side

    def start(self) -> None:
        """Start pulling."""
        # In place before it runs: what the first answer brings may stop it.
        self._running = in_background(self._driver, self._run(), f"reading {self.queue}")
        if self.dropped:
            self._running.cancel()

    def stop(self) -> None:
        """Stop pulling; what wasn't taken is forgotten, and `dropped` says so. `progress` stays right."""
        self.drop()
        if self._running is not None:
            self._running.cancel()

    def settle(self, rest: Sequence[ReceivedMessage] = ()) -> None:
        """As ProcessQueue, and there may be room for more."""
        self.last_consumed = self._driver.seconds()
        super().settle(rest)
        if self._room is not None and self.has_room:
            waiter, self._room = self._room, None
            waiter.fire(None)

    @property
    def committed(self) -> int | None:
        """The progress that was noted last; None: none yet."""
        return self._committed

    def noted(self, progress: int) -> None:
        """The progress has been noted where the group's is kept."""
        self._committed = progress

    # ---- the broker's side

    async def _run(self) -> None:
        while not self.dropped:
            if not self.has_room:
                self._room = Waiter()
                await self._room
            pause = await self._round()
            if pause:
                await sleep(self._driver, pause)

    async def _round(self) -> float:
        """One pull; seconds to wait before the next."""
        try:
            address = broker_address(self._session, self.queue, self._pulls.suggested)
        except ClientError:
            await self._session.routes.refresh([self.queue.topic])
            return PAUSE
        began = self.last_pull = self._driver.seconds()
        try:
            answer = await self._session.call(
                address, RequestCode.PULL_MESSAGE, self._fields(), timeout=PULL_TIMEOUT
            )
            return await self._take_in(address, answer, began)
        except TooManyCalls as error:
            self._session.log.warn("{queue}: {error}", queue=self.queue, error=error)
            return PAUSE
        except CallFailed as error:
            self._session.log.info("{queue}: {error}", queue=self.queue, error=error)
            self._session.routes.unreachable(address)
            await self._session.routes.refresh([self.queue.topic])
        except ClientError as error:
            self._session.log.warn("{queue}: {error}", queue=self.queue, error=error)
        return self._turn_away(address)

    def _turn_away(self, address: str) -> float:
        """This broker couldn't serve us: the master is next, if that's another. Seconds to wait before."""
        self._pulls.turn_away(self._driver.seconds())
        following = self._session.routes.address(self.queue.topic, self.queue.broker_name)
        return PAUSE if following in (None, address) else ELSEWHERE_PAUSE

    def _fields(self) -> dict[str, object]:
        flags, subscription = PullHeader.SUSPEND, self._subscription
        commits = self.progress > 0 and self._owner.carries_progress(self.queue)
        if commits:
            flags |= PullHeader.COMMIT_OFFSET
        by_tag = subscription.kind == TAG
        if by_tag:
            # An expression is compiled once, from the heartbeat; tags are cheap enough to come with each pull,
            # which then doesn't depend on the heartbeat.
            flags |= PullHeader.SUBSCRIPTION
        return pull_fields(
            self._owner.group,
            self.queue,
            self.next,
            PULL_MESSAGES,
            PullTerms(
                flags=flags,
                commit=self.progress if commits else 0,
                hold_ms=int(HOLD * 1000),
                expression=subscription.expression if by_tag else None,
                expression_type=subscription.kind,
                version=subscription.version,
            ),
        )

    async def _take_in(self, address: str, answer: RemotingCommand, began: float) -> float:
        """What the answer brings; seconds to wait before the next pull."""
        by_master = address == self._session.routes.master(self.queue.topic, self.queue.broker_name)
        step, following = self._pulls.answered(
            answer, address, self.next, by_master=by_master, now=self._driver.seconds()
        )
        if step is NextStep.LOST_MEMBERSHIP:
            await self._session.heartbeat()
        if step in (NextStep.LOST_MEMBERSHIP, NextStep.TURN_AWAY):
            return self._turn_away(address)
        if answer.code == ResponseCode.SUCCESS:
            self._read(answer, began)
        if following < self.next:
            # It was noted elsewhere, or is lost where it was: told anew once it has been reached again.
            self._committed = None
            self.times_back += 1
            self.go_back(following)
        self.next = following
        if self.waiting:
            self._owner.arrived(self)
        return PAUSE if step is NextStep.STUCK else 0.0

    def _read(self, answer: RemotingCommand, began: float) -> None:
        records, messages = decode_records(answer.body), []
        for record in records:
            message = received_anyway(record, self.queue.broker_name)
            if self._subscription.wants(message.properties):
                messages.append(message)
        self.fill(messages)
        self._owner.stats.pulled(self.queue.topic, len(records), self._driver.seconds() - began)
