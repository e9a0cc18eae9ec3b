"""The signals that a server takes beside Twisted's own.

SIGHUP reopens the log file and reads the configuration again, as daemons do; where the terminal has gone, which
it tells of by the same signal, the server stops in order. The first SIGTERM or SIGINT is Twisted's: an orderly
stop. A second one has that wait for nobody. Twisted would log it as a mistake, and a kill -9 lose what wasn't
synced.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

STOPPING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Takes them between `start` and `stop`.

    - reactor: runs what they ask for
    - reread: on SIGHUP
    - hasten: on the second signal to stop
    """

    _log = Logger()

    def __init__(self, reactor: Any, reread: Callable[[], object], hasten: Callable[[], object]) -> None:
        self._reactor = reactor
        self._reread = reread
        self._hasten = hasten
        self._ending = False
        self._on_terminal = os.isatty(2)
        self._before: dict[int, Any] = {}

    def start(self) -> None:
        """Take SIGHUP now, and those to stop once the reactor has put its own handlers in place."""
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        self._reactor.callWhenRunning(self._take_stopping)

    def stop(self) -> None:
        """Give SIGHUP back. Those to stop are kept: the stop is under way."""
        signal.signal(signal.SIGHUP, self._before.pop(signal.SIGHUP, signal.SIG_DFL))

    def _take_stopping(self) -> None:
        for number in STOPPING:
            self._before[number] = signal.getsignal(number)
            if callable(self._before[number]):
                signal.signal(number, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        if self._ending:
            self._reactor.callFromThread(self._hasten_now)
            return
        self._ending = True
        self._before[number](number, frame)

    def _hasten_now(self) -> None:
        self._log.warn("a second signal to stop: slaves aren't waited for", event="server.hastened")
        self._hasten()

    def _hang_up(self, number: int, frame: object) -> None:
        if self._on_terminal and not os.isatty(2):
            self._reactor.callFromThread(self._reactor.stop)
        else:
            self._reactor.callFromThread(self._reread)
