"""From the queues to the program: one batch of a queue at a time, different queues concurrently.

What becomes of a message that fails alone is one of three rules: `Retries` sends it back and goes on, `InOrder`
suspends its queue until it succeeds, `LogAndSkip` (broadcasting has no retries) says so and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from hatwisted.clientcore.delivery import (
    AckIndex,
    Consume,
    Listener,
    deliver,
    deliver_in_order,
    deliver_whole,
)
from hatwisted.clientcore.driver import Driver, Log
from hatwisted.clientcore.errors import ClientError, UnreadableBody, Unsettled
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.clientcore.options import ConsumerOptions
from hatwisted.clientcore.queuereader import QueueReader
from hatwisted.clientcore.sendback import SendBack, log_failed
from hatwisted.clientcore.tasks import Task, Timer, Waiter

Stay = Callable[[], bool]
"""Is the queue still ours, and the consumer running?"""


class ConsumeCounts(Protocol):
    """Who counts what was consumed."""

    def consumed(self, topic: str, messages: int, seconds: float) -> None:
        """The program is done with a batch.

        - topic: of the batch
        - messages: in it
        - seconds: it took
        """

    def failed(self, topic: str, messages: int) -> None:
        """A call of the program with `messages` failed."""


class Rule(Protocol):
    """What becomes of a batch."""

    async def settle(
        self, batch: list[ReceivedMessage], consume: Consume, stay: Stay
    ) -> Sequence[ReceivedMessage]:
        """Deliver a batch; gives the end of it that isn't settled, and comes again.

        - batch: messages of one queue, in its order
        - consume: hands some to the program
        - stay: is the queue still ours?
        """


class Retries:
    """Failed messages come back later, others go on."""

    def __init__(self, send_back: SendBack, *, whole_batch: bool = False) -> None:
        self._send_back = send_back
        self._deliver = deliver_whole if whole_batch else deliver

    async def settle(
        self, batch: list[ReceivedMessage], consume: Consume, stay: Stay
    ) -> Sequence[ReceivedMessage]:
        await self._deliver(batch, consume, self._send_back.send_back, stay)
        return ()


class LogAndSkip:
    """Failed messages are logged."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def settle(
        self, batch: list[ReceivedMessage], consume: Consume, stay: Stay
    ) -> Sequence[ReceivedMessage]:
        await deliver(batch, consume, self._tell, stay)
        return ()

    async def _tell(self, message: ReceivedMessage, error: Exception) -> None:
        log_failed(self._log, message, error, "is skipped: broadcasting has no retries")


class InOrder:
    """A failed message holds up those after it.

    - send_back: of dead letters; None: there are none
    - most: failures until it's a dead letter; None: for ever
    - log: gets the failures
    """

    def __init__(self, send_back: SendBack | None, most: int | None, log: Log) -> None:
        self._send_back = send_back
        self._most = most
        self._log = log

    async def settle(
        self, batch: list[ReceivedMessage], consume: Consume, stay: Stay
    ) -> Sequence[ReceivedMessage]:
        done, error = await deliver_in_order(batch, consume, stay)
        if error is None:
            return batch[done:]
        bad = batch[done]
        dead = await self._send_to_dead_letters(bad)
        times = f"failed {bad.reconsume_times + 1} times by now and"
        log_failed(self._log, bad, error, f"{times} {'is a dead letter' if dead else 'blocks its queue'}")
        again = () if dead else (replace(bad, reconsume_times=bad.reconsume_times + 1),)
        return [*again, *batch[done + 1 :]]

    async def _send_to_dead_letters(self, bad: ReceivedMessage) -> bool:
        if self._send_back is None or self._most is None or bad.reconsume_times < self._most:
            return False
        try:
            await self._send_back.send_copy(bad)
        except ClientError as error:
            self._log.warn(
                "{id} couldn't be sent to the dead letters: {error}", id=bad.message_id, error=error
            )
            return False
        return True


