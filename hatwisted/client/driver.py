"""The client's logic on Twisted: calls over its endpoints, timers by its clock, Deferreds to the outside."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime

from hatwisted.clientcore import process
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.tasks import Task, Timer, Waiter, Work
from hatwisted.remoting.client import channel_table
from hatwisted.remoting.deferreds import fired
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.remoting.twistedlog import TwistedLog

T = TypeVar("T")

NAMESPACE: Final = "hatwisted.client"
"""Of what it logs."""


class TwistedDriver:
    """A Driver.

    clock: times everything
    connecting: makes the connections
    randomness, process_name: as Driver; the process's, if None
    credentials: the account that its requests are signed for, if any
    """

    def __init__(
        self,
        clock: IReactorTime,
        connecting: IConnecting,
        *,
        randomness: Random | None = None,
        process_name: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.log = TwistedLog(NAMESPACE)
        self.randomness = randomness or process.RANDOMNESS
        self.process_name = process_name or process.process_name()
        self.file = process.LocalFile
        self.clock = clock
        self.seconds = clock.seconds
        self.channels = channel_table(connecting, clock, self.log, credentials)
        # As Driver.
        self.call = self.channels.call
        self.oneway = self.channels.oneway
        self.serve = self.channels.serve
        self.close = self.channels.close

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        """By the clock."""
        return self.clock.callLater(seconds, work)

    def adopt(self, outcome: Any) -> Waiter[Any]:
        """A Deferred or a coroutine that awaits Deferreds."""
        adopted: Waiter[Any] = Waiter()
        ensureDeferred(outcome).addCallbacks(adopted.fire, lambda failure: adopted.fail(failure.value))
        return adopted


def deferred(work: Work[T]) -> Deferred[T]:
    """A coroutine of the client's logic, under way, as a Deferred; cancelling that cancels it."""
    return fired(Task(work))
