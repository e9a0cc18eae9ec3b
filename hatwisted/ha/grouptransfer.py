"""Puts of a SYNC_MASTER that wait for their slave.

Every put has its own deadline, set when it was appended, and is released by the ack that covers it, in
log order; a mute slave can't delay a later put's answer. The waiting itself is `store.log.waitline.WaitLine`,
which group commit uses as well; this service bounds it and gives it the vocabulary of replication.

Rejected: RocketMQ's request list that a thread swaps and judges every 10 ms (adds those 10 ms to each put,
and before 4.9.3 judged one put after another, each with a full timeout of its own).
"""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.store.log.waitline import WaitLine
from hatwisted.timing.throttle import LogThrottle

MAX_WAITS = 250_000
"""Waits open at one time (each about 1 KiB, one per read of a producer's connection). A further one is
answered at once with how far replication has come, which its put reads as "not known to be on the slave"."""


class GroupTransferService:
    """Waits for the replicated offset.

    - clock: source of time
    - timeout: seconds a put waits for its slave (slaveTimeout or syncFlushTimeout). All waits share it, so
      deadlines rise in the order of the offsets, which is what makes one timer enough
    - max_waits: open at a time; further ones are answered at once
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime, timeout: float, max_waits: int = MAX_WAITS) -> None:
        self._clock = clock
        self._line = WaitLine(clock)
        self._max_waits = max_waits
        self._stopped = False
        self._overflows = LogThrottle(clock)
        self.timeout = timeout
        self.overflow_total = 0
        """Waits refused because MAX_WAITS were open."""

    def __len__(self) -> int:
        return len(self._line)

    @property
    def acked_offset(self) -> int:
        """Replicated up to here (bytes); never lowered."""
        return self._line.offset

    @property
    def expired_total(self) -> int:
        """Waits that met their deadline before the slave's ack."""
        return self._line.expired_total

    def wait(self, first_end: int, last_end: int, deadline: float | None = None) -> Deferred[int]:
        """Wait for puts. Fires with the replicated offset once that covers the first of them, or at the
        deadline with whatever it is then. The caller answers the puts it covers and waits again for the rest.
        Never fails, never hangs.

        - first_end: where the first put ends
        - last_end: where the last one ends
        - deadline: clock seconds; default: `timeout` from now
        """
        if self._stopped or last_end <= self._line.offset:
            return succeed(self._line.offset)
        if len(self._line) >= self._max_waits:
            self._overflow()
            return succeed(self._line.offset)
        return self._line.wait(
            first_end, self._clock.seconds() + self.timeout if deadline is None else deadline
        )

    def acked(self, offset: int) -> None:
        """Replication has reached `offset`: complete exactly the waits it covers. A lower one changes
        nothing."""
        self._line.advance(offset)

    def skipped(self, offset: int) -> None:
        """A slave without a log begins at `offset`: its acks will cover nothing that ends before. Who waits for
        that is released now, with the offset reached."""
        self._line.give_up(offset)

    def stop(self) -> None:
        """Release everybody with the offset reached; later waits return at once."""
        self._stopped = True
        self._line.release_all()

    def _overflow(self) -> None:
        self.overflow_total += 1
        if self._overflows.admit(None) is not None:
            self._log.warn(
                "{waits} waits for a slave are open: further ones are answered as timed out "
                "({total} so far); is a slave silent, or slaveTimeout too long?",
                waits=len(self._line),
                total=self.overflow_total,
            )
