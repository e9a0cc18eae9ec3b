"""The client's logic on Twisted: calls by the remoting client, timers by the reactor, Deferreds to the outside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from hatwisted.clientcore import errors, process
from hatwisted.clientcore.driver import Answer
from hatwisted.clientcore.tasks import Cancelled, Task, Timer, Waiter, Work
from hatwisted.remoting import client as remoting
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.wire.remoting import RemotingCommand

T = TypeVar("T")

_ERRORS: dict[type[remoting.CallFailed], type[errors.CallFailed]] = {
    remoting.ConnectFailed: errors.ConnectFailed,
    remoting.ConnectionGone: errors.ConnectionGone,
    remoting.CallTimedOut: errors.CallTimedOut,
    remoting.TooManyCalls: errors.TooManyCalls,
}


class TwistedDriver:
    """A Driver.

    clock: times everything
    connecting: makes the connections
    randomness, process_name: as Driver; the process's, if None
    """

    def __init__(
        self,
        clock: IReactorTime,
        connecting: IConnecting,
        *,
        randomness: Random | None = None,
        process_name: str | None = None,
    ) -> None:
        self.log = _Log()
        self.randomness = randomness or process.RANDOMNESS
        self.process_name = process_name or process.process_name()
        self.clock = clock
        self.seconds = clock.seconds
        self.remoting = remoting.RemotingClient(connecting, clock)

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        """By the clock."""
        return self.clock.callLater(seconds, work)

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        """As Driver."""
        answer: Waiter[RemotingCommand] = Waiter()
        asked = self.remoting.call(address, request, timeout)
        answer.on_cancel = asked.cancel
        asked.addCallbacks(answer.fire, lambda failure: answer.fail(_translated(failure.value)))
        return answer

    def oneway(self, address: str, request: RemotingCommand) -> None:
        """As Driver."""
        try:
            self.remoting.oneway(address, request)
        except remoting.CallFailed as error:
            raise _translated(error) from None

    def serve(
        self, on_request: Callable[[str, RemotingCommand], Answer], lost: Callable[[str], None]
    ) -> None:
        """As Driver."""

        def answer(address: str, request: RemotingCommand) -> remoting.Answer:
            found = on_request(address, request)
            return fired(found) if isinstance(found, Waiter) else found

        self.remoting.on_request = answer
        self.remoting.on_lost(lost)

    def adopt(self, outcome: Any) -> Waiter[Any]:
        """A Deferred or a coroutine that awaits Deferreds."""
        given = outcome if isinstance(outcome, Deferred) else ensureDeferred(outcome)
        adopted: Waiter[Any] = Waiter()
        given.addCallbacks(adopted.fire, lambda failure: adopted.fail(failure.value))
        return adopted

    def close(self) -> Waiter[None]:
        """As Driver."""
        return self.adopt(self.remoting.close())


class _Log:
    """The client's words through Twisted's logger."""

    def __init__(self) -> None:
        logger = Logger(namespace="hatwisted.client")
        self.debug, self.info = logger.debug, logger.info
        self.warn, self.error = logger.warn, logger.error
        self._failure = logger.failure

    def exception(self, format: str, error: BaseException, **fields: object) -> None:
        """At error, with the traceback of `error`."""
        failure = Failure(error, type(error), error.__traceback__)
        self._failure(format, failure, LogLevel.error, **fields)


def deferred(work: Work[T]) -> Deferred[T]:
    """A coroutine of the client's logic, under way, as a Deferred; cancelling that cancels it."""
    return fired(Task(work))


def fired(waiter: Waiter[T]) -> Deferred[T]:
    """A Deferred that fires with `waiter`."""
    result: Deferred[T] = Deferred(lambda _: waiter.cancel() if isinstance(waiter, Task) else None)
    waiter.when_done(partial(_pass_on, result))
    return result


def _pass_on(result: Deferred[T], done: Waiter[T]) -> None:
    try:
        value = done.result()
    except Cancelled:
        return  # Deferred.cancel says so to its callbacks by itself
    except Exception:
        result.errback(Failure())
    else:
        result.callback(value)


def _translated(error: BaseException) -> BaseException:
    for kind, ours in _ERRORS.items():
        if isinstance(error, kind):
            return ours(error.address, str(error).removeprefix(f"{error.address}: "))
    if isinstance(error, ValueError) and not isinstance(error, errors.ClientError):
        return errors.BadSetting(str(error))
    return error
