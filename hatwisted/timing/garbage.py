"""When Python looks for garbage in cycles, and how long a server stands still for that.

Python looks at every container there is, now and then, and a broker with thousands of topics has hundreds of
thousands of them, which hardly ever are garbage: that takes hundreds of milliseconds, in which no request is
answered. So what took long to look at is frozen at once, when Python tells that it has looked: its next look is at
what came since.

What is frozen and becomes a cycle of garbage later would stay for ever. So once there is twice as much of it as
when all of it was looked at last, all of it is looked at again. That bounds what such garbage takes, and a server
whose tables grow a hundredfold stands still for it seven times in all. It's done between two turns of the loop: in
the middle of one there may be much that is gone at its end.

Python 3.14's own looks are in small steps: nothing more is frozen there than what the start has made.

Rejected: no collection at all (a cycle that a client can have made costs memory without a bound), all of it at an
interval (the same quiet tables again and again), and freezing after each look (what is alive for moments would be
frozen each time).
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime

from hatwisted.timing.periodic import PeriodicCall

THRESHOLDS: Final = (700, 10, 1)
"""Containers more than at the last look; looks until older ones are looked at, too; and until all that isn't
frozen is: 15,000 at least, which take some 7 ms."""

LONG: Final = 0.002
"""Seconds that a look at all that isn't frozen may take without being frozen then."""

ALL: Final = 2
"""The generation with which all that isn't frozen is looked at."""

INTERVAL: Final = 1.0
"""Seconds until it's seen whether what is frozen has doubled."""


@dataclass
class Pauses:
    """For which a process has stood still to look for garbage, in seconds."""

    longest: float = 0.0
    total: float = 0.0


class GarbageCollection(Service):
    """This process's, while it runs: start it when all is loaded that its server begins with.

    - clock: tells how long a look takes
    - pauses: what counts that; the start's look isn't counted
    """

    name = "garbage"

    def __init__(self, clock: IReactorTime, pauses: Pauses) -> None:
        self._clock = clock
        self._pauses = pauses
        self._before = THRESHOLDS
        self._began = self._cost = self._since = 0.0
        self._frozen = 0
        self._round = PeriodicCall(clock, "looking for frozen garbage", self._look_if_doubled)

    def startService(self) -> None:
        super().startService()
        self._before = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)
        self._look_at_all()
        gc.callbacks.append(self._noted)
        self._round.start(INTERVAL)

    def stopService(self) -> None:
        if not self.running:
            return  # what should have been loaded wasn't
        super().stopService()
        self._round.stop()
        gc.callbacks.remove(self._noted)
        gc.unfreeze()
        gc.set_threshold(*self._before)

    def _noted(self, phase: str, info: dict[str, int]) -> None:
        """Python begins to look, or has looked."""
        if phase == "start":
            self._began = self._clock.seconds()
            return
        took = self._clock.seconds() - self._began
        self._pauses.longest = max(self._pauses.longest, took)
        self._pauses.total += took
        if info["generation"] == ALL and took > LONG:
            gc.freeze()
            self._since += took

    def _look_if_doubled(self) -> None:
        """What is frozen is counted, for a tenth of what a look at it takes, once looks at what came to it have
        taken as long together as one at all of it."""
        if self._since >= self._cost:
            self._since = 0.0
            if gc.get_freeze_count() >= 2 * self._frozen:
                self._look_at_all()

    def _look_at_all(self) -> None:
        began = self._clock.seconds()
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._cost, self._since = self._clock.seconds() - began, 0.0
        self._frozen = gc.get_freeze_count()
        gc.collect()  # of nothing: until a quarter of what it saw last has come, Python doesn't look at all again
