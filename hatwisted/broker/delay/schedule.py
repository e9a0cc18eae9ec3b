"""Delayed messages: those of SCHEDULE_TOPIC_XXXX are put into their real queues when they are due.

Strategy: each delay level has a queue (level - 1), and as all of a level wait equally long, only the head of
a queue has to be looked at. The queue's entries carry the deliver time where others carry a tag's hash. A
level sleeps until its head is due, or until its queue grows; what is due is read, put and settled batch by
batch, one batch of a level at a time. The level's offset moves on only after messages that are stored, so a
crash repeats messages and loses none. A message that can't be put now is tried again with a growing pause;
those of its batch that went in are remembered and not put twice.

Deliveries wait for the disk, where puts do, and for no slave (`MasterRole` gives this service PutAcks of its own):
the producer got its answer when it sent the message, and a silent slave would hold up every batch of
every level for slaveTimeout. RocketMQ's deliveries wait for neither, so that its offset file may be ahead of
its log after a power cut; ours is written after the log, under ASYNC_FLUSH too.

A deliver time further away than the level's delay was written by a clock that was ahead, or for a level that
was longer then. RocketMQ delivers such messages at once, those with an hour's delay too when the clock has
been set back by a second. Here they wait if that makes them late by less than going at once would make them
early: up to twice the delay. A level that is no longer in `messageDelayLevel` has no delay to compare with;
there each head is compared with its own, the time between its store and its delivery. The messages of such a
level are delivered in the order of the queue, when their entries say; a head that has long to wait keeps
those after it waiting, as it did while the level was configured.

Rejected: looking at every level ten times a second as RocketMQ does (18 levels that have nothing to do), and
its way with queues beyond a shortened `messageDelayLevel`, whose messages it leaves to expire.

Only masters do this: a slave copies both topics and delivers nothing (B97).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.broker.delay.delayoffsets import DelayOffsets
from hatwisted.broker.put.innerput import InnerMessage, InnerPuts
from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import GrownQueue
from hatwisted.store.log.put import HOPELESS, STORED, Put
from hatwisted.store.messagestore import MessageStore
from hatwisted.timing.timer import GuardedTimer
from hatwisted.wire.layout import (
    HALF_TOPIC,
    PRE_BLANK_SIZE,
    QUEUE_ENTRY,
    SCHEDULE_TOPIC,
)
from hatwisted.wire.properties import NoDestination, destination
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import CorruptRecord, Record

FIRST_DELAY = 1.0
"""Seconds from the start to the first delivery."""

MAX_BATCH = 64
"""Messages read and put in one slice, a few ms of work; other levels and clients have their turn in
between."""

MAX_BATCH_BYTES = 1 << 20
"""Bytes of records read in one slice, unless a single one is bigger."""

FIRST_PAUSE = 0.1
"""Seconds until what wasn't taken is put again; doubled with each failure."""

MAX_PAUSE = 10.0
"""Seconds that this pause grows to (RocketMQ's DELAY_FOR_A_PERIOD)."""


class Undeliverable(Exception):
    """What a schedule queue names isn't a message with a real topic and queue."""


class ScheduleService:
    """Delivers on a master between `start` and `stop`.

    - clock: tells what is due
    - store: loaded
    - puts: store what is due
    - offsets: how far delivery has come, read already
    """

    def __init__(
        self, clock: IReactorTime, store: MessageStore, puts: InnerPuts, offsets: DelayOffsets
    ) -> None:
        self._clock = clock
        self._store = store
        self._puts = puts
        self._offsets = offsets
        self._levels: dict[int, LevelDelivery] = {}
        self._running = False

    def start(self) -> None:
        """Deliver what is due by now after FIRST_DELAY, the rest in its time."""
        self._running = True
        numbers = {number for number, _ in enumerate(self._store.delay_levels, 1)}
        numbers |= {queue.queue_id + 1 for queue in self._store.queues if queue.topic == SCHEDULE_TOPIC}
        for number in sorted(numbers):
            self._level(number).start(FIRST_DELAY)
        self._store.add_arrival_listener(self._arrived)

    def stop(self) -> Deferred[None]:
        """Deliver no more; fires when no put of ours is open any longer."""
        if self._running:
            self._running = False
            self._store.remove_arrival_listener(self._arrived)
        stopping = gatherResults([level.stop() for level in self._levels.values()])
        return stopping.addCallback(lambda _: None)

    def figures(self) -> Mapping[str, str]:
        """Entries of the runtime info: "next offset,end of the queue" of each level that has been used."""
        return {
            f"scheduleMessageOffset_{level}": f"{offset},{self._store.queue_end(SCHEDULE_TOPIC, level - 1)}"
            for level, offset in self._offsets.items()
        }

    def _level(self, number: int) -> LevelDelivery:
        level = self._levels.get(number)
        if level is None:
            level = self._levels[number] = LevelDelivery(
                self._clock, self._store, self._puts, self._offsets, number
            )
        return level

    def _arrived(self, grown: Sequence[GrownQueue]) -> None:
        for queue in grown:
            if queue.topic == SCHEDULE_TOPIC:
                self._level(queue.queue_id + 1).wake()


