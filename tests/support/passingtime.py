"""Time that passes from one due call to the next, as fast as the calls are done: waiting on a `task.Clock`."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

PATIENCE = 300.0
"""Seconds of the clock's that something may take: longer than any interval of brokers and clients."""


def pass_until(clock: Clock, waited: Deferred[Any], seconds: float = PATIENCE) -> Deferred[Any]:
    """`waited`, once it has fired. AssertionError if it doesn't within so many seconds of the clock's."""
    over = clock.seconds() + seconds
    while not waited.called or waited.paused:
        due = min((call.getTime() for call in clock.getDelayedCalls()), default=over)
        assert due < over, f"nothing came of {waited} in {seconds:g} s"
        clock.advance(max(0.0, due - clock.seconds()))
    return waited
