"""The time that a server runs by: the system's, but without its steps.

A reactor keeps timers by the system clock. Set that back an hour, and for an hour nothing is due: no heartbeat
is sent, no put that waits for its slave times out, nothing is flushed. Set it forward, and everything is due
at once. So the reactor is given a clock that runs evenly, as the monotonic one does, and *follows* the system
clock: after a step it runs faster or slower until both agree. Store times come from the same clock, so they
never run backwards, and are right again after a while.

How much faster or slower is limited by what a peer with a correct clock expects: a heartbeat that is due every 5 s
has to come within 20 s, a registration every 30 s within 120 s, ours and theirs alike.

Rejected: shifting pending timers when a step is noticed (a time noted earlier would still be wrong), and a
monotonic clock in addition to the system's (two kinds of seconds in every module, easily confused).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.logger import Logger

from hatwisted.timing.periodic import PeriodicCall

FOLLOW_INTERVAL = 1.0
"""Seconds between two looks at the system clock."""

SLOWEST, FASTEST = 0.5, 3.0
"""Rates while following: heartbeats come every 10 s at worst, and silence is noticed after 7 s at the soonest."""

LEAP = 3600.0
"""Seconds by which the system clock may be ahead before this one jumps to it: the machine was asleep, or its clock
was wrong until now."""

LEAP_PROOF = 60.0
"""Seconds that such a lead has to last. A clock that is a hundred days ahead for a moment would leave this one a
hundred days ahead, for it can't go back."""

LONGEST_WAIT = 24 * 3600.0
"""Seconds by which this clock may be ahead and still wait for the system's. Further ahead it goes on at its own
pace: every timer would take twice as long, for months."""

WORTH_TELLING = 1.0
"""Seconds of a step that are worth a line in the log."""


class SteadyTime:
    """Seconds since the epoch that never run backwards. monotonic, wall: the system's two clocks."""

    _log = Logger()

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._anchor = monotonic()
        self._base = wall()
        self._rate = 1.0
        self._following = False
        self._led_since: float | None = None
        """Monotonic seconds since when the system clock is a leap ahead."""
        self._lead = 0.0

    def seconds(self) -> float:
        """The time now."""
        return self._base + (self._monotonic() - self._anchor) * self._rate

    def follow(self) -> None:
        """Look at the system clock, and choose the rate until the next look in `FOLLOW_INTERVAL`."""
        now = self.seconds()
        behind = self._believed(self._wall() - now)
        if behind > LEAP:
            self._log.warn(
                "the system clock is {step:.0f} s ahead: timers and store times jump with it", step=behind
            )
            now, behind = now + behind, 0.0
        self._anchor, self._base = self._monotonic(), now
        waits = behind >= -LONGEST_WAIT
        self._rate = min(FASTEST, max(SLOWEST, 1.0 + behind / FOLLOW_INTERVAL)) if waits else 1.0
        self._log_step(behind)

    def _believed(self, behind: float) -> float:
        """How far behind the system clock we are, a leap of it left out until it has lasted."""
        if behind > LEAP:
            self._lead = behind
            if self._led_since is None:
                self._led_since = self._monotonic()
            if self._monotonic() - self._led_since < LEAP_PROOF:
                return 0.0
        elif self._led_since is not None:
            self._log.warn(
                "the system clock was {step:.0f} s ahead for {lasted:.0f} s: ignored",
                step=self._lead,
                lasted=self._monotonic() - self._led_since,
            )
        self._led_since = None
        return behind

    def _log_step(self, behind: float) -> None:
        if self._following:
            self._following = abs(behind) > FOLLOW_INTERVAL / 10
        elif abs(behind) > WORTH_TELLING:
            self._following = True
            if behind < -LONGEST_WAIT:
                self._log.warn(
                    "the system clock was set back by {step:.0f} s: timers and store times don't "
                    "wait for it, "
                    "and stay ahead until a restart",
                    step=-behind,
                )
                return
            self._log.warn(
                "the system clock was set {way} by {step:.0f} s: timers and store times follow in "
                "{takes:.0f} s",
                way="forward" if behind > 0 else "back",
                step=abs(behind),
                takes=abs(behind) / (FASTEST - 1 if behind > 0 else 1 - SLOWEST),
            )


class SteadyTimeService(Service):
    """Gives a reactor steady time from the start on. Not taken back by a stop: what is still to be done then is
    done by timers too."""

    name = "steady-time"

    def __init__(self, reactor: Any, steady: SteadyTime) -> None:
        self._reactor = reactor
        self._steady = steady
        self._loop = PeriodicCall(reactor, "following the system clock", self._steady.follow)

    def startService(self) -> None:
        super().startService()
        self._reactor.seconds = self._steady.seconds
        self._loop.start(FOLLOW_INTERVAL, now=True)

    def stopService(self) -> None:
        super().stopService()
        self._loop.stop()
