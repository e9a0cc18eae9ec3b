"""How long requests keep the loop busy before everybody else has a turn.

One read may bring a thousand requests, and one request may take 20 ms. So each connection works through its
requests for `QUANTUM` at most and puts off the rest; those that have a rest take turns, and all of them together
get `SLICE` of each round of the loop. The turns go round by address, and an address's by connection, in the order
in which they came. A client with one cheap request waits for a quantum, or one dear request, of each of the other
addresses: not for all that they have asked, nor the longer the more connections they have. Meanwhile nothing is
read from who waits.

Requests that are taken as batches (sends) aren't counted for their connection: one read of them is one append. All
of them together get `SENDS_SLICE` of a round, beyond which reads of sends take turns like the rest: a hundred
connections that pipeline large batches put half a second's work before an honest client's message otherwise, and
where no put waits for a slave, no window (`sendwindows`) holds them up.

Rejected: threads (state without locks is what all else here rests on), and a price for each request code (what a
request costs depends on the store).
"""

from __future__ import annotations

from typing import Protocol

from twisted.internet.interfaces import IReactorTime

from hatwisted.timing.rotation import Rotation
from hatwisted.timing.timer import GuardedTimer
from hatwisted.wire.networks import counted_as

QUANTUM = 0.002
"""Seconds of one connection's requests in a row; one request more is begun within them."""

SLICE = 0.005
"""Seconds of all connections' requests in one round of the loop."""

SENDS_SLICE = 0.01
"""Seconds of all connections' sends in one round; no read of them more is begun unless there is as much left as
the longest one has taken. More than a read of each of eight producers with full pipelines takes: turns cost a
little, which is lost where nobody else waits."""

UNCOUNTED = 0.0005
"""Seconds of all of them together: less isn't worth the timer that ends the slice."""

RETRY = 0.1
"""Seconds until the next turn after one that failed."""


class Waiter(Protocol):
    """Who has requests left. address: the client's host."""

    address: str

    def go_on(self) -> None:
        """Work for a quantum; ask for another turn if that wasn't enough."""


class RequestTurns:
    """One port's. clock: measures, and ends the slice."""

    def __init__(self, clock: IReactorTime) -> None:
        self.seconds = clock.seconds
        self.sends_full = False
        """Do further sends have to wait for the next round?"""
        self._waiting = Rotation[Waiter]()
        self._used = 0.0
        self._sending = self._longest_send = 0.0
        self._timer = GuardedTimer(clock, "working through put-off requests", self._turn, RETRY)

    @property
    def allowance(self) -> float:
        """Seconds that a connection may work now; none is left if 0 or less."""
        return min(QUANTUM, SLICE - self._used)

    def count(self, seconds: float) -> None:
        """A connection has worked for so long."""
        self._used += seconds
        if self._used > UNCOUNTED:
            self._schedule()

    def count_sends(self, seconds: float) -> None:
        """One read of sends has taken so long."""
        self._sending += seconds
        self._longest_send = max(self._longest_send, seconds)
        if self._sending >= SENDS_SLICE / 2:  # far from it, the timer that begins a new slice isn't worth it
            self.sends_full = self._sending + self._longest_send > SENDS_SLICE
            self._schedule()

    def wait(self, waiter: Waiter) -> None:
        """Have `waiter` go on when it's its turn."""
        self._waiting.add(counted_as(waiter.address), waiter)
        self._schedule()

    def forget(self, waiter: Waiter) -> None:
        """It has no requests left: what it holds besides them isn't kept until its turn. Idempotent."""
        self._waiting.discard(counted_as(waiter.address), waiter)

    def stop(self) -> None:
        """Nobody goes on any more."""
        self._waiting.clear()
        self._timer.cancel()

    def _schedule(self) -> None:
        if not self._timer.pending:
            self._timer.set(0)

    def _turn(self) -> None:
        self._used = self._sending = self._longest_send = 0.0
        self.sends_full = False
        for _ in range(len(self._waiting)):
            if self._used >= SLICE or self.sends_full or not self._waiting:
                break
            self._waiting.take().go_on()
        if self._waiting:
            self._schedule()
