"""How fast bytes flow over one HA link, as RocketMQ's FlowMonitor measures it: bytes of the last second."""

from __future__ import annotations

SECOND = 1.0
"""Seconds that a rate is taken over, at the least: the links are looked at about as often."""


class TransferRate:
    """Bytes per second between the last two looks. now: clock seconds at the link's start."""

    __slots__ = ("_sampled_at", "_sampled_total", "per_second", "total")

    def __init__(self, now: float) -> None:
        self._sampled_at = now
        self._sampled_total = 0
        self.total = 0
        """Bytes since the link's start; whoever moves them adds to it."""
        self.per_second = 0

    def sample(self, now: float) -> None:
        """Look at the total; a look too soon after the last one changes nothing."""
        seconds = now - self._sampled_at
        if seconds >= SECOND:
            self.per_second = int((self.total - self._sampled_total) / seconds)
            self._sampled_at, self._sampled_total = now, self.total
