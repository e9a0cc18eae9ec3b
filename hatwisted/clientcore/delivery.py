"""Messages to the program, and how a failing batch is taken apart.

A failing batch is halved, and its halves delivered one after the other, until the bad message stands alone. The
good ones beside it are delivered again, at most once for each halving. What becomes of the bad one isn't decided
here (`consumeservice.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hatwisted.clientcore.errors import Rejected, Unsettled
from hatwisted.clientcore.message import ReceivedMessage


@dataclass(frozen=True, slots=True)
class AckIndex:
    """What a listener may give: its batch is consumed up to and including this index (from 0); those after it go
    back, each for itself. Not for orderly consumption."""

    value: int


Listener = Callable[[Sequence[ReceivedMessage]], AckIndex | None | Awaitable[AckIndex | None]]
"""The program's: takes a batch, gives None, an AckIndex, or what its loop can wait for of either. Whatever it
raises, or what it gives fails with, means "not consumed"."""
RECONSUME_LATER: Final = AckIndex(-1)
"""The whole batch goes back."""

Consume = Callable[[Sequence[ReceivedMessage]], Awaitable[AckIndex | None]]
"""Calls the program's listener and waits for what it gives; None: all is consumed."""
Failed = Callable[[ReceivedMessage, Exception], Awaitable[None]]
"""What becomes of a message that failed alone."""


async def deliver(
    batch: Sequence[ReceivedMessage],
    consume: Consume,
    failed: Failed,
    stay: Callable[[], bool] = lambda: True,
) -> None:
    """Have a batch consumed, halved as long as it fails.

    - batch: messages of one queue
    - consume: hands some to the program
    - failed: gets what failed alone
    - stay: is the queue still ours? Unsettled between two halves when it isn't
    """
    if not stay():
        raise Unsettled("the queue was assigned to another member")
    try:
        acked = await consume(batch)
    except Unsettled:
        raise
    except Exception as error:
        if len(batch) == 1:
            await failed(batch[0], error)
            return
        middle = len(batch) // 2
        await deliver(batch[:middle], consume, failed, stay)
        await deliver(batch[middle:], consume, failed, stay)
    else:
        await _behind(acked, batch, failed)


async def deliver_whole(
    batch: Sequence[ReceivedMessage],
    consume: Consume,
    failed: Failed,
    stay: Callable[[], bool] = lambda: True,
) -> None:
    """Have a batch consumed once (B125).

    - batch: messages of one queue
    - consume: hands them to the program
    - failed: gets each of them if that fails
    - stay: is the queue still ours?
    """
    if not stay():
        raise Unsettled("the queue was assigned to another member")
    try:
        acked = await consume(batch)
    except Unsettled:
        raise
    except Exception as error:
        await failed(batch[0], error)
        for message in batch[1:]:
            await failed(message, Rejected("its batch failed"))
    else:
        await _behind(acked, batch, failed)


async def _behind(acked: AckIndex | None, batch: Sequence[ReceivedMessage], failed: Failed) -> None:
    if acked is not None:
        for message in batch[max(acked.value + 1, 0) :]:
            await failed(message, Rejected("to be consumed later"))


async def deliver_in_order(
    batch: Sequence[ReceivedMessage], consume: Consume, stay: Callable[[], bool] = lambda: True
) -> tuple[int, Exception | None]:
    """How many messages are consumed, counted from the first, and the error of the one after them. Nothing after a
    message that failed alone is delivered again.

    - batch: messages of one queue, in its order
    - consume: hands some to the program
    - stay: is the queue still ours? No error and too few: it said no
    """
    if not stay():
        return 0, None
    try:
        await consume(batch)
    except Unsettled:
        raise
    except Exception as error:
        if len(batch) == 1:
            return 0, error
        middle = len(batch) // 2
        done, failure = await deliver_in_order(batch[:middle], consume, stay)
        if done < middle:
            return done, failure
        more, failure = await deliver_in_order(batch[middle:], consume, stay)
        return middle + more, failure
    return len(batch), None
