"""What a slave finds out in its first seconds, told where its operator is looking.

Whether a slave can copy its master shows once it has asked it, which is after the fork: the log has it then, and
the operator of a daemon has the prompt back and no word. So the terminal is kept until the slave copies, or says
why it doesn't, or for PATIENCE seconds; whoever waits for the end of its output waits as long.

Rejected: asking the master before the fork, which would ask everything twice, and delay each start while a master
is silent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import ILogObserver, LogPublisher, formatEvent
from zope.interface import implementer

PATIENCE: Final = 5.0
"""Seconds: the name server is asked, the master dialled and asked for its configuration, which takes one."""
MOST_LINES: Final = 5
SHOWN: Final = frozenset(("link.problem", "slave.pairing"))
"""Events of the log that the operator is to see."""
SETTLED: Final = {"slave.copying": 0.0, "slave.level": 0.0, "link.problem": 0.5}
"""Events after which there is nothing more to see, or only what follows within so many seconds."""


@implementer(ILogObserver)
class StartWatch:
    """Watches the log: calling it is an event.

    - publisher: of the log's events
    - clock: counts the seconds
    - tell: shows a line
    - done: called at the end
    """

    def __init__(
        self,
        publisher: LogPublisher,
        clock: IReactorTime,
        tell: Callable[[str], object],
        done: Callable[[], object],
    ) -> None:
        self._publisher = publisher
        self._clock = clock
        self._tell = tell
        self._done = done
        self._lines = 0
        self._timer: IDelayedCall | None = None

    def start(self) -> None:
        """From now on."""
        self._publisher.addObserver(self)
        self._timer = self._clock.callLater(PATIENCE, self.stop)

    def stop(self) -> None:
        """No more; idempotent."""
        if self._timer is None:
            return
        if self._timer.active():
            self._timer.cancel()
        self._timer = None
        self._publisher.removeObserver(self)
        self._done()

    def __call__(self, event: Any) -> None:
        name = event.get("event")
        if name in SHOWN and self._lines < MOST_LINES:
            self._lines += 1
            self._tell(formatEvent(event))
        if name in SETTLED and self._timer is not None and self._timer.active():
            # Not now: a publisher goes through its observers, and would leave out the next one.
            left = self._timer.getTime() - self._clock.seconds()
            self._timer.reset(max(0.0, min(left, SETTLED[name])))
