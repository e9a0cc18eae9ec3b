"""When the dispatcher runs: in slices of bounded time on the reactor's clock, woken by the log's appends.

A slice blocks everything else in the process, so it's short, and what lies between two slices is a decision:

- Nothing to do before: the slice comes right after the reactor turn that appended (`callLater(0)`), so that a
  held pull is answered without delay. The put's own answer and the bytes for slaves have left by then.
- A slice has only just ended: if it had a handful of records, the next one comes at once as well, as long as
  `PROMPT_SLICES` a second aren't used up; a consumer gets each of some thousand messages a second without
  delay. Beyond that it waits until `COALESCE` has passed since, or `BUSY_COALESCE` if it had more than a
  handful: under load that gathers records by the hundred, which cost a tenth each of what they cost alone.
- A step's worth has come over the link since: the slice comes at once, while the bytes are in memory still. Also
  where the slice before has left something, less than a step: mostly half a record at the log's end.
- There's more than one slice's work, and the log is still growing: on a slave that's catching up, every
  millisecond spent here is taken from the link, and an undispatched byte is safe whereas an uncopied one
  isn't. So the link gets most of the time (`CATCH_UP_SHARE` is ours), until the backlog reaches
  `BACKLOG_LIMIT`; from there on dispatch takes `BOUNDING_SHARE`, which holds the backlog.
- The same, but the records met were stored between `LAG_AIM` and `HISTORY` ago: that's no old log coming in,
  that's today's load, and consumers feel the lag. Dispatch takes `BOUNDING_SHARE` at once.
- There's more to do and the log has stopped growing: slice after slice, with a reactor turn in between.

Rejected: a thread (the interpreter lock would make both slower than turns), and a fixed tick (RocketMQ looks
every millisecond: idle brokers would never sleep).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.logcodec.fewscan import FEW
from hatwisted.store.dispatch.dispatcher import STEP, Dispatcher
from hatwisted.store.errors import StoreError, StoreFull
from hatwisted.timing.timer import GuardedTimer

__all__ = ["Dispatcher", "ReputService"]

SLICE: Final = 0.002
"""Seconds after which a slice begins no further step (a step takes about 1 ms): what a heartbeat, an ack or a
pull may have to wait."""

SLICE_BYTES: Final = 16 << 20
"""Bytes of log in one slice: a second bound, for clocks that stand still."""

COALESCE: Final = 0.001
"""Least seconds between the end of a slice and the next one, while records trickle in."""

PROMPT_SLICES: Final = 2000
"""Slices a second that needn't keep `COALESCE`: some 50 us each, a tenth of the reactor's time."""

PROMPT_BURST: Final = 20
"""How many of them may be saved up."""

BUSY_COALESCE: Final = 0.005
"""The same while they pour in: at 50,000 records a second 250 of them, some 2 us each instead of 5 for 50."""

CATCH_UP_SHARE: Final = 0.25
"""Share of the reactor's time for dispatch while the log grows faster than it's dispatched."""

BACKLOG_LIMIT: Final = 4 << 30
"""Undispatched bytes beyond which the link is slowed down instead: four log files. A consumer on the slave is
behind by that much at worst, and the page cache of a broker still holds them."""

BOUNDING_SHARE: Final = 0.75
"""Share of the reactor's time for dispatch beyond that, or when it lags by more than `LAG_AIM`."""

UTMOST_PAUSE: Final = 1.0
"""Seconds between two slices at most. One that seems to have taken a third of that, more than a hundred times its
limit, stood still with its process or its machine; nobody could read what has come for three times as long."""

LAG_AIM: Final = 0.3
"""Seconds from store to dispatch that full load may cost before it's slowed down in favour of dispatch."""

HISTORY: Final = 10.0
"""Seconds after which a record's consumers have been waiting anyway: what is older is copied first."""

RETRY: Final = 1.0
"""Seconds until a dispatch that failed for want of disk space, or on bad bytes, is tried again."""

STOP_LIMIT: Final = 10.0
"""Seconds that `stop` dispatches on, to leave nothing undone; RocketMQ waits as long."""