class LevelDelivery:
    """One level: looks at its queue's head, delivers, and waits for the next thing to happen.

    - clock: tells what is due
    - store: has the level's queue
    - puts: store what is due
    - offsets: how far delivery has come
    - level: its number, from 1 on
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        puts: InnerPuts,
        offsets: DelayOffsets,
        level: int,
    ) -> None:
        self._clock = clock
        self._store = store
        self._puts = puts
        self._offsets = offsets
        self._level = level
        delays = store.delay_levels
        self._delay = delays[level - 1] if level <= len(delays) else None
        """ms; None for a level that isn't configured any more."""
        self._timer = GuardedTimer(clock, f"delivery of delay level {level}", self._turn, FIRST_PAUSE)
        self._putting: Deferred[None] | None = None
        self._stopped = False
        self._stored: set[int] = set()
        """Queue offsets that have been dealt with before one that hasn't; fewer than MAX_BATCH."""
        self._pause = FIRST_PAUSE
        self._last_reason = ""

    # -- life ------------------------------------------------------------------------------------------------

    def start(self, after: float) -> None:
        """Start in this many seconds. An offset beyond the queue is corrected at once: what is stored from now
        on would be taken for delivered."""
        self._correct(*self._store.queue_offsets(SCHEDULE_TOPIC, self._level - 1))
        self._again(after)

    def wake(self) -> None:
        """The queue has grown."""
        if not self._timer.pending and self._putting is None:
            self._again(0)

    def stop(self) -> Deferred[None]:
        """No more turns; fires when the batch on its way is settled."""
        self._stopped = True
        self._timer.cancel()
        if self._putting is None:
            return succeed(None)
        settled: Deferred[None] = Deferred()
        self._putting.chainDeferred(settled)
        return settled

    def _again(self, seconds: float) -> None:
        if not self._stopped:
            self._timer.set(seconds)

    def _turn(self) -> None:
        try:
            batch, wait = self._due()
        except (OSError, StoreError, LookupError) as error:
            self._try_later(str(error))
            return
        except Exception:
            # Unforeseen; but a level that doesn't turn again would be dead until the next start.
            self._broken_turn(Failure())
            return
        if batch:
            self._deliver(batch)
        elif wait is not None:
            self._again(wait)

    # -- what is due -----------------------------------------------------------------------------------------

    def _due(self) -> tuple[dict[int, InnerMessage | None], float | None]:
        """What is due by queue offset, at most one slice, None for what is to be passed; and the seconds until
        more is due, None if nothing waits."""
        queue = self._store.queues.find(SCHEDULE_TOPIC, self._level - 1)
        if queue is None:
            return {}, None
        at = self._correct(queue.min_offset, queue.max_offset)
        places, wait = self._places(at, queue.read(at, min(MAX_BATCH, queue.max_offset - at)))
        return self._read(places), wait

    def _places(self, at: int, entries: bytes) -> tuple[dict[int, int], float | None]:
        """Log offset of each due record by queue offset, -1 where there is none to put; and when there's
        more."""
        now = int(self._clock.seconds() * 1000)
        places: dict[int, int] = {}
        size_of_all = 0
        for index, (position, size, due) in enumerate(QUEUE_ENTRY.iter_unpack(entries), at):
            wait = self._wait(index, due, now)
            if wait > 0 or size_of_all >= MAX_BATCH_BYTES:
                return places, wait
            if size == PRE_BLANK_SIZE or index in self._stored:
                places[index] = -1
            else:
                places[index] = position
                size_of_all += size
        return places, None

    def _read(self, places: Mapping[int, int]) -> dict[int, InnerMessage | None]:
        batch: dict[int, InnerMessage | None] = {}
        problems: list[str] = []
        for index, position in places.items():
            try:
                batch[index] = self._message(position) if position >= 0 else None
            except Undeliverable as problem:
                batch[index] = None
                problems.append(f"queue offset {index}: {problem}")
        self._log_skipped(problems)
        return batch

    def _correct(self, low: int, high: int) -> int:
        """The offset to go on at, within the queue."""
        at = self._offsets.get(self._level)
        inside = min(max(at, low), high)
        if inside != at:
            self._log.warn(
                "delay level {number} was delivered up to queue offset {at}, but its queue holds "
                "{low} to {high}; delivery continues at {inside}",
                number=self._level,
                at=at,
                low=low,
                high=high,
                inside=inside,
            )
            self._offsets.set(self._level, inside)
            self._stored.clear()
        return inside

    def _wait(self, index: int, due: int, now: int) -> float:
        """Seconds until the message at a queue offset may go, with its deliver time (ms)."""
        ahead = due - now
        if ahead <= 0:
            return 0.0
        delay = self._delay
        if delay is None:
            stored = self._store.message_time(SCHEDULE_TOPIC, self._level - 1, index)
            delay = due - stored if stored > 0 else 0
        return ahead / 1000 if ahead <= 2 * delay else 0.0

    def _message(self, position: int) -> InnerMessage:
        """The message of the record at a log offset, as it goes into its real queue."""
        data = self._store.look_message(position)
        if data is None:
            raise Undeliverable(f"no record begins at log offset {position}")
        try:
            record = decode_record(data, whole=True)
        except CorruptRecord as error:
            raise Undeliverable(f"the record at log offset {position} is damaged: {error}") from None
        if not isinstance(record, Record):
            raise Undeliverable(f"no record begins at log offset {position}")
        try:
            topic, queue_id = destination(record.properties)
        except NoDestination as error:
            raise Undeliverable(str(error)) from None
        if topic in (SCHEDULE_TOPIC, HALF_TOPIC):
            raise Undeliverable(f"the record's real topic is {topic!r}")
        return InnerMessage(
            topic=topic,
            queue_id=queue_id,
            body=record.body,
            properties=record.raw_properties,
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp=record.born_timestamp,
            born_host=record.born_host.pack(),
            reconsume_times=record.reconsume_times,
        )

    def _log_skipped(self, problems: Sequence[str]) -> None:
        if problems:
            self._log.error(
                "delay level {number}: {count} messages can't be delivered and are skipped; the "
                "first, at {first}",
                number=self._level,
                count=len(problems),
                first=problems[0],
            )

    # -- delivery --------------------------------------------------------------------------------------------

    def _deliver(self, batch: dict[int, InnerMessage | None]) -> None:
        to_put = {index: message for index, message in batch.items() if message is not None}
        self._stored.update(batch.keys() - to_put.keys())
        self._putting = Deferred()

        def put_all() -> Deferred[list[Put]]:
            return gatherResults(self._puts.many(list(to_put.values())))

        putting: Deferred[Any] = maybeDeferred(put_all)
        putting.addCallback(self._settled, list(to_put)).addErrback(self._broken).addCallback(self._ended)

    def _settled(self, puts: Sequence[Put], indexes: Sequence[int]) -> str:
        """Move on after what is stored; returns why something wasn't, or ""."""
        reason = ""
        for index, put in zip(indexes, puts, strict=True):
            if put.status in STORED:
                self._stored.add(index)
            elif put.status in HOPELESS:
                self._stored.add(index)
                self._log_skipped([f"queue offset {index}: {put.topic} doesn't take it: {put.reason}"])
            else:
                reason = reason or put.reason or str(put.status)
        self._move_on()
        return reason

    def _move_on(self) -> None:
        at = self._offsets.get(self._level)
        end = at
        while end in self._stored:
            self._stored.remove(end)
            end += 1
        if end > at:
            self._offsets.set(self._level, end)

    def _broken_turn(self, failure: Failure) -> None:
        self._try_later(self._broken(failure))

    def _broken(self, failure: Failure) -> str:
        """Logged with its traceback when it begins; returns the reason."""
        reason = f"{failure.type.__name__ if failure.type else 'error'}: {failure.getErrorMessage()}"
        if reason != self._last_reason:
            self._log.failure("delivery of delay level {number} failed", failure, number=self._level)
        return reason

    def _ended(self, reason: str) -> None:
        putting, self._putting = self._putting, None
        if reason:
            self._try_later(reason)
        else:
            self._pause, self._last_reason = FIRST_PAUSE, ""
            self._again(0)
        if putting is not None:
            putting.callback(None)

    def _try_later(self, reason: str) -> None:
        """Logged when it begins, and when the reason changes."""
        if reason != self._last_reason:
            self._last_reason = reason
            self._log.warn(
                "delay level {number} can't be delivered now; will try again: {reason}",
                number=self._level,
                reason=reason,
            )
        self._again(self._pause)
        self._pause = min(2 * self._pause, MAX_PAUSE)
