"""Pauses between two looks, which an interrupt ends."""

from __future__ import annotations

from typing import Any

from hatwisted.cli.cluster.clusterrun import Interrupt


class Pauses:
    """One after the other.

    clock: counts the seconds
    interrupt: ends the present one, and all that follow
    """

    def __init__(self, clock: Any, interrupt: Interrupt) -> None:
        self._clock = clock
        self._interrupt = interrupt
        self._end: Any = None
        interrupt.on_request(self._cut)

    def wait(self, seconds: float) -> Any:
        """A Deferred that fires after so long, or at the interrupt."""
        from twisted.internet.defer import Deferred, succeed

        if self._interrupt.requested:
            return succeed(None)
        over: Deferred[None] = Deferred()
        timer = self._clock.callLater(seconds, over.callback, None)

        def end() -> None:
            if timer.active():
                timer.cancel()
                over.callback(None)

        self._end = end
        return over

    def _cut(self) -> None:
        if self._end is not None:
            self._end()
