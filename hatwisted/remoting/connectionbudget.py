"""How many connections a process may have open, over all its ports, how many of them one address, and how much
memory all of them together.

Connections without an end take descriptors from the files of the store: so there are as many as the process's
limit leaves room for beside them. One address (of IPv6, one network of 64 bits) gets half of them at most, so that
no host locks all others out.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from hatwisted.remoting.partialframes import PartialFrames
from hatwisted.remoting.sendwindows import SendWindows
from hatwisted.remoting.unreadanswers import UnreadAnswers
from hatwisted.wire.networks import counted_as

UNLIMITED: Final = 1 << 20
"""Connections, where a process has descriptors enough."""


class ConnectionBudget:
    """One process's. Invariant: `open` is the sum over all addresses, at most `most`."""

    def __init__(self, most: int = UNLIMITED) -> None:
        self.most = most
        """Connections of all ports together."""
        self.open = 0
        self.partial = PartialFrames(lambda: self.unread.total)
        self.unread = UnreadAnswers(lambda: self.partial.total)
        self.windows = SendWindows()
        self._of_address: Counter[str] = Counter()

    def take(self, address: str, most_of_address: int | None = None) -> str | None:
        """Count a new connection; if there are too many already, say so and don't.

        - address: the client's
        - most_of_address: how many it may have; None: half of all
        """
        if self.open >= self.most:
            return f"{self.most} connections are open on all ports"
        address = counted_as(address)
        most = self.most // 2 if most_of_address is None else most_of_address
        if self._of_address.get(address, 0) >= most:
            whose = "network" if "/" in address else "address"
            return f"its {whose} has {most} connections open"
        self._of_address[address] += 1
        self.open += 1
        return None

    def give_back(self, address: str) -> None:
        """One that was counted is gone."""
        address = counted_as(address)
        self.open -= 1
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
