"""One queue being read: a pull after the other, into a buffer that a bounded number of messages and bytes fit.

A pull waits at the broker until something comes (long polling). Which broker of the group is asked next is
what the last answer suggests; when the master is gone, it's a slave. The queue's progress is the first message
that hasn't been settled, so what is in the buffer when a program dies is delivered again.

A master that doesn't have the wanted offset says where to go on, and that is done. A slave isn't believed: it may
lag behind, or have begun later than its master, and going where it says would repeat messages or skip them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.client.compression import UnreadableBody
from hatwisted.client.errors import ClientError, Refused
from hatwisted.client.message import ReceivedMessage, decode_records, received
from hatwisted.client.offsets import broker_address
from hatwisted.client.session import Session
from hatwisted.client.subscription import TAG, Subscription
from hatwisted.remoting.client import CallFailed, TooManyCalls
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import MASTER_ID
from hatwisted.wire.remoting import RemotingCommand

PREFETCH_MESSAGES: Final = 1000
PREFETCH_BYTES: Final = 16 * 1024 * 1024
"""Of one queue, read and not yet settled; above it no pull is made (4.9.7: 1000 and 100 MiB)."""
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
LOYALTY: Final = 30.0
"""Seconds that no suggestion leads away from the master, after another broker couldn't serve a pull."""
_COMMIT, _SUSPEND, _SUBSCRIPTION = 1, 2, 4
_PASSES: Final = frozenset((ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY))
"""Answers that go on behind messages: those they bring, and those that a filter passes over."""
_PULLED: Final = _PASSES | {ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED}
"""Answers that say where to go on."""
_LOST_MEMBERSHIP: Final = frozenset(
    (
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.FILTER_DATA_NOT_EXIST,
    )
)


class PullStats(Protocol):
    """Who counts what was read."""

    def pulled(self, topic: str, messages: int, seconds: float) -> None:
        """An answer to a pull brought `messages`."""


