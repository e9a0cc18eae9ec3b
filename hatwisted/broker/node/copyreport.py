"""What a slave's log says of its copying: from whom, how far, how long it takes yet, and that it is level.

The HA link tells a slave what comes next, never how much there is: that is asked of the master beside the link, in
its runtime info, which RocketMQ's masters have as well. A slave is level once it has all that its master had at
the look before, LOOK seconds ago: while messages come in, it never has all that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.store.interfaces import IReplicatedLog
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.quantities import size_text, time_text

LOOK: Final = 5.0
"""Seconds between two questions to the master."""
PROGRESS_LOG: Final = 60.0
"""Seconds between two lines of a copy under way; the first one comes with the second look."""
BEHIND_LIMIT: Final = 60.0
"""Seconds that a slave which was level may be behind without a word about it."""
SMOOTHING: Final = 0.3
"""Weight of the newest look in the rate, of all former ones 1 less this."""


class CopyReport:
    """Runs between `start` and `stop`.

    - clock: of the looks
    - log: ours
    - ask: the master's runtime info
    - copying: the master's HA address while there is a link to it over which our log fits; None: there is none
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        log: IReplicatedLog,
        ask: Callable[[], Deferred[Mapping[str, str]]],
        copying: Callable[[], str | None],
    ) -> None:
        self._clock = clock
        self._our = log
        self._ask = ask
        self._copying = copying
        self.master_end = 0
        """The end of the master's log by its last word; 0: it hasn't said."""
        self.level = False
        """Have we what it had a look ago?"""
        self._since = self._level_at = 0.0
        self._peer: str | None = None
        self._log_due = 0.0
        self._before: tuple[float, int, int] | None = None
        """Time, our end and the master's at the last look."""
        self._rate = self._growth = 0.0
        self._loop = PeriodicCall(clock, "asking the master how far its log is", self.look)

    def start(self) -> None:
        """Look from now on."""
        self._loop.start(LOOK)

    def stop(self) -> None:
        """Look no more."""
        self._loop.stop()

    def look_now(self) -> None:
        """A link has come, or gone: how far behind is the copy before it goes on?"""
        if self._loop.running:
            self.look()

    def look(self) -> Deferred[None] | None:
        """One look; nothing is asked without a link."""
        peer = self._copying()
        if peer is None:
            self._peer = None
            self.level = False
            return None
        return maybeDeferred(self._ask).addCallbacks(
            self._told, self._not_told, callbackArgs=(peer, self._our.max_offset)
        )

    def _not_told(self, failure: Failure) -> None:
        """The link stands: what it brings is told by the master's next word."""
        self._log.debug("the master didn't say how far its log is: {why}", why=failure.getErrorMessage())

    def _told(self, info: Mapping[str, str], peer: str, held: int) -> None:
        """What the master says. held: the end of our log when it was asked."""
        if not self._loop.running or self._copying() != peer:
            return
        now, ours = self._clock.seconds(), self._our.max_offset
        end = int(info["commitLogMaxOffset"])
        if peer != self._peer:
            self._begin(peer, now)
            ours_there = info.get("hatwistedVersion")
            version = (
                f"hatwisted {ours_there}" if ours_there else info.get("brokerVersionDesc", "of no version")
            )
            self._log.info(
                "copying from master {peer} ({version}): {behind} behind",
                event="slave.copying", peer=peer, version=version, behind=size_text(max(0, end - held)),
            )  # fmt: skip
        had = self._before
        if had is not None and now > had[0]:
            self._sample((ours - had[1]) / (now - had[0]), (end - had[2]) / (now - had[0]))
        if ours >= end or (had is not None and ours >= had[2]):
            self._is_level(now, ours)
        elif self.level and now - self._level_at > BEHIND_LIMIT:
            self.level = False
            self._since, self._log_due = now, now
        self._before = now, ours, end
        self.master_end = end
        if not self.level and now >= self._log_due:
            self._log_due = now + PROGRESS_LOG
            self._log_progress(ours, end)

    def _begin(self, peer: str, now: float) -> None:
        self._peer, self._since, self._before = peer, now, None
        self._rate = self._growth = 0.0
        self.level = False
        self._log_due = now + LOOK

    def _sample(self, rate: float, growth: float) -> None:
        weight = SMOOTHING if self._rate else 1.0
        self._rate += weight * (rate - self._rate)
        self._growth += weight * (growth - self._growth)

    def _is_level(self, now: float, ours: int) -> None:
        self._level_at = now
        if not self.level:
            self.level = True
            self._log.info(
                "level with its master at offset {offset}, after {took}",
                event="slave.level", offset=ours, took=time_text(now - self._since),
            )  # fmt: skip

    def _log_progress(self, ours: int, end: int) -> None:
        oldest = self._our.min_offset if ours else 0
        behind = end - ours
        gain = self._rate - self._growth
        self._log.info(
            "copying {percent} %: {done} of {all}, {rate}/s, {left}",
            event="slave.progress",
            percent=100 * (ours - oldest) // max(1, end - oldest),
            done=size_text(ours - oldest),
            all=size_text(end - oldest),
            rate=size_text(max(0.0, self._rate)),
            left=f"{time_text(behind / gain)} left" if gain > 0 else "not catching up",
        )
