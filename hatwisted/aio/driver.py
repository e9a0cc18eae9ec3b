"""The client's logic on asyncio: plain transports and timers of the running loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from hatwisted.aio.link import dialling
from hatwisted.clientcore.calls import ChannelTable
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.driver import StandardLog
from hatwisted.clientcore.errors import Unsettled
from hatwisted.clientcore.process import RANDOMNESS, LocalFile, process_name
from hatwisted.clientcore.tasks import Task, Timer, Waiter, Work
from hatwisted.clientcore.tls import Tls

P = ParamSpec("P")
T = TypeVar("T")


class AioDriver:
    """Uses the loop that is running when it is first used. credentials: the account of its requests, if any;
    tls: how its connections are encrypted, if they are."""

    def __init__(self, credentials: Credentials | None = None, tls: Tls | None = None) -> None:
        self.log = StandardLog("hatwisted.aio")
        self.randomness = RANDOMNESS
        self.process_name = process_name()
        self.file = LocalFile
        dial = dialling(None if tls is None else tls.context())
        self._channels = ChannelTable(self.call_later, dial, self.log, credentials)
        # As Driver.
        self.call = self._channels.call
        self.oneway = self._channels.oneway
        self.serve = self._channels.serve
        self.close = self._channels.close

    # ---- as Driver

    def seconds(self) -> float:
        """The system's."""
        return time.time()

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        """By the running loop."""
        return asyncio.get_running_loop().call_later(seconds, work)

    def adopt(self, outcome: Any) -> Waiter[Any]:
        """A coroutine, a future or a task of the running loop."""
        adopted: Waiter[Any] = Waiter()
        asyncio.ensure_future(outcome).add_done_callback(lambda given: _pass_on(given, adopted))
        return adopted


async def run(work: Work[T], missed: Callable[[T], object] = lambda result: None) -> T:
    """A coroutine of the client's logic as an asyncio coroutine; cancelling this one cancels that one.

    - work: the coroutine
    - missed: gets a result that came in the very turn in which whoever waits for it was cancelled
    """
    task = Task(work)
    if not task.done:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.when_done(lambda _: None if over.done() else over.set_result(None))
        try:
            await over
        except asyncio.CancelledError:
            if _has_ended(task):
                with suppress(Exception):  # that of the work, which nobody waits for any more
                    missed(task.result())
            else:
                task.cancel()
            raise
    return task.result()


def _has_ended(task: Waiter[Any]) -> bool:
    """Asked anew: it may have, between being waited for and now."""
    return task.done


def on_asyncio(
    method: Callable[Concatenate[Any, P], Work[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """`method` of the object's `_core`, as an asyncio coroutine."""

    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run(method(self._core, *args, **kwargs))

    return update_wrapper(call, method)


def _pass_on(given: asyncio.Future[Any], adopted: Waiter[Any]) -> None:
    if given.cancelled():
        adopted.fail(Unsettled("the program's task was cancelled"))
    elif (error := given.exception()) is not None:
        adopted.fail(error)
    else:
        adopted.fire(given.result())