class QueueReader:
    """start: offset of the first message to read; arrived: called when there is something to take; commits: may
    pulls carry the progress along?"""

    _log = Logger(namespace="hatwisted.client")

    def __init__(
        self,
        session: Session,
        group: str,
        queue: MessageQueue,
        subscription: Subscription,
        start: int,
        arrived: Callable[[QueueReader], None],
        *,
        commits: Callable[[], bool],
        stats: PullStats,
        prefetch_messages: int = PREFETCH_MESSAGES,
        prefetch_bytes: int = PREFETCH_BYTES,
    ) -> None:
        self.queue = queue
        self.dropped = False
        self.committed: int | None = None
        self.last_pull = self.last_consumed = session.clock.seconds()
        self._session = session
        self._group = group
        self._subscription = subscription
        self._next = start
        self._arrived = arrived
        self._commits = commits
        self._stats = stats
        self._max_messages = prefetch_messages
        self._max_bytes = prefetch_bytes
        self._buffer: deque[ReceivedMessage] = deque()
        self._taken: list[ReceivedMessage] = []
        self._bytes = 0
        self._room: Deferred[None] | None = None
        self._suggested = MASTER_ID
        self._loyal_until = 0.0
        self._mistrusted: tuple[str, int] | None = None
        self._running: Deferred[None] | None = None

    # ---- its consumer's side

    def start(self) -> None:
        """Begin to pull."""
        self._running = Deferred.fromCoroutine(self._run())
        self._running.addErrback(self._ended)

    def stop(self) -> None:
        """Pull no more; what wasn't taken is forgotten, and `dropped` says so. `progress` stays right."""
        self.dropped = True
        if self._buffer:
            self._next = self._buffer[0].queue_offset
            self._bytes -= sum(message.size for message in self._buffer)
            self._buffer.clear()
        if self._running is not None:
            self._running.cancel()

    @property
    def progress(self) -> int:
        """The offset to go on from after a restart."""
        if self._taken:
            return self._taken[0].queue_offset
        return self._buffer[0].queue_offset if self._buffer else self._next

    @property
    def buffered(self) -> int:
        """Messages read and not yet settled."""
        return len(self._buffer) + len(self._taken)

    @property
    def buffered_bytes(self) -> int:
        """Their size."""
        return self._bytes

    @property
    def last_buffered(self) -> int:
        """Offset of the last of them; `progress` is the first."""
        held = self._buffer or self._taken
        return held[-1].queue_offset if held else self.progress

    def take(self, count: int) -> list[ReceivedMessage]:
        """Up to `count` messages in order, none if nothing is there; what was taken and not settled, again."""
        if not self._taken:
            self._taken = [self._buffer.popleft() for _ in range(min(count, len(self._buffer)))]
        return self._taken

    def settle(self, rest: Sequence[ReceivedMessage] = ()) -> None:
        """What was taken is done with, but for `rest`, the end of it, which comes again."""
        self.last_consumed = self._session.clock.seconds()
        self._bytes -= sum(message.size for message in self._taken)
        self._taken = []
        if self.dropped:
            self._next = rest[0].queue_offset if rest else self._next
        else:
            self._bytes += sum(message.size for message in rest)
            self._buffer.extendleft(reversed(rest))
        if self._room is not None and self._has_room():
            waiter, self._room = self._room, None
            waiter.callback(None)

    def _has_room(self) -> bool:
        return self.buffered < self._max_messages and self._bytes < self._max_bytes

    # ---- the broker's side

    async def _run(self) -> None:
        while not self.dropped:
            if not self._has_room():
                self._room = Deferred()
                await self._room
            pause = await self._round()
            if pause:
                await deferLater(self._session.clock, pause)

    async def _round(self) -> float:
        """One pull; seconds to wait before the next."""
        try:
            address = broker_address(self._session, self.queue, self._suggested)
        except ClientError:
            await self._session.routes.refresh([self.queue.topic])
            return PAUSE
        began = self.last_pull = self._session.clock.seconds()
        try:
            answer = await self._session.call(
                address, RequestCode.PULL_MESSAGE, self._fields(), timeout=PULL_TIMEOUT
            )
            return await self._take_in(address, answer, began)
        except TooManyCalls as error:
            self._log.warn("{queue}: {error}", queue=self.queue, error=error)
            return PAUSE
        except CallFailed as error:
            self._log.info("{queue}: {error}", queue=self.queue, error=error)
            self._session.routes.unreachable(address)
            await self._session.routes.refresh([self.queue.topic])
        except (ClientError, ValueError, KeyError) as error:
            self._log.warn("{queue}: {error}", queue=self.queue, error=error)
        return self._turn_away(address)

    def _turn_away(self, address: str) -> float:
        """This broker couldn't serve us: the master is next, if that's another. Seconds to wait before."""
        self._suggested = MASTER_ID
        self._loyal_until = self._session.clock.seconds() + LOYALTY
        following = self._session.routes.address(self.queue.topic, self.queue.broker_name)
        return PAUSE if following in (None, address) else ELSEWHERE_PAUSE

    def _fields(self) -> dict[str, object]:
        flags = _SUSPEND
        if self.progress > 0 and self._commits():
            flags |= _COMMIT
        by_tag = self._subscription.kind == TAG
        return {
            "consumerGroup": self._group,
            "topic": self.queue.topic,
            "queueId": self.queue.queue_id,
            "queueOffset": self._next,
            "maxMsgNums": PULL_MESSAGES,
            # An expression is compiled once, from the heartbeat; tags are cheap enough to come with each pull,
            # which then doesn't depend on the heartbeat.
            "sysFlag": flags | (_SUBSCRIPTION if by_tag else 0),
            "commitOffset": self.progress if flags & _COMMIT else 0,
            "suspendTimeoutMillis": int(HOLD * 1000),
            "subscription": self._subscription.expression if by_tag else None,
            "subVersion": self._subscription.version,
            "expressionType": self._subscription.kind,
            "bname": self.queue.broker_name,
        }

    async def _take_in(self, address: str, answer: RemotingCommand, began: float) -> float:
        if answer.code in _LOST_MEMBERSHIP:
            await self._session.heartbeat()
            return self._turn_away(address)
        if answer.code not in _PULLED:
            raise Refused.of(address, answer)
        following = int(answer.ext["nextBeginOffset"])
        loyal = self._session.clock.seconds() < self._loyal_until
        self._suggested = MASTER_ID if loyal else int(answer.ext.get("suggestWhichBrokerId", MASTER_ID))
        # A broker that says "again, same place" means it, but not a thousand times a second.
        stuck = answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and following == self._next
        passes = following == self._next or (answer.code in _PASSES and following > self._next)
        if (stuck or not passes) and not self._believed(address, answer, following):
            return self._turn_away(address)
        if answer.code == ResponseCode.SUCCESS:
            self._fill(answer, began)
        self._next = following
        if self._buffer:
            self._arrived(self)
        return PAUSE if stuck else 0.0

    def _believed(self, address: str, answer: RemotingCommand, following: int) -> bool:
        """May this broker move us? Says what happens, a slave's word once."""
        master = address == self._session.routes.master(self.queue.topic, self.queue.broker_name)
        if following != self._next if master else self._mistrusted != (address, following):
            self._log.warn(
                "{queue}: offset {old} is {remark} at {address}, which offers {new}: {what}",
                queue=self.queue,
                old=self._next,
                remark=answer.remark,
                address=address,
                new=following,
                what="going on there"
                if master
                else "not believed, as it's no master (a reset goes on without one)",
            )
        self._mistrusted = None if master else (address, following)
        return master

    def _fill(self, answer: RemotingCommand, began: float) -> None:
        records = decode_records(answer.body)
        for record in records:
            try:
                message = received(record, self.queue.broker_name)
            except UnreadableBody as error:
                self._log.error(
                    "{queue} offset {at}: {error}", queue=self.queue, at=record.queue_offset, error=error
                )
                continue
            if self._subscription.wants(message.properties):
                self._buffer.append(message)
                self._bytes += message.size
        self._stats.pulled(self.queue.topic, len(records), self._session.clock.seconds() - began)

    def _ended(self, failure: Failure) -> None:
        if not self.dropped or not failure.check(CancelledError):
            self._log.failure("reading {queue} ended", failure=failure, queue=self.queue)
