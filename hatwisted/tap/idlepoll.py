"""The event loop keeps polling for a moment before it sleeps.

To be woken takes a process longer than a message takes on its way: the scheduler, and on a virtual machine its
host, have to bring a sleeping core back. A synchronous send wakes four, one after the other: master, slave,
master, producer. A broker that goes on asking for events for `idlePollMicros` has them when they come. While
they come one right after the other, that takes hardly more processor time than to fall asleep and wake up; so
it's done only then: after a wait that took longer the loop sleeps at once, until several in a row were short
again. Between two questions it lets others have the core.

Rejected: SO_BUSY_POLL, which polls devices and does nothing for a loopback; to poll for a fixed time before each
sleep, as Seastar does, with which an idle broker works for nothing each time that a timer has gone off.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from twisted.application.service import IService, Service
from twisted.logger import Logger

from hatwisted.config.schema import BrokerConfig, NamesrvConfig

log = Logger()

_EPOLL: Final[Any] = getattr(select, "epoll", ())
"""The type of epoll objects; on a system without them nothing is an instance of it."""

SHORT_WAITS: Final = 8
"""Waits in a row that were short before the loop keeps polling. With one it would do so between messages that come
one each millisecond, since the slave's acknowledgement of each comes soon."""

Events = list[tuple[int, int]]
"""(descriptor, mask) of each, as `select.epoll` has them."""


class Epoll(Protocol):
    """What a reactor wants of `select.epoll`; it registers with the rest of it."""

    def poll(self, timeout: float = -1, maxevents: int = -1) -> Events:
        """What there is, or comes within `timeout` seconds (-1: ever); `maxevents` at most (-1: any)."""


class IdlePoll:
    """An epoll object that keeps polling before it sleeps.

    - epoll: what is asked; everything else than `poll` is its own
    - limit: seconds to keep polling at most
    - seconds: a clock that never runs backwards
    - let_others: lets another process have the core, if one waits for it
    """

    def __init__(
        self,
        epoll: Epoll,
        limit: float,
        seconds: Callable[[], float],
        let_others: Callable[[], object],
    ) -> None:
        self.epoll = epoll
        self._ask = epoll.poll
        self._limit = limit
        self._seconds = seconds
        self._let_others = let_others
        self._short = 0  # waits in a row whose events came within `limit`

    def __getattr__(self, name: str) -> Any:
        return getattr(self.epoll, name)

    def poll(self, timeout: float = -1, maxevents: int = -1) -> Events:
        """As `select.epoll.poll`, with -1 for as long as it takes."""
        if not timeout:
            return self._ask(0, maxevents)
        began = now = self._seconds()
        if self._short >= SHORT_WAITS:
            ends = began + (self._limit if timeout < 0 else min(self._limit, timeout))
            while True:
                if events := self._ask(0, maxevents):
                    return events
                now = self._seconds()
                if now >= ends:
                    break
                self._let_others()
        if timeout > 0:
            timeout -= now - began
            if timeout <= 0:
                self._short = 0
                return []
        events = self._ask(timeout, maxevents)
        self._short = self._short + 1 if events and self._seconds() - began <= self._limit else 0
        return events


class IdlePolling(Service):
    """Has a reactor keep polling while it runs.

    - reactor: whose event loop it is; one that doesn't use epoll sleeps as ever, and the log says so
    - limit: seconds, as of `IdlePoll`
    """

    name = "idle-polling"

    def __init__(self, reactor: Any, limit: float) -> None:
        self._reactor = reactor
        self._limit = limit
        self._polling: IdlePoll | None = None

    def startService(self) -> None:
        super().startService()
        epoll = getattr(self._reactor, "_poller", None)
        if isinstance(epoll, _EPOLL):
            self._polling = IdlePoll(epoll, self._limit, time.perf_counter, os.sched_yield)
            self._reactor._poller = self._polling
        elif not isinstance(epoll, IdlePoll):  # which another service of this process has put there
            log.info(
                "idlePollMicros needs a reactor with epoll: {reactor} sleeps at once",
                reactor=type(self._reactor).__name__,
            )

    def stopService(self) -> None:
        super().stopService()
        if self._polling is not None:
            self._reactor._poller = self._polling.epoll
            self._polling = None


def idle_polling(reactor: Any, config: BrokerConfig | NamesrvConfig) -> Iterator[IService]:
    """What has the reactor keep polling, if the configuration wants that.

    - reactor: whose event loop it is
    - config: of the server
    """
    if isinstance(config, BrokerConfig) and config.idle_poll_micros:
        yield IdlePolling(reactor, config.idle_poll_micros / 1e6)