class ConsumeService:
    """Works on every queue that has something.

    - driver: waits for the program's code
    - listener: the program's callback
    - rule: what becomes of a message that failed
    - ready: may a reader's queue be worked on now?
    - stats: counts what is consumed
    - options: batches, time limits
    """

    def __init__(
        self,
        driver: Driver,
        listener: Listener,
        rule: Rule,
        ready: Callable[[QueueReader], bool],
        stats: ConsumeCounts,
        options: ConsumerOptions,
    ) -> None:
        self._driver = driver
        self._listener = listener
        self._rule = rule
        self._ready = ready
        self._stats = stats
        self._batch = options.batch
        self._suspension = options.suspension
        self._working: dict[QueueReader, Waiter[None]] = {}
        self._suspended: dict[QueueReader, Timer] = {}
        self._stopped = False

    def arrived(self, reader: QueueReader) -> None:
        """There is something to take, or a reason why it couldn't be taken has gone."""
        if reader not in self._working and reader not in self._suspended:
            self._begin(reader, self._batch)

    def stop(self) -> None:
        """Start nothing more."""
        self._stopped = True
        suspended, self._suspended = self._suspended, {}
        for call in suspended.values():
            call.cancel()

    async def finished(self, readers: Iterable[QueueReader]) -> None:
        """Returns when the program has none of their messages."""
        for waited in [self._working[reader] for reader in readers if reader in self._working]:
            # Several may wait for it: it isn't theirs to end.
            await waited

    async def all_finished(self) -> None:
        """Returns when the program has nothing at all."""
        await self.finished(list(self._working))

    def working(self, reader: QueueReader) -> bool:
        """Does the program have messages of it?"""
        return reader in self._working

    async def consume(self, batch: Sequence[ReceivedMessage]) -> AckIndex | None:
        """A batch to the program, now; fails as the program does."""
        began = self._driver.seconds()
        topic = batch[0].queue.topic
        try:
            for message in batch:
                if message.unreadable is not None:
                    raise UnreadableBody(message.unreadable)
            outcome = self._listener(batch)
            if hasattr(outcome, "__await__"):
                outcome = await (outcome if isinstance(outcome, Waiter) else self._driver.adopt(outcome))
        except Unsettled:
            raise
        except Exception:
            self._stats.failed(topic, len(batch))
            raise
        self._stats.consumed(topic, len(batch), self._driver.seconds() - began)
        return outcome if isinstance(outcome, AckIndex) else None

    def _begin(self, reader: QueueReader, count: int) -> None:
        # Noted before it begins: it may be over when the task is made.
        done = self._working[reader] = Waiter()
        Task(self._work(reader, count)).when_done(lambda ended: self._end(reader, done, ended))

    def _end(self, reader: QueueReader, done: Waiter[None], ended: Waiter[None]) -> None:
        try:
            ended.result()
        except Exception as error:
            self._failed(error, reader)
        del self._working[reader]
        done.fire(None)

    async def _work(self, reader: QueueReader, count: int) -> None:
        """Deliver what `reader` has, batch after batch, until its buffer is empty or a message must wait."""

        def stay() -> bool:
            return not self._stopped and not reader.dropped and self._ready(reader)

        while stay() and (batch := reader.take(count)):
            rest = await self._rule.settle(batch, self.consume, stay)
            reader.settle(rest)
            if rest:
                self._suspend(reader)
                return
            count = self._batch

    def _suspend(self, reader: QueueReader) -> None:
        if not self._stopped and not reader.dropped:
            self._suspended[reader] = self._driver.call_later(self._suspension, lambda: self._resume(reader))

    def _resume(self, reader: QueueReader) -> None:
        del self._suspended[reader]
        # The bad one first, and alone: those after it needn't go through its halving again.
        self._begin(reader, 1)

    def _failed(self, error: Exception, reader: QueueReader) -> None:
        if self._stopped and isinstance(error, ClientError):
            return
        if not isinstance(error, Unsettled):
            self._driver.log.exception("consuming {queue} ended", error, queue=reader.queue)
        elif not self._ready(reader):
            return  # whoever made it so says when it's over
        self._suspend(reader)
