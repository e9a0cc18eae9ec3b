"""What a supervisor such as systemd is told: that the server is ready, how it goes, that it's alive, that it reads
its configuration again, that it stops.

sd_notify(3) is a datagram of `NAME=value` lines for the socket that `NOTIFY_SOCKET` names. Without one nobody is
told. The status line follows the log's named events, so no room has to know that there is a supervisor, and a
recovery, during which the reactor doesn't run, is told of all the same. What keeps the watchdog quiet is the
reactor itself: a process whose reactor stands still serves nobody, and is started again.

Rejected: python-systemd, which has to be compiled against libsystemd for what is one sendto.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import ILogObserver, LogEvent, Logger, formatEvent, globalLogPublisher
from zope.interface import implementer

from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.printable import printable

SHOWN: Final = frozenset(
    (
        "broker.ready",
        "config.refused",
        "link.problem",
        "link.up",
        "names.ids",
        "namesrv.ready",
        "slave.copying",
        "slave.ids",
        "slave.lag",
        "slave.left",
        "slave.level",
        "slave.none",
        "slave.pairing",
        "slave.progress",
        "store.failed",
        "store.loaded",
        "store.recovering",
        "store.unsynced",
    )
)
"""Events that say how the server is: the last of them is its status."""
STATUS_LENGTH: Final = 200
"""Characters of a status line: `systemctl status` shows it in one."""
RECOVERY_SECONDS: Final = 120
"""That a start under way asks for with each line of its progress, of which there is one every 2 s. Tables are read
after the last one."""
SEND_SECONDS: Final = 1.0
"""That a datagram may wait for a supervisor that doesn't read: a READY that got lost would end the server."""

Send = Callable[[bytes], object]


@implementer(ILogObserver)
class Supervisor:
    """Who has started the server, and watches it.

    - send: gives it a datagram; None: there is nobody
    - clock: times the signs of life
    - watchdog: seconds without one after which the server counts as dead; None: it needs none
    - monotonic: the system's, in nanoseconds: what a reload is dated with
    """

    def __init__(
        self,
        send: Send | None,
        clock: IReactorTime,
        watchdog: float | None,
        monotonic: Callable[[], int],
    ) -> None:
        self._send = send
        self._watchdog = watchdog
        self._monotonic = monotonic
        self._alive = PeriodicCall(clock, "signs of life", lambda: self._tell("WATCHDOG=1"))
        self._clock = clock
        self._starting: IDelayedCall | None = None
        self._serving = False

    def starting(self) -> None:
        """Services are about to start: show what the log says of it."""
        if self._send is not None:
            globalLogPublisher.addObserver(self)

    def started(self) -> None:
        """They have: it's ready as soon as the reactor runs."""
        if self._send is not None:
            self._starting = self._clock.callLater(0, self.ready)

    def ready(self) -> None:
        """Clients are served. After a reload: what was to be read is."""
        self._tell("READY=1")
        self._serving = True
        if self._send is not None and self._watchdog is not None and not self._alive.running:
            # Half of the time: one sign may be late.
            self._alive.start(self._watchdog / 2, now=True)

    def reloading(self) -> None:
        """The configuration is being read again; `ready` ends that."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={self._monotonic() // 1000}")

    def stopping(self) -> None:
        """The orderly stop begins; idempotent."""
        if self._starting is not None and self._starting.active():
            self._starting.cancel()
        self._tell("STOPPING=1", "STATUS=stopping")
        self._serving = False
        self._alive.stop()
        globalLogPublisher.removeObserver(self)

    def __call__(self, event: LogEvent) -> None:
        """See ILogObserver."""
        name = event.get("event")
        if name not in SHOWN:
            return
        lines = [f"STATUS={printable(formatEvent(event))[:STATUS_LENGTH]}"]
        if not self._serving:
            lines.append(f"EXTEND_TIMEOUT_USEC={RECOVERY_SECONDS * 1_000_000}")
        self._tell(*lines)

    def _tell(self, *lines: str) -> None:
        if self._send is not None:
            self._send("\n".join(lines).encode())


class NotifySocket:
    """The supervisor's socket. path: from NOTIFY_SOCKET; one that begins with @ is in Linux's abstract names."""

    _log = Logger()

    def __init__(self, path: str) -> None:
        self._path = path
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._reached = True

    def send(self, datagram: bytes) -> None:
        """Give it one. The log says once that it can't be reached: that keeps nobody from serving."""
        try:
            # One for each: the log is written from several threads, and there are a few datagrams a minute.
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.settimeout(SEND_SECONDS)
                out.sendto(datagram, self._address)
        except OSError as error:
            if self._reached:
                self._reached = False
                self._log.warn(
                    "the supervisor at NOTIFY_SOCKET={path} can't be told: {error}",
                    path=self._path,
                    error=error.strerror or str(error),
                )


def supervisor(
    environ: Mapping[str, str], clock: IReactorTime, monotonic: Callable[[], int], process_id: int
) -> Supervisor:
    """The one that `environ` names.

    - environ: of the process
    - clock, monotonic: as in Supervisor
    - process_id: of this process: a watchdog may be meant for another, whose environment this is
    """
    path = environ.get("NOTIFY_SOCKET")
    return Supervisor(
        NotifySocket(path).send if path else None, clock, watchdog_seconds(environ, process_id), monotonic
    )


def watchdog_seconds(environ: Mapping[str, str], process_id: int) -> float | None:
    """Seconds without a sign of life after which the supervisor ends this process; None: it doesn't watch.

    - environ: WATCHDOG_USEC and WATCHDOG_PID are in it
    - process_id: of this process
    """
    if environ.get("WATCHDOG_PID", str(process_id)) != str(process_id):
        return None
    with suppress(ValueError):
        microseconds = int(environ.get("WATCHDOG_USEC", ""))
        return microseconds / 1_000_000 if microseconds > 0 else None
    return None
