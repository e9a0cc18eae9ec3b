"""What a master's log says about its slaves: how far behind each is, that one has left, that none has come.

A SYNC_MASTER's puts fail, or wait until they time out, if it has no slave; so there a slave that leaves is a
warning, and so is that none has connected within a minute of the start. On an ASYNC_MASTER no put waits, and
both are only informational.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel

from hatwisted.ha.haconnection import HAConnection
from hatwisted.ha.replicas import ReplicaTable
from hatwisted.store.interfaces import IReplicatedLog

FIRST_LAG_LOG = 10.0
"""Seconds after the start until the lag is logged first."""

LAG_LOG_INTERVAL = 60.0
"""Seconds between two log lines about the lag."""

MAX_LAGS_SHOWN = 10
"""Slaves that the line about the lag names, those furthest behind; the rest is counted."""

ALONE_LIMIT = 60.0
"""Seconds from the start after which a SYNC_MASTER says that no slave has come."""


class SlaveWatch:
    """Logs how a master's slaves are doing.

    - clock: says when
    - log: the master's
    - replicas: what has been acknowledged
    - missed: do puts wait for slaves at present?
    """

    _log = Logger()

    def __init__(
        self, clock: IReactorTime, log: IReplicatedLog, replicas: ReplicaTable, *, missed: Callable[[], bool]
    ) -> None:
        self._clock = clock
        self._commit_log = log
        self._replicas = replicas
        self._missed = missed
        self._running = False
        self._lag_due = 0.0
        self._unchanged: object = None
        """What the last line about the lag said, if a line that says the same wouldn't be worth one."""
        self._alone_due: float | None = None
        """When to say that no slave has come; None if there's nothing to say."""

    def start(self) -> None:
        """The port is open."""
        now = self._clock.seconds()
        self._running = True
        self._lag_due = now + FIRST_LAG_LOG
        self._alone_due = now + ALONE_LIMIT

    def stop(self) -> None:
        """The links end because this master does: nothing to worry about."""
        self._running = False

    def came(self) -> None:
        """A slave's first report was accepted."""
        self._alone_due = None

    def left(self, link: HAConnection, why: str, others: int) -> None:
        """A slave's link has ended.

        - link: which
        - why: for people
        - others: slaves that are still connected
        """
        self._log.emit(
            LogLevel.warn if self._running and self._missed() else LogLevel.info,
            "slave {peer} left at offset {offset}, {lag} bytes behind: {why}; slaves still "
            "connected: {others}",
            event="slave.left",
            peer=link.peer,
            offset=link.progress.ack_offset,
            lag=self._commit_log.max_offset - link.progress.ack_offset,
            why=why,
            others=others,
        )

    def look(self, now: float, links: Iterable[HAConnection]) -> None:
        """Say what is due."""
        if now >= self._lag_due:
            self._lag_due = now + LAG_LOG_INTERVAL
            self._log_lag(links)
        self._look_alone(now)

    def _look_alone(self, now: float) -> None:
        if self._alone_due is None:
            return
        if not self._missed():
            self._alone_due = now + ALONE_LIMIT
        elif now >= self._alone_due:
            self._alone_due = None
            self._log.warn(
                "no slave has connected since this SYNC_MASTER started {age:g} s ago: puts are answered "
                "SLAVE_NOT_AVAILABLE, or refused; is a slave running, and can it reach listenPort + 1?",
                event="slave.none",
                age=ALONE_LIMIT,
            )

    def _log_lag(self, links: Iterable[HAConnection]) -> None:
        """Of each slave, those furthest behind first: the best one's says nothing of the others."""
        end = self._commit_log.max_offset
        lags = sorted(
            (
                (end - link.progress.ack_offset, link.peer, link.progress.state.value)
                for link in links
                if link.progress.reported
            ),
            reverse=True,
        )
        still = [(peer, state) for lag, peer, state in lags if lag == 0]
        unchanged, self._unchanged = self._unchanged, None
        if lags and len(still) == len(lags):
            self._unchanged = still
            if still == unchanged:
                return
        if lags:
            more = f", and {len(lags) - MAX_LAGS_SHOWN} more" if len(lags) > MAX_LAGS_SHOWN else ""
            self._log.info(
                "slave lag (log ends at {end}): {lags}{more}",
                event="slave.lag",
                end=end,
                lags=", ".join(f"{peer} {lag} bytes ({state})" for lag, peer, state in lags[:MAX_LAGS_SHOWN]),
                more=more,
            )
        elif newest := self._replicas.push2_slave_max_offset:
            self._unchanged = (end, newest)
            if unchanged == self._unchanged:
                return
            self._log.info(
                "no slave is connected; the latest acknowledgement is {lag} bytes behind the log's end",
                lag=end - newest,
            )
