"""From the queues to the program: one batch of a queue at a time, the queues beside each other.

What becomes of a message that fails alone is one of three rules: `Retries` gives it back and goes on, `InOrder`
suspends its queue until it succeeds, `PassOver` (broadcasting has no retries) says so and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.client.delivery import Listener, Unsettled, consume, deliver, deliver_in_order
from hatwisted.client.errors import ClientError
from hatwisted.client.giveback import GiveBack
from hatwisted.client.message import ReceivedMessage
from hatwisted.client.queuereader import QueueReader
from hatwisted.remoting.client import CallFailed

SUSPENSION: Final = 1.0
"""Seconds that a queue rests before its failed message is tried again (4.9.7: 1 s)."""

Stay = Callable[[], bool]
"""Is the queue still ours, and the consumer running?"""


class ConsumeCounts(Protocol):
    """Who counts what was consumed."""

    def consumed(self, topic: str, messages: int, seconds: float) -> None:
        """The program took `seconds` for `messages`."""

    def failed(self, topic: str, messages: int) -> None:
        """A call of the program with `messages` failed."""


class Rule(Protocol):
    """What becomes of a batch."""

    async def settle(
        self, batch: list[ReceivedMessage], listener: Listener, stay: Stay
    ) -> Sequence[ReceivedMessage]:
        """Deliver it; gives the end of it that isn't settled, and comes again."""


class Retries:
    """Failed messages come back later, others go on."""

    def __init__(self, give_back: GiveBack) -> None:
        self._give_back = give_back

    async def settle(
        self, batch: list[ReceivedMessage], listener: Listener, stay: Stay
    ) -> Sequence[ReceivedMessage]:
        await deliver(batch, listener, self._give_back.give_back, stay)
        return ()


class PassOver:
    """Failed messages are logged."""

    _log = Logger(namespace="hatwisted.client")

    async def settle(
        self, batch: list[ReceivedMessage], listener: Listener, stay: Stay
    ) -> Sequence[ReceivedMessage]:
        await deliver(batch, listener, self._tell, stay)
        return ()

    def _tell(self, message: ReceivedMessage, error: Exception) -> None:
        self._log.error(
            "message {id} of {topic} failed and is passed over, as broadcasting has no retries: {error!r}",
            id=message.message_id,
            topic=message.topic,
            error=error,
        )


class InOrder:
    """A failed message holds up those behind it. most: failures until it's a dead letter; None: for ever."""

    _log = Logger(namespace="hatwisted.client")

    def __init__(self, give_back: GiveBack | None, most: int | None) -> None:
        self._give_back = give_back
        self._most = most

    async def settle(
        self, batch: list[ReceivedMessage], listener: Listener, stay: Stay
    ) -> Sequence[ReceivedMessage]:
        done, error = await deliver_in_order(batch, listener, stay)
        if error is None:
            return batch[done:]
        bad = batch[done]
        buried = await self._bury(bad)
        self._log.warn(
            "message {id} of {queue} failed {times} times ({error!r}), {what}",
            id=bad.message_id,
            queue=bad.queue,
            times=bad.reconsume_times + 1,
            error=error,
            what="it's a dead letter now" if buried else "its queue is suspended",
        )
        again = () if buried else (replace(bad, reconsume_times=bad.reconsume_times + 1),)
        return [*again, *batch[done + 1 :]]

    async def _bury(self, bad: ReceivedMessage) -> bool:
        if self._give_back is None or self._most is None or bad.reconsume_times < self._most:
            return False
        try:
            await self._give_back.send_copy(bad)
        except (CallFailed, ClientError) as error:
            self._log.warn("{id} can't be buried: {error}", id=bad.message_id, error=error)
            return False
        return True


