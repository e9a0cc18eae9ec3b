"""What the client's logic needs of the world: time, calls to servers, a file, and a way to wait for the program's
own code.

Three drivers stand under one logic: Twisted's reactor (`hatwisted.client`), asyncio (`hatwisted.aio`) and blocking
sockets (`hatwisted.blocking`). A fourth, with a clock and a network of its own, tests it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Protocol

from hatwisted.clientcore.tasks import Clock, Task, Waiter, Work
from hatwisted.wire.remoting import RemotingCommand

Answer = RemotingCommand | Waiter[RemotingCommand] | None
"""The answer to a server's request: now, later, or that it isn't known here (or nothing, if it was oneway)."""


class Log(Protocol):
    """Where the client says what it does; fields stand in the format in braces."""

    def debug(self, format: str, **fields: object) -> None:
        """For debugging."""

    def info(self, format: str, **fields: object) -> None:
        """Normal, and worth a line."""

    def warn(self, format: str, **fields: object) -> None:
        """Worth a look."""

    def error(self, format: str, **fields: object) -> None:
        """Something is lost, or the program is wrong."""

    def exception(self, format: str, error: BaseException, **fields: object) -> None:
        """At error, with the traceback of `error`."""


class WholeFile(Protocol):
    """A small file that is read and replaced as a whole."""

    def read(self) -> bytes | None:
        """None: it isn't there. Raises another OSError."""

    def replace(self, data: bytes) -> None:
        """Readers see the former content or this. Its folder is made when needed. Raises OSError."""


class Driver(Clock, Protocol):
    """All that a driver gives. Nothing here blocks but the blocking driver's own."""

    @property
    def log(self) -> Log:
        """The client's."""

    @property
    def randomness(self) -> Random:
        """Where queues begin, and what names are made of that nobody else has."""

    @property
    def process_name(self) -> str:
        """Of the process or host it runs for, "host@pid": begins the names of its clients."""

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        """Send a request. Fires with the answer, whatever its code; fails with CallFailed, or ValueError for a bad
        address.

        - address: "host:port"
        - request: its opaque is set here
        - timeout: seconds
        """

    def oneway(self, address: str, request: RemotingCommand) -> None:
        """Send `request` without an answer; it's lost silently if no server is there. CallFailed if too much
        waits."""

    def serve(
        self, on_request: Callable[[str, RemotingCommand], Answer], lost: Callable[[str], None]
    ) -> None:
        """Register for what comes unasked.

        on_request: called with (address, request) of a server; returns the answer
        lost: called with the address of a connection that ended by itself
        """

    def file(self, path: Path) -> WholeFile:
        """The file at `path`; nothing is opened yet."""

    def adopt(self, outcome: Any) -> Waiter[Any]:
        """What the program's own code gave: a coroutine or whatever else its loop can wait for."""

    def close(self) -> Waiter[None]:
        """Fail all calls, close all connections."""


class StandardLog:
    """The client's words through the standard library's `logging`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, format: str, **fields: object) -> None:
        self._say(logging.DEBUG, format, fields)

    def info(self, format: str, **fields: object) -> None:
        self._say(logging.INFO, format, fields)

    def warn(self, format: str, **fields: object) -> None:
        self._say(logging.WARNING, format, fields)

    def error(self, format: str, **fields: object) -> None:
        self._say(logging.ERROR, format, fields)

    def exception(self, format: str, error: BaseException, **fields: object) -> None:
        self._say(logging.ERROR, format, fields, error)

    def _say(
        self, level: int, format: str, fields: dict[str, object], error: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", format.format(**fields), exc_info=error)


def in_background(driver: Driver, work: Work[Any], what: str) -> Task[Any]:
    """Run a coroutine without waiting for it: a failure is logged, a cancellation isn't.

    - driver: has the log
    - work: the coroutine
    - what: it does, for the log
    """
    task = Task(work)
    task.when_done(lambda ended: _tell(driver.log, ended, what))
    return task


def _tell(log: Log, ended: Waiter[Any], what: str) -> None:
    try:
        ended.result()
    except Exception as error:
        log.exception("{what} failed", error, what=what)
    except BaseException:
        return


class Repeating:
    """Calls a function at intervals while it runs; one that raises is logged, and called again.

    - driver: its clock and log
    - interval: seconds
    - work: the function
    - what: it does, for the log
    """

    def __init__(self, driver: Driver, interval: float, work: Callable[[], object], what: str) -> None:
        self._driver = driver
        self._interval = interval
        self._work = work
        self._what = what
        self._timer: Any = None

    @property
    def running(self) -> bool:
        """Was it started, and not stopped?"""
        return self._timer is not None

    def start(self) -> None:
        """The first call is an interval away."""
        assert self._timer is None, "already running"
        self._arm()

    def stop(self) -> None:
        """Make no further call; no error if it isn't running."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._driver.call_later(self._interval, self._call)

    def _call(self) -> None:
        self._arm()
        try:
            self._work()
        except Exception as error:
            self._driver.log.exception("{what} failed", error, what=self._what)
