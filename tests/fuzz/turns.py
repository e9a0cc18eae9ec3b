"""How long a server behind a port keeps the loop in one turn: what others have to wait for.

What a client sends is worked on in many turns, between which everybody else has theirs. So of a server it isn't
the whole input that counts: each read, and each call that a timer makes, is a turn of its own. Only measuring
looks at that; searches and replays have a clock that stands still, and come out the same each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock


class Turns:
    """The longest one since `longest` was set to 0. Clocks run with them once `measuring` is set. seconds: of the
    processor."""

    def __init__(self, seconds: Callable[[], float] = time.thread_time) -> None:
        self.seconds = seconds
        self.measuring = False
        self.longest = 0.0

    def take(self, call: Callable[..., object], *arguments: Any, **more: Any) -> None:
        """One turn."""
        began = self.seconds()
        try:
            call(*arguments, **more)
        finally:
            self.longest = max(self.longest, self.seconds() - began)


TURNS = Turns()
"""Of this process."""


class TurnClock(Clock):
    """Twisted's for tests. Where turns are measured, time passes as the processor works: a slice of it ends."""

    def __init__(self, turns: Turns = TURNS) -> None:
        super().__init__()
        self._turns = turns

    def seconds(self) -> float:
        """See Clock."""
        return self.rightNow + (self._turns.seconds() if self._turns.measuring else 0.0)

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kw: object
    ) -> IDelayedCall:
        """See Clock."""
        return super().callLater(delay, self._turns.take, callable, *args, **kw)
