"""One slave's position in the master's stream: what it asked for, what was sent, what it acknowledged.

No I/O. A link begins in AWAITING_REPORT, runs through CATCH_UP (fed from the log) into LIVE (handed the fresh
bytes of every append) and falls back to CATCH_UP when the slave is slower than the producers. An offset that
the log doesn't hold ends in OFFSET_EXPIRED or OFFSET_AHEAD, from where the link only closes.

An offset is taken at its word only if it can be true: a first report within the log, a later one within what
this link was sent. RocketMQ counts any eight bytes as an acknowledgement; here they can't complete a put. Nor can
a first report: it says where the slave wants to go on, and what it has before that may be other bytes, of a log
whose tail this master has lost. A slave of ours compares what it's sent before it reports any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hatwisted.ha.errors import ImplausibleReport
from hatwisted.store.interfaces import IReplicatedLog
from hatwisted.wire.haframe import HaFirstSync

OFFSET_LIMIT: Final = 1 << 50
"""Bytes; no log grows to a pebibyte. A first report beyond it is garbage (any text or TLS greeting is), not a
slave that is ahead of its master."""


class LinkState(Enum):
    """State of a slave's link, as monitoring sees it."""

    AWAITING_REPORT = "awaiting first report"
    CATCH_UP = "catching up"
    LIVE = "live"
    OFFSET_EXPIRED = "offset expired"
    OFFSET_AHEAD = "offset ahead of the log"
    CLOSED = "closed"


_S = LinkState
TRANSITIONS: Final[Mapping[LinkState, frozenset[LinkState]]] = {
    _S.AWAITING_REPORT: frozenset({_S.CATCH_UP, _S.OFFSET_EXPIRED, _S.OFFSET_AHEAD, _S.CLOSED}),
    _S.CATCH_UP: frozenset({_S.LIVE, _S.OFFSET_EXPIRED, _S.CLOSED}),
    _S.LIVE: frozenset({_S.CATCH_UP, _S.CLOSED}),
    _S.OFFSET_EXPIRED: frozenset({_S.CLOSED}),
    _S.OFFSET_AHEAD: frozenset({_S.CLOSED}),
    _S.CLOSED: frozenset(),
}

TRANSFERRING: Final = frozenset({LinkState.CATCH_UP, LinkState.LIVE})
REFUSED: Final = frozenset({LinkState.OFFSET_EXPIRED, LinkState.OFFSET_AHEAD})


def start_offset(report: int, log: IReplicatedLog, first_sync: HaFirstSync) -> int:
    """The first byte to send to a slave.

    - report: its first one; 0: it has nothing
    - log: the master's
    - first_sync: where an empty slave starts
    """
    if report:
        return report
    if first_sync is HaFirstSync.MIN_OFFSET:
        return int(log.min_offset)
    return max(0, int(log.max_offset) - int(log.max_offset) % int(log.file_size))


class SendProgress:
    """Positions (bytes of the log) and state of one link.

    Invariants: next_offset <= log.max_offset; ack_offset <= max(request_offset, next_offset); in LIVE,
    next_offset is the log's end between two appends.
    """

    __slots__ = ("ack_offset", "next_offset", "request_offset", "since", "state")

    def __init__(self, now: float) -> None:
        self.state = LinkState.AWAITING_REPORT
        self.since = now
        """Clock seconds of the last change of state."""
        self.request_offset = -1
        """The first report; set once."""
        self.ack_offset = -1
        """The newest plausible report, -1 before the first."""
        self.next_offset = -1
        """First byte not yet given to the transport, -1 before the first report."""

    @property
    def reported(self) -> bool:
        """Has the slave said where to start, and was that accepted?"""
        return self.ack_offset >= 0

    @property
    def proved_offset(self) -> int:
        """What the slave has acknowledged of all that it was sent on this link; -1: nothing yet."""
        return self.ack_offset if self.ack_offset > self.request_offset else -1

    def move(self, state: LinkState, now: float) -> None:
        """Change state; an edge that the table doesn't have is our mistake."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"HA link can't go from {self.state.name} to {state.name}")
        self.state = state
        self.since = now

    def first_report(self, offset: int, log: IReplicatedLog, first_sync: HaFirstSync, now: float) -> None:
        """Settle where to start, or why not. Raises ImplausibleReport for garbage.

        - offset: the slave's first report
        - log: the master's
        - first_sync: where an empty slave starts
        - now: clock seconds
        """
        if not 0 <= offset < OFFSET_LIMIT:
            raise ImplausibleReport(
                offset, "no slave of ours can have sent that; this port is for HA slaves only"
            )
        self.request_offset = offset
        if offset > log.max_offset:
            self.move(LinkState.OFFSET_AHEAD, now)
        elif 0 < offset < log.min_offset:
            self.move(LinkState.OFFSET_EXPIRED, now)
        else:
            self.ack_offset = offset
            self.next_offset = start_offset(offset, log, first_sync)
            self.move(LinkState.CATCH_UP, now)

    def acknowledge(self, offset: int) -> None:
        """A later report: stored up to `offset`. Raises ImplausibleReport if that was never sent here."""
        if offset < 0 or offset > self.next_offset:
            raise ImplausibleReport(offset, f"this link was sent the log up to {self.next_offset} only")
        self.ack_offset = offset

    def sent(self, start: int, size: int) -> None:
        """Log bytes [start, start + size) were handed to the transport."""
        assert start == self.next_offset, f"bytes of {start} sent where {self.next_offset} was due"
        self.next_offset += size


@dataclass(frozen=True)
class SlaveStatus:
    """One slave's link for monitoring; offsets and lag in bytes of the log, times in clock seconds."""

    address: str
    name: str | None
    """Whom its certificate names; None if it has shown none."""
    state: str
    since: float
    ack_offset: int
    sent_offset: int
    lag_bytes: int
    last_report: float
    last_write: float
    sent_per_second: int
    """Bytes of frames in the last second."""
