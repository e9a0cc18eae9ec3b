"""Handshakes under way on one port: bounded in time and number, and counted.

A handshake costs us a signature, and its peer nothing but a few bytes. So newcomers take turns (as requests do,
see `remoting.requestturns`), and if too many are under way, the oldest of the host that has most of them goes:
whoever is honest needs a few milliseconds, so it's one that hangs, and nobody else's.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from hatwisted.remoting.requestturns import RequestTurns
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.networks import counted_as

HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds for a handshake (RocketMQ, by way of Netty: 10 s)."""
MAX_HANDSHAKES: Final = 1_000
"""Handshakes under way on a port; about 50 KiB each."""


class HandshakeUnderWay(Protocol):
    """A connection that isn't encrypted yet. address: the client's host."""

    address: str

    def give_up(self, reason: str) -> None:
        """Close at once."""


class Handshakes:
    """Those of one port. clock: ends them, and measures their turns."""

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self.turns = RequestTurns(clock)
        self.completed_total = 0
        self.failed_total = 0
        self._clock = clock
        self._throttle = LogThrottle(clock)
        self._timers: dict[HandshakeUnderWay, IDelayedCall] = {}

    @property
    def under_way(self) -> int:
        """How many there are."""
        return len(self._timers)

    def holds(self, one: HandshakeUnderWay) -> bool:
        """Is it under way?"""
        return one in self._timers

    def begin(self, one: HandshakeUnderWay) -> None:
        """From here on its time runs. A second call changes nothing."""
        if one in self._timers:
            return
        if len(self._timers) >= MAX_HANDSHAKES:
            ((host, held),) = Counter(counted_as(each.address) for each in self._timers).most_common(1)
            oldest = next(each for each in self._timers if counted_as(each.address) == host)
            oldest.give_up(
                f"{MAX_HANDSHAKES} handshakes are under way, {held} of its host's; it's the oldest"
            )
            self.end(oldest)
        timeout = f"not done within {HANDSHAKE_TIMEOUT:g} s"
        self._timers[one] = self._clock.callLater(HANDSHAKE_TIMEOUT, one.give_up, timeout)

    def end(self, one: HandshakeUnderWay) -> None:
        """It's over, one way or the other; idempotent."""
        timer = self._timers.pop(one, None)
        if timer is not None and timer.active():
            timer.cancel()

    def failed(self, peer: str, reason: str) -> None:
        """Count it, and tell the log; one line a minute for each host. peer: "host:port"."""
        self.failed_total += 1
        left_out = self._throttle.admit(peer.rpartition(":")[0])
        if left_out is not None:
            self._log.warn(
                "TLS with {peer}: {reason}{more}", peer=peer, reason=reason, more=more_like_it(left_out)
            )

    def stop(self) -> None:
        """The port is closed: those under way end with their connections."""
        self.turns.stop()
        for one in list(self._timers):
            one.give_up("the port is closed")
            self.end(one)
