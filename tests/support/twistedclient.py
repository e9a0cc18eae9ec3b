"""Our own client in the process of an `async` test, told and asked as `ClientProgram` is, with `await`."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from tests.support.clientprogram import Event
from tests.support.ourclient import INTERVALS, OurClient

POLL_SECONDS = 0.05

aside = deferToThread
"""For what blocks (a server that starts, a look into a store), while the client goes on."""


async def until(
    condition: Callable[[], object] | Callable[[], Awaitable[object]], seconds: float, what: str
) -> None:
    """Waits as `wait_until` does; a condition that blocks is asked in a thread, an `async` one here."""
    deadline = time.monotonic() + seconds
    while True:
        waiting = inspect.iscoroutinefunction(condition)
        if await condition() if waiting else await aside(condition):
            return
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await deferLater(reactor, POLL_SECONDS)  # type: ignore[arg-type]


class TwistedClient:
    """The client and what it has said. `log` has the lines that it logged."""

    def __init__(self, name_servers: str) -> None:
        self._client = OurClient(reactor, name_servers, self._said)
        self._all: list[Event] = []
        self.log: list[str] = []

    def _said(self, *words: object) -> None:
        self._all.append(tuple(map(str, words)))

    def observe(self, event: LogEvent) -> None:
        """A log observer."""
        self.log.append(formatEvent(event))

    async def tell(self, *words: object) -> None:
        """A command, until it's done. Raises what the client raises."""
        await self._client.obey(*map(str, words))

    def events(self, kind: str) -> list[Event]:
        """What came so far of a kind, without the kind itself."""
        return [event[1:] for event in self._all if event[0] == kind]

    async def wait_for(
        self, kind: str, enough: Callable[[list[Event]], object], seconds: float
    ) -> list[Event]:
        """Until `enough(events of the kind)`; these events."""
        deadline = time.monotonic() + seconds
        while not enough(found := self.events(kind)):
            assert time.monotonic() < deadline, (
                f"has {len(found)} {kind!r} after {seconds:g} s: {found[-5:]}; logged: {self.log[-20:]}"
            )
            await deferLater(reactor, POLL_SECONDS)  # type: ignore[arg-type]
        return found

    def forget(self) -> None:
        """Drop the events so far."""
        self._all.clear()

    async def close(self) -> None:
        """Stop the consumers and leave."""
        await self._client.close()


@asynccontextmanager
async def twisted_client(name_servers: str) -> AsyncIterator[TwistedClient]:
    """A client until the end of the context, with the intervals of `ourclient`."""
    with pytest.MonkeyPatch.context() as patch:
        for module, constant, value in INTERVALS:
            patch.setattr(module, constant, value)
        client = TwistedClient(name_servers)
        globalLogPublisher.addObserver(client.observe)
        try:
            yield client
        finally:
            await client.close()
            globalLogPublisher.removeObserver(client.observe)
