"""Running one command on a cluster: the reactor for as long as it takes, errors as one line, a clean stop at
Ctrl-C.

The first SIGINT or SIGTERM asks the command to finish cleanly (a consumer commits); the second ends the reactor
at once.

Exit codes: 0 done; 1 partly done (some messages weren't taken); 2 usage error, or the cluster can't be
reached or refuses; 130 interrupted before it was done, but cleanly.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import click

from hatwisted.cli.cluster.clusteraccount import credentials_of, credentials_option
from hatwisted.cli.cluster.clustertls import tls_of, tls_options
from hatwisted.cli.cluster.mistakes import Work, cannot, with_names
from hatwisted.cli.cluster.namesrvoption import namesrv_option
from hatwisted.cli.cluster.remarks import with_remarks
from hatwisted.cli.errors import EXIT_INTERRUPTED, EXIT_OK, CannotRun
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.errors import ClientError

CHUNK: Final = 64 * 1024
"""Bytes read from standard input at once."""
LONGEST_LINE: Final = 96 << 20
"""Bytes of a line of standard input: JSON whose escapes, of six bytes each, make the 16 MiB that a broker takes at
once. Of an input without a line end no more than this is kept."""


class Interrupt:
    """`requested`: was Ctrl-C pressed?"""

    def __init__(self) -> None:
        self.requested = False
        self._listeners: list[Callable[[], object]] = []

    def on_request(self, listener: Callable[[], object]) -> None:
        """Call `listener` when it is, in the reactor's thread."""
        self._listeners.append(listener)

    def request(self) -> None:
        """Ask the command to finish cleanly."""
        if not self.requested:
            self.requested = True
            for listener in self._listeners:
                listener()


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which cluster, and how to reach it."""
    return namesrv_option(credentials_option(tls_options(command)))


Runner = Callable[[str, Work], int]


def run(namesrv: str, work: Work) -> int:
    """Run `work` with a cluster link and give its exit code. Expected errors become CannotRun.

    A program whose reactor already runs gives the commands a Runner as the context's object.
    """
    runner: Runner = click.get_current_context().obj or run_reactor
    return runner(namesrv, with_remarks(with_names(work)))


def run_reactor(namesrv: str, work: Work) -> int:
    """The Runner of a process that does nothing else: runs the reactor until the work is done. How connections are
    encrypted is the present command's."""
    from twisted.internet import reactor as installed
    from twisted.internet.defer import Deferred

    reactor: Any = installed
    try:
        context = click.get_current_context()
        cluster = Cluster(reactor, namesrv, credentials=credentials_of(context), tls=tls_of(context))
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
        # Work that is cut off by the end of the reactor has no outcome of its own.
        if not ended:
            ended.append(outcome)
            reactor.stop()

    with _signals(reactor, interrupt, lambda: end(EXIT_INTERRUPTED)):
        reactor.callWhenRunning(begin)
        reactor.run(installSignalHandlers=False)
    return exit_code(ended[0] if ended else EXIT_INTERRUPTED)


def exit_code(outcome: Any) -> int:
    """The exit code of a result or of a Failure; expected errors become CannotRun."""
    if isinstance(outcome, int):
        return outcome
    error = outcome.value
    if isinstance(error, ClientError):
        raise cannot(error) from error
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
        again = self._interrupt.requested
        self._reactor.callFromThread(self._end if again else self._interrupt.request)


class InputLines:
    """Standard input line by line, without blocking the reactor and without reading far ahead.

    A thread reads one chunk whenever one is asked for; it's a daemon, so that a terminal at which nobody types
    doesn't keep the process alive. Rejected: the reactor's own reader, which epoll refuses for files.
    """

    def __init__(self, reactor: Any) -> None:
        if sys.stdin is None:
            raise CannotRun("standard input is closed: pipe lines into it, or use < FILE")
        self._reactor = reactor
        self._descriptor = sys.stdin.fileno()
        self._rest: list[bytes] = []
        """Of a line whose end hasn't come yet."""
        self._length = 0
        self._skipping = False
        """Is the rest of a line that was too long on its way?"""

    async def chunk(self) -> list[bytes | None] | None:
        """The next whole lines, without their ends; for one longer than LONGEST_LINE, which is skipped, None. None
        at the end of the input."""
        while True:
            data = await self._read()
            if not data:
                return [self._line(b"")] if self._rest else None
            *ends, rest = data.split(b"\n")
            lines: list[bytes | None] = []
            for end in ends:
                if self._skipping:
                    self._skipping = False
                else:
                    lines.append(self._line(end).removesuffix(b"\r"))
            if self._is_too_long(rest):
                lines.append(None)
            if lines:
                return lines

    def _line(self, end: bytes) -> bytes:
        line = b"".join((*self._rest, end))
        self._rest.clear()
        self._length = 0
        return line

    def _is_too_long(self, part: bytes) -> bool:
        """Keep this part of a line, unless it has become too long with it."""
        if self._skipping or not part:
            return False
        self._rest.append(part)
        self._length += len(part)
        if self._length > LONGEST_LINE:
            self._line(b"")
            self._skipping = True
        return self._skipping

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
        self._reactor.callFromThread(result.callback, data)
