"""One command against a cluster: the reactor for as long as it takes, errors as one line, Ctrl-C as a wish.

The first SIGINT or SIGTERM asks the command to end in order (a consumer commits); the second ends the reactor
at once. Exit codes: 0 done; 1 done in part (some messages weren't taken); 2 wrong usage, cluster not reachable
or refusing; 130 interrupted before it was done, with everything in order.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

import click

from hatwisted.cli.errors import EXIT_OK, CannotRun
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.errors import ClientError

EXIT_INTERRUPTED: Final = 130
"""128 + SIGINT, as shells have it."""
CHUNK: Final = 64 * 1024
"""Bytes read from standard input at once."""
DEFAULT_NAMESRV: Final = "127.0.0.1:9876"

Work = Callable[[Cluster, "Interrupt"], Awaitable[int | None]]


class Interrupt:
    """`wished`: was Ctrl-C pressed? on_wish: called then, in the reactor's thread."""

    def __init__(self) -> None:
        self.wished = False
        self.on_wish: Callable[[], Any] | None = None

    def wish(self) -> None:
        """End in order."""
        first, self.wished = not self.wished, True
        if first and self.on_wish is not None:
            self.on_wish()


def namesrv_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """-n, as mqadmin has it."""
    return click.option(
        "-n",
        "--namesrv",
        envvar="NAMESRV_ADDR",
        default=DEFAULT_NAMESRV,
        show_default=True,
        metavar="HOST:PORT[;...]",
        help="Name servers (also from NAMESRV_ADDR).",
    )(command)


Runner = Callable[[str, Work], int]


def run(namesrv: str, work: Work) -> int:
    """Run `work` with a cluster link and give its exit code. CannotRun for what has a place in the plan.

    Who has a reactor running already gives the commands a Runner as the context's object.
    """
    runner: Runner = click.get_current_context().obj or run_reactor
    return runner(namesrv, work)


def run_reactor(namesrv: str, work: Work) -> int:
    """The Runner of a process that does nothing else."""
    from twisted.internet import reactor as installed
    from twisted.internet.defer import Deferred

    reactor: Any = installed
    try:
        cluster = Cluster(reactor, namesrv)
    except ValueError as error:
        raise CannotRun(str(error)) from error
    interrupt = Interrupt()
    ended: list[Any] = []

    async def whole() -> int:
        try:
            return await work(cluster, interrupt) or EXIT_OK
        finally:
            await cluster.close()

    def begin() -> None:
        Deferred.fromCoroutine(whole()).addBoth(end)

    def end(outcome: Any) -> None:
        # What the reactor's end makes of a work that was broken off isn't its outcome.
        if not ended:
            ended.append(outcome)
            reactor.stop()

    with _signals(reactor, interrupt, lambda: end(EXIT_INTERRUPTED)):
        reactor.callWhenRunning(begin)
        reactor.run(installSignalHandlers=False)
    return exit_code(ended[0] if ended else EXIT_INTERRUPTED)


def exit_code(outcome: Any) -> int:
    """Of a work's result, or of its Failure; CannotRun for what has a place in the plan."""
    if isinstance(outcome, int):
        return outcome
    error = outcome.value
    if isinstance(error, ClientError):
        raise CannotRun(" ".join(str(error).split())) from error
    raise error


class _signals:
    """Handlers of SIGINT and SIGTERM while the reactor runs."""

    def __init__(self, reactor: Any, interrupt: Interrupt, end: Callable[[], None]) -> None:
        self._reactor = reactor
        self._interrupt = interrupt
        self._end = end
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._caught)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _caught(self, number: int, frame: object) -> None:
        again = self._interrupt.wished
        self._reactor.callFromThread(self._end if again else self._interrupt.wish)


class InputLines:
    """Standard input line by line, without blocking the reactor and without reading far ahead.

    A thread of its own reads one chunk whenever one is asked for; it's a daemon, so that a terminal nobody
    types at doesn't keep the process alive. Rejected: the reactor's own reader, which epoll refuses for files.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._descriptor = sys.stdin.fileno()
        self._rest = b""

    async def chunk(self) -> list[bytes] | None:
        """The next whole lines, without their ends; None at the end of the input."""
        while True:
            data = await self._read()
            if not data:
                rest, self._rest = self._rest, b""
                return [rest] if rest else None
            *lines, self._rest = (self._rest + data).split(b"\n")
            if lines:
                return [line.removesuffix(b"\r") for line in lines]

    def _read(self) -> Any:
        from twisted.internet.defer import Deferred

        result: Deferred[bytes] = Deferred()
        threading.Thread(target=self._read_blocking, args=(result,), daemon=True).start()
        return result

    def _read_blocking(self, result: Any) -> None:
        try:
            data = os.read(self._descriptor, CHUNK)
        except OSError as error:
            self._reactor.callFromThread(result.errback, CannotRun(f"standard input: {error.strerror}"))
            return
        self._reactor.callFromThread(_deliver, result, data)


def _deliver(result: Any, data: bytes) -> None:
    if not result.called:
        result.callback(data)