class ReputService:
    """Runs a dispatcher. `wake` is to be called after every append.

    - clock: its timer
    - dispatcher: does the work
    - on_stall: called with the error when dispatch can't continue
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        dispatcher: Dispatcher,
        on_stall: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self._clock = clock
        self._dispatcher = dispatcher
        self._running = False
        self._timer = GuardedTimer(clock, "dispatch", self._slice, RETRY)
        self._waiting_for_index = False
        self._gathering = False
        """Is the next slice put off so that more comes together?"""
        self._slice_end = float("-inf")
        self._rest = COALESCE
        self._prompt = float(PROMPT_BURST)
        self._prompt_counted = float("-inf")
        self._log_end = 0
        self._stopping: Deferred[bool] | None = None
        self._hasty = False
        self._stop_limit: IDelayedCall | None = None
        self._on_stall = on_stall
        self.stalled_reason: str | None = None
        """Why nothing is dispatched at present, or None."""
        self.slices_total = 0

    @property
    def behind_bytes(self) -> int:
        """Bytes of log not yet dispatched."""
        return self._dispatcher.behind_bytes

    def start(self) -> None:
        """Start; whatever is there already is dispatched."""
        self._running = True
        self.wake()

    def stop(self) -> Deferred[bool]:
        """Dispatch what is left, for at most `STOP_LIMIT`; fires with whether every whole record is in queues
        and index then. No append may follow."""
        if not self._running or self._hasty or self.stalled_reason is not None or not self.behind_bytes:
            self._halt()
            return succeed(not self.behind_bytes)
        self._stopping = Deferred()
        self._stop_limit = self._clock.callLater(STOP_LIMIT, self._finish_stop, False)
        if not self._timer.pending and not self._waiting_for_index:
            self._schedule(0)
        return self._stopping

    def hasten(self) -> None:
        """Leave what isn't dispatched at the stop to the next start."""
        self._hasty = True
        if self._stopping is not None:
            self._finish_stop(False)

    def _finish_stop(self, complete: bool) -> None:
        stopping, self._stopping = self._stopping, None
        if self._stop_limit is not None and self._stop_limit.active():
            self._stop_limit.cancel()
        self._halt()
        if stopping is not None:
            stopping.callback(complete)

    def _halt(self) -> None:
        self._running = False
        self._timer.cancel()

    def wake(self) -> None:
        """The log has grown."""
        if not self._running or self._waiting_for_index:
            return
        if self._timer.pending:
            if self._gathering and self.behind_bytes >= STEP:
                self._gathering = False
                self._schedule(0)
            return
        now = self._clock.seconds()
        left = self._slice_end + self._rest - now
        self._gathering = left > 0 and self.behind_bytes < STEP and not self._is_prompt(now)
        self._schedule(left if self._gathering else 0)

    def _is_prompt(self, now: float) -> bool:
        """May this slice come at once although another has only just ended?"""
        if self._rest == BUSY_COALESCE:
            return False
        saved = self._prompt + (now - self._prompt_counted) * PROMPT_SLICES
        self._prompt, self._prompt_counted = min(PROMPT_BURST, saved), now
        if self._prompt < 1:
            return False
        self._prompt -= 1
        return True

    def _schedule(self, delay: float) -> None:
        if self._running:
            self._timer.set(delay)

    def _slice(self) -> None:
        self._gathering = False
        begin, records = self._clock.seconds(), self._dispatcher.records_total
        try:
            done = self._dispatcher.dispatch_some(SLICE_BYTES, SLICE)
        except (OSError, StoreError) as error:
            self._stall(error)
            return
        except Exception as error:
            self._stall(error)
            raise
        self.slices_total += 1
        self._slice_end = self._clock.seconds()
        self._rest = BUSY_COALESCE if self._dispatcher.records_total - records > FEW else COALESCE
        self._resume()
        if self._dispatcher.index_waits:
            self._waiting_for_index = True
            self._dispatcher.when_index_ready().addCallbacks(self._index_ready, self._index_failed)
        elif (done or self._dispatcher.under_way) and self.behind_bytes:
            self._gathering = self.behind_bytes < STEP
            self._schedule(self._pause(self._slice_end - begin))
        elif self._stopping is not None:
            self._finish_stop(True)

    def _pause(self, elapsed: float) -> float:
        """Seconds to leave to others after a slice of `elapsed` seconds with work left."""
        log_end = self._dispatcher.reput_offset + self.behind_bytes
        grown, self._log_end = log_end > self._log_end, log_end
        if not grown or self._stopping is not None:
            return 0
        age = self._slice_end - self._dispatcher.dispatched_timestamp / 1000
        bounding = LAG_AIM < age < HISTORY or self.behind_bytes >= BACKLOG_LIMIT
        share = BOUNDING_SHARE if bounding else CATCH_UP_SHARE
        return min(max(0, elapsed) * (1 / share - 1), UTMOST_PAUSE)

    # -- what can keep it from going on ----------------------------------------------------------------------

    def _index_ready(self, _: None) -> None:
        self._waiting_for_index = False
        self._schedule(0)

    def _index_failed(self, failure: Failure) -> None:
        self._waiting_for_index = False
        self._stall(failure.value)

    def _stall(self, error: BaseException | None) -> None:
        """Say once why, and try again: space may return."""
        reason = str(error)
        if reason != self.stalled_reason:
            self.stalled_reason = reason
            say = self._log.warn if isinstance(error, StoreFull) else self._log.critical
            say("dispatch waits: {reason}", event="store.dispatch", reason=reason)
            if error is not None:
                self._on_stall(error)
        if self._stopping is not None:
            self._finish_stop(False)
        self._schedule(RETRY)

    def _resume(self) -> None:
        if self.stalled_reason is not None:
            self._log.info("dispatch continues; it had stopped because: {reason}", reason=self.stalled_reason)
            self.stalled_reason = None
