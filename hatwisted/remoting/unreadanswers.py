"""Memory of answers that clients haven't read, over all ports of a process.

What the kernel doesn't take of an answer waits here, and an answer may have 12 MiB: a stranger with a thousand
connections that read nothing would fill the process with a request on each. So whoever leaves most unread is
closed when there is too much, of the address that leaves most together: honest clients read as fast as they can.

How much a connection's client has left is looked at when something is written to it, and once more before anybody
is closed: reading tells nobody.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from twisted.internet.interfaces import ITransport

from hatwisted.remoting.eagerwrite import drop_unsent, unsent
from hatwisted.remoting.sharedroom import Beside, nothing_beside, room
from hatwisted.wire.networks import counted_as

MAX_UNREAD_BYTES = 64 << 20
"""Bytes over all connections of a process, beside what the kernel holds of each (`maxUnreadAnswerBytes`)."""

_LEFT: Final = 0.75
"""Of that, once it was too much: so that not every further answer has all connections looked at."""


class Reader(Protocol):
    """A connection. address: its client's; transport: what its answers are written to."""

    address: str
    transport: ITransport | None

    def reject(self, reason: str) -> None:
        """Close at once, and tell the log why."""


class UnreadAnswers:
    """Who leaves how much. Invariant: `total` is the sum of what was seen last, at most `most` between two
    calls.

    beside: what incomplete frames take.
    """

    def __init__(self, beside: Beside = nothing_beside) -> None:
        self._beside = beside
        self.most = MAX_UNREAD_BYTES
        """Bytes of all of them."""
        self.total = 0
        """Bytes, some of which may have been read meanwhile."""
        self._left: dict[Reader, int] = {}

    def hold(self, reader: Reader, size: int) -> None:
        """`size` bytes wait for `reader` now; who leaves most is closed if that's too much."""
        self.forget(reader)
        if size:
            self._left[reader] = size
            self.total += size
            if self.total > (most := room(self.most, self._beside())):
                self._look(most)

    def forget(self, reader: Reader) -> None:
        """Nothing waits for it any more; idempotent."""
        self.total -= self._left.pop(reader, 0)

    def seen(self) -> int:
        """Look at all of them: bytes that wait now."""
        self._left = {reader: left for reader in self._left if (left := unsent(reader.transport))}
        self.total = sum(self._left.values())
        return self.total

    def _look(self, most: int) -> None:
        if self.seen() <= most * _LEFT:
            return
        addresses: Counter[str] = Counter()
        for reader, left in self._left.items():
            addresses[counted_as(reader.address)] += left
        readers = sorted(self._left, key=lambda each: (addresses[counted_as(each.address)], self._left[each]))
        while self.total > most * _LEFT:
            closed = readers.pop()
            self.forget(closed)
            closed.reject(f"answers that clients haven't read exceed {most} bytes")
            drop_unsent(closed.transport)
