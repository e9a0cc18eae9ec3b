"""States of the dialling side as a table, and how long to wait before dialling again.

No I/O. A problem state (CONFIG_MISMATCH, OFFSET_MISMATCH, MASTER_LACKS_OFFSET, STORE_FULL, STORE_FAILED) outlives
its link: it stays visible until the next attempt. How soon that comes depends on whether waiting can cure it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

FIRST_RETRY = 0.1
"""Seconds before the first retry of a link that never worked; doubled up to RETRY_LIMIT."""

RETRY_LIMIT = 5.0
"""Seconds: RocketMQ's pause after a failed connect, here the longest one."""

SLOW_RETRY = 30.0
"""Seconds between attempts that most likely need an operator first: the two logs don't fit together."""

STORE_RETRY = 5.0
"""Seconds between attempts of a slave whose store takes nothing; each one costs the master what it sends."""

HEALTHY_AFTER = 1.0
"""Seconds a link must have worked to be re-dialled at once when lost; below it a link that breaks again and
again would be dialled in a tight loop."""


class SlaveState(Enum):
    """The slave's state, as monitoring sees it."""

    STOPPED = "stopped"
    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    TRANSFER = "transfer"
    CONFIG_MISMATCH = "config mismatch"
    OFFSET_MISMATCH = "offset mismatch"
    MASTER_LACKS_OFFSET = "master lacks offset"
    STORE_FULL = "store full"
    STORE_FAILED = "store failed"


class SlaveEvent(Enum):
    """What moves it."""

    START = "start"
    DIAL = "dial"
    CONNECT = "connected"
    OBJECT = "configurations don't fit together"
    LOSE = "link lost or not established"
    MISMATCH = "frame doesn't continue our log"
    LACK = "our offset isn't in the master's log"
    FULL = "no room in our store"
    FAIL = "our store failed"
    STOP = "stop"


_S, _E = SlaveState, SlaveEvent
_RETRY = {_E.DIAL: _S.CONNECTING, _E.STOP: _S.STOPPED}

TRANSITIONS: Final[Mapping[SlaveState, Mapping[SlaveEvent, SlaveState]]] = {
    _S.STOPPED: {_E.START: _S.DISCONNECTED, _E.LOSE: _S.STOPPED, _E.STOP: _S.STOPPED},
    _S.DISCONNECTED: _RETRY,
    _S.CONNECTING: {_E.CONNECT: _S.TRANSFER, _E.LOSE: _S.DISCONNECTED, _E.STOP: _S.STOPPED},
    _S.TRANSFER: {
        _E.LOSE: _S.DISCONNECTED,
        _E.OBJECT: _S.CONFIG_MISMATCH,
        _E.MISMATCH: _S.OFFSET_MISMATCH,
        _E.LACK: _S.MASTER_LACKS_OFFSET,
        _E.FULL: _S.STORE_FULL,
        _E.FAIL: _S.STORE_FAILED,
        _E.STOP: _S.STOPPED,
    },
    _S.CONFIG_MISMATCH: {**_RETRY, _E.LOSE: _S.CONFIG_MISMATCH},
    _S.OFFSET_MISMATCH: {**_RETRY, _E.LOSE: _S.OFFSET_MISMATCH},
    _S.MASTER_LACKS_OFFSET: {**_RETRY, _E.LOSE: _S.MASTER_LACKS_OFFSET},
    _S.STORE_FULL: {**_RETRY, _E.LOSE: _S.STORE_FULL},
    _S.STORE_FAILED: {**_RETRY, _E.LOSE: _S.STORE_FAILED},
}


class StateBox:
    """The state, since when, and the only way to change it."""

    def __init__(self, now: float) -> None:
        self.state = SlaveState.STOPPED
        self.since = now
        """Clock seconds of the last change."""

    def on(self, event: SlaveEvent, now: float) -> None:
        """Follow the table; an event that it doesn't have there is our mistake."""
        state = TRANSITIONS[self.state].get(event)
        if state is None:
            raise AssertionError(f"HA slave met {event.name} in state {self.state.name}")
        if state is not self.state:
            self.state = state
            self.since = now


@dataclass(frozen=True)
class HAClientStatus:
    """The slave's link for monitoring; offsets in bytes of the log, times in clock seconds."""

    state: str
    since: float
    problem: str
    """What went wrong last; empty as soon as a frame was accepted again."""
    master_address: str | None
    """The address to dial next; a living link may still go to an earlier one."""
    max_offset: int
    flushed_offset: int
    reported_offset: int
    """Newest acknowledgement on the present link, -1 without one."""
    last_read: float
    last_write: float
    """When the last report left; 0 without a link, as `last_read`."""
    received_per_second: int
    """Bytes read in the last second."""
    connects_total: int
    retry_at: float | None
    suspect_from: int | None
    """Our log was once ahead of the master's, which ended here: bytes from here on may differ from the
    master's. Cleared by a restart only."""


class Backoff:
    """Waits before dialling again, jittered so that a master's slaves don't come back all at once."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = FIRST_RETRY

    def after(self, state: SlaveState, healthy: bool, progressed: bool) -> float:
        """Seconds to wait before the next attempt.

        - state: at the end of the last link or attempt
        - healthy: it had worked for a while
        - progressed: it had taken a frame, so that even a mismatch is more likely a hiccup than two logs that
          don't match
        """
        if healthy:
            self._next = FIRST_RETRY
        if state is SlaveState.STORE_FULL or state is SlaveState.STORE_FAILED:
            return self._jitter(STORE_RETRY)
        if state in (SlaveState.CONFIG_MISMATCH, SlaveState.MASTER_LACKS_OFFSET) or (
            state is SlaveState.OFFSET_MISMATCH and not progressed
        ):
            return self._jitter(SLOW_RETRY)
        if healthy:
            return 0.0
        wait, self._next = self._next, min(RETRY_LIMIT, self._next * 2)
        return self._jitter(wait)

    def _jitter(self, wait: float) -> float:
        return wait * self._random.uniform(0.5, 1.0)