class QueueWork:
    """Works on every queue that has something, if `ready(queue's reader)` allows it.

    batch: messages for one call; suspension: seconds until a message that wasn't settled comes again.
    """

    _log = Logger(namespace="hatwisted.client")

    def __init__(
        self,
        clock: IReactorTime,
        listener: Listener,
        rule: Rule,
        ready: Callable[[QueueReader], bool],
        stats: ConsumeCounts,
        *,
        batch: int,
        suspension: float = SUSPENSION,
    ) -> None:
        self._clock = clock
        self._listener = listener
        self._rule = rule
        self._ready = ready
        self._stats = stats
        self._batch = batch
        self._suspension = suspension
        self._working: dict[QueueReader, Deferred[None]] = {}
        self._suspended: dict[QueueReader, IDelayedCall] = {}
        self._stopped = False

    def arrived(self, reader: QueueReader) -> None:
        """There is something to take, or a reason why it couldn't be taken has gone."""
        if reader not in self._working and reader not in self._suspended:
            self._begin(reader, self._batch)

    def stop(self) -> None:
        """Begin with nothing more."""
        self._stopped = True
        suspended, self._suspended = self._suspended, {}
        for call in suspended.values():
            call.cancel()

    def finished(self, readers: Iterable[QueueReader]) -> Deferred[None]:
        """Fires when the program has none of their messages."""
        working = [self._working[reader] for reader in readers if reader in self._working]
        if not working:
            return succeed(None)
        done: Deferred[None] = Deferred()
        DeferredList([_joined(each) for each in working]).addCallback(lambda _: done.callback(None))
        return done

    def all_finished(self) -> Deferred[None]:
        """Fires when the program has nothing at all."""
        return self.finished(list(self._working))

    def working(self, reader: QueueReader) -> bool:
        """Has the program messages of it?"""
        return reader in self._working

    def listen(self, message: ReceivedMessage) -> Deferred[None]:
        """One message from elsewhere to the program, now; fails as the program does."""
        return Deferred.fromCoroutine(self._consume([message]))

    async def _consume(self, batch: Sequence[ReceivedMessage]) -> None:
        began = self._clock.seconds()
        topic = batch[0].queue.topic
        try:
            await consume(self._listener, batch)
        except Unsettled:
            raise
        except Exception:
            self._stats.failed(topic, len(batch))
            raise
        self._stats.consumed(topic, len(batch), self._clock.seconds() - began)

    def _begin(self, reader: QueueReader, count: int) -> None:
        # Noted before it begins: it may be over when fromCoroutine returns.
        done = self._working[reader] = Deferred()
        work = Deferred.fromCoroutine(self._work(reader, count)).addErrback(self._failed, reader)
        work.addBoth(lambda _: self._end(reader, done))

    def _end(self, reader: QueueReader, done: Deferred[None]) -> None:
        del self._working[reader]
        done.callback(None)

    async def _work(self, reader: QueueReader, count: int) -> None:
        """Deliver what `reader` has, batch after batch, until its buffer is empty or a message must wait."""

        def stay() -> bool:
            return not self._stopped and not reader.dropped and self._ready(reader)

        while stay() and (batch := reader.take(count)):
            rest = await self._rule.settle(batch, self._consume, stay)
            reader.settle(rest)
            if rest:
                self._suspend(reader)
                return
            count = self._batch

    def _suspend(self, reader: QueueReader) -> None:
        if not self._stopped and not reader.dropped:
            self._suspended[reader] = self._clock.callLater(self._suspension, self._resume, reader)

    def _resume(self, reader: QueueReader) -> None:
        del self._suspended[reader]
        # The bad one first, and alone: those behind it needn't go through its halving again.
        self._begin(reader, 1)

    def _failed(self, failure: Failure, reader: QueueReader) -> None:
        if failure.check(Unsettled) or (self._stopped and failure.check(ClientError)):
            return
        self._log.failure("consuming {queue} ended", failure=failure, queue=reader.queue)
        self._suspend(reader)


def _joined(waited: Deferred[None]) -> Deferred[None]:
    """Fires with `waited`, and can't end it."""
    mine: Deferred[None] = Deferred()

    def fire(outcome: None) -> None:
        if not mine.called:
            mine.callback(None)

    waited.addBoth(fire)
    return mine
