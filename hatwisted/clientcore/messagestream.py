"""Messages one after another, for `async for`: what the queues offer meets those who take it.

A message is settled when the next is asked for, so its queue waits for the program as it does for a callback.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hatwisted.clientcore.errors import Rejected, Unsettled
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.clientcore.tasks import Waiter
from hatwisted.wire.messagequeue import MessageQueue

_Handed = tuple[ReceivedMessage, "Waiter[None]"]


class MessageStream:
    """`offer` is its listener."""

    def __init__(self) -> None:
        self._offers: deque[_Handed] = deque()
        self._takers: deque[Waiter[ReceivedMessage | None]] = deque()
        # By identity: the same message may be here twice, by its queue and at an operator's request.
        self._open: dict[int, _Handed] = {}
        self._ended = False

    def offer(self, batch: Sequence[ReceivedMessage]) -> Waiter[None]:
        """Fires when the program has settled the message; fails with Rejected or Unsettled."""
        (message,) = batch
        done: Waiter[None] = Waiter()
        if self._ended:
            done.fail(Unsettled("the consumer has stopped"))
            return done
        self._open[id(message)] = message, done
        if self._takers:
            self._takers.popleft().fire(message)
        else:
            self._offers.append((message, done))
        return done

    async def next(self) -> ReceivedMessage | None:
        """The next message; None when there will be no more."""
        if self._offers:
            return self._offers.popleft()[0]
        if self._ended:
            return None
        taker: Waiter[ReceivedMessage | None] = Waiter(lambda: self._takers.remove(taker))
        self._takers.append(taker)
        return await taker

    def settle(self, message: ReceivedMessage) -> None:
        """It's done with. Nothing happens if that's known."""
        if done := self._close(message):
            done.fire(None)

    def reject(self, message: ReceivedMessage) -> None:
        """It's to be tried again."""
        if done := self._close(message):
            done.fail(Rejected("rejected"))

    def withdraw(self, queue: MessageQueue) -> None:
        """Offers of this queue that weren't taken belong to another member now."""
        withdrawn = [message for message, _ in self._offers if message.queue == queue]
        self._offers = deque(each for each in self._offers if each[0].queue != queue)
        for message in withdrawn:
            if done := self._close(message):
                done.fail(Unsettled("the queue was assigned to another member"))

    def end(self) -> None:
        """What wasn't taken or settled is left to the next reader of its queue."""
        self._ended = True
        self._offers.clear()
        open_, self._open = self._open, {}
        for _, done in open_.values():
            done.fail(Unsettled("the consumer has stopped"))
        while self._takers:
            self._takers.popleft().fire(None)

    def _close(self, message: ReceivedMessage) -> Waiter[None] | None:
        return self._open.pop(id(message), (message, None))[1]


class Messages:
    """One loop over a stream: what it got is settled when the next is asked for."""

    def __init__(self, stream: MessageStream) -> None:
        self._stream = stream
        self._current: ReceivedMessage | None = None

    async def next(self) -> ReceivedMessage | None:
        """The next message; None when there will be no more."""
        if self._current is not None:
            current, self._current = self._current, None
            self._stream.settle(current)
        self._current = await self._stream.next()
        return self._current
