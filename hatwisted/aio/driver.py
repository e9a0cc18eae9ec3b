"""The client's logic on asyncio: plain transports and timers of the running loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from hatwisted.aio.link import Link
from hatwisted.clientcore.driver import Answer, StandardLog
from hatwisted.clientcore.errors import ClientError, ConnectFailed, Unsettled
from hatwisted.clientcore.process import RANDOMNESS, process_name
from hatwisted.clientcore.tasks import Task, Timer, Waiter, Work, gather
from hatwisted.wire.remoting import RemotingCommand

P = ParamSpec("P")
T = TypeVar("T")


class AioDriver:
    """On the loop that runs when it is first used."""

    def __init__(self) -> None:
        self.log = StandardLog("hatwisted.aio")
        self.randomness = RANDOMNESS
        self.process_name = process_name()
        self._links: dict[str, Link] = {}
        self._on_request: Callable[[str, RemotingCommand], Answer] | None = None
        self._lost: Callable[[str], None] | None = None
        self._closed = False

    # ---- as Driver

    def seconds(self) -> float:
        """The system's."""
        return time.time()

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        """By the running loop."""
        return asyncio.get_running_loop().call_later(seconds, work)

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        """As Driver."""
        try:
            return self._link(address).call(request, timeout)
        except ClientError as error:
            failed: Waiter[RemotingCommand] = Waiter()
            failed.fail(error)
            return failed

    def oneway(self, address: str, request: RemotingCommand) -> None:
        """As Driver."""
        self._link(address).oneway(request)

    def serve(
        self, on_request: Callable[[str, RemotingCommand], Answer], lost: Callable[[str], None]
    ) -> None:
        """As Driver."""
        self._on_request, self._lost = on_request, lost

    def adopt(self, outcome: Any) -> Waiter[Any]:
        """A coroutine, a future or a task of the running loop."""
        adopted: Waiter[Any] = Waiter()
        asyncio.ensure_future(outcome).add_done_callback(lambda given: _pass_on(given, adopted))
        return adopted

    def close(self) -> Waiter[None]:
        """As Driver."""
        self._closed = True
        return Task(self._close())

    async def _close(self) -> None:
        await gather(_ended(link.close()) for link in self._links.values())
        self._links.clear()

    # ---- as its links see it

    def on_request(self, address: str, request: RemotingCommand) -> Answer:
        """A server asks."""
        return None if self._on_request is None else self._on_request(address, request)

    def lost(self, address: str) -> None:
        """A connection has ended by itself."""
        if self._lost is not None and not self._closed:
            self._lost(address)

    def _link(self, address: str) -> Link:
        if self._closed:
            raise ConnectFailed(address, "this client is closed")
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(self, address, asyncio.get_running_loop())
        return link


async def run(work: Work[T]) -> T:
    """A coroutine of the client's logic, as one of asyncio; cancelling this one cancels that one."""
    task = Task(work)
    if not task.done:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.when_done(lambda _: None if over.done() else over.set_result(None))
        try:
            await over
        except asyncio.CancelledError:
            task.cancel()
            raise
    return task.result()


def on_asyncio(
    method: Callable[Concatenate[Any, P], Work[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """`method` of the object's `_core`, as a coroutine of asyncio."""

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


async def _ended(closing: Waiter[None]) -> None:
    await closing
