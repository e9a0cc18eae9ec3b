"""What the client's logic waits for, as Deferreds."""

from __future__ import annotations

from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hatwisted.clientcore.tasks import Cancelled, Task, Waiter

T = TypeVar("T")


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
