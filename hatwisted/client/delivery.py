"""Messages to the program, and how a failing batch is taken apart.

A failing batch is halved, and its halves delivered one after the other, until the bad message stands alone. The
good ones beside it are delivered again, at most once for each halving. What becomes of the bad one isn't decided
here (`queuework.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from hatwisted.client.errors import ClientError
from hatwisted.client.message import ReceivedMessage

Listener = Callable[[Sequence[ReceivedMessage]], Any]
"""Takes a batch; whatever it raises, or its Deferred or coroutine fails with, means "not consumed"."""


class Rejected(ClientError):
    """The program doesn't want this message now."""


class Unsettled(ClientError):
    """The program had the message when its queue, or the consumer, went: nobody knows what became of it."""


async def consume(listener: Listener, batch: Sequence[ReceivedMessage]) -> None:
    """Call `listener` and wait for what it gives."""
    outcome = listener(batch)
    if hasattr(outcome, "__await__"):
        await (outcome if isinstance(outcome, Deferred) else ensureDeferred(outcome))


async def deliver(
    batch: Sequence[ReceivedMessage],
    listener: Listener,
    failed: Callable[[ReceivedMessage, Exception], Any],
    stay: Callable[[], bool] = lambda: True,
) -> None:
    """Give `batch` to `listener`, halved as long as it fails; `failed` gets what failed alone.

    stay: is the queue still ours? Unsettled between two halves when it isn't.
    """
    if not stay():
        raise Unsettled("the queue went to somebody else")
    try:
        await consume(listener, batch)
    except Unsettled:
        raise
    except Exception as error:
        if len(batch) == 1:
            given = failed(batch[0], error)
            if hasattr(given, "__await__"):
                await given
            return
        middle = len(batch) // 2
        await deliver(batch[:middle], listener, failed, stay)
        await deliver(batch[middle:], listener, failed, stay)


async def deliver_in_order(
    batch: Sequence[ReceivedMessage], listener: Listener, stay: Callable[[], bool] = lambda: True
) -> tuple[int, Exception | None]:
    """How many of `batch`, from its front, are consumed, and the error of the one behind them.

    Nothing behind a message that failed alone is delivered again. No error and too few: `stay` said no.
    """
    if not stay():
        return 0, None
    try:
        await consume(listener, batch)
    except Unsettled:
        raise
    except Exception as error:
        if len(batch) == 1:
            return 0, error
        middle = len(batch) // 2
        done, failure = await deliver_in_order(batch[:middle], listener, stay)
        if done < middle:
            return done, failure
        more, failure = await deliver_in_order(batch[middle:], listener, stay)
        return middle + more, failure
    return len(batch), None
