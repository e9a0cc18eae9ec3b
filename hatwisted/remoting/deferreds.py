"""What the client's logic waits for, as Deferreds, and several of these at once."""

from __future__ import annotations

from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from hatwisted.clientcore.tasks import Cancelled, Task, Waiter

T = TypeVar("T")


async def all_of(*waited: Deferred[T]) -> list[T]:
    """All results; or the first failure, once none of them is under way any more."""
    outcomes: list[tuple[bool, Any]] = await DeferredList(list(waited), consumeErrors=True)
    for done, outcome in outcomes:
        if not done:
            outcome.raiseException()
    return [outcome for _, outcome in outcomes]


def fired(waiter: Waiter[T]) -> Deferred[T]:
    """A Deferred that fires with `waiter`; cancelling it gives that up."""

    def pass_on(done: Waiter[T]) -> None:
        try:
            value = done.result()
        except Cancelled:
            return  # Deferred.cancel says so to its callbacks by itself
        except Exception:
            result.errback(Failure())
        else:
            result.callback(value)

    def cancel(_: Deferred[T]) -> None:
        if isinstance(waiter, Task):
            waiter.cancel()
        else:
            waiter.forget(pass_on)

    result: Deferred[T] = Deferred(cancel)
    waiter.when_done(pass_on)
    return result
