"""How far a new slave is: asked once a second, shown as a bar on a terminal and as lines elsewhere.

Level is who has what its master had at the question before: with producers at work nobody ever has all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from hatwisted.cli.cluster.clusterrun import Interrupt
from hatwisted.cli.cluster.pauses import Pauses
from hatwisted.cli.progressbar import ScanProgress
from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.survey import Survey
from hatwisted.health.figures import BrokerFigures, broker_figures
from hatwisted.metrics.looking import answers_of
from hatwisted.wire.quantities import size_text, time_text

INTERVAL: Final = 1.0
"""Seconds between two questions."""
TELL: Final = 10
"""Every so many of them a line, where there is no terminal."""
PATIENCE: Final = 60
"""Questions in a row without progress until it counts as stuck: a slave tries again after 30 s at most."""

INTERRUPTED: Final = "interrupted; the slave goes on copying"


class Advance:
    """What one answer after the other says: is it level, is it stuck?"""

    def __init__(self) -> None:
        self._goal: int | None = None
        """The master's end at the question before."""
        self._end = -1
        self._still = 0
        self.problem: str | None = None

    def take(self, slave: BrokerFigures, master: BrokerFigures) -> bool:
        """Is it done? Then `problem` says what keeps it from copying, None: it is level."""
        end, goal = slave.log_end or 0, self._goal
        if master.error is None:
            self._goal = master.log_end
        if slave.error is None and goal is not None and end >= goal:
            self.problem = None
            return True
        self._still = 0 if end > self._end else self._still + 1
        self._end = max(end, self._end)
        if self._still < PATIENCE:
            return False
        said = slave.error or slave.problem or master.error
        self.problem = said or f"it has taken nothing for {PATIENCE} s: its log says why"
        return True


async def follow(
    cluster: Cluster, master: str, slave: str, interrupt: Interrupt, *, quiet: bool
) -> str | None:
    """Until it is level, stuck or interrupted: what keeps it from copying, or INTERRUPTED; None: it is level.

    - cluster: asks
    - master, slave: "host:port"
    - interrupt: ends it; the slave goes on
    - quiet: show nothing
    """
    survey, advance, shown = Survey(cluster.session), Advance(), CopyScreen(quiet)
    pauses = Pauses(cluster.clock, interrupt)
    with shown:
        while not interrupt.requested:
            seen = [
                broker_figures("", number, address, answers_of(await deferred(survey.broker(address))))
                for number, address in ((1, slave), (0, master))
            ]
            if advance.take(*seen):
                return advance.problem
            shown.update(*seen)
            await pauses.wait(INTERVAL)
    return INTERRUPTED


class CopyScreen:
    """A bar on a terminal, lines elsewhere. quiet: neither; tell: takes the lines."""

    def __init__(
        self, quiet: bool, tell: Callable[[str], object] = lambda line: click.echo(line, err=True)
    ) -> None:
        self._quiet = quiet
        self._tell = tell
        self._bar: ScanProgress | None = None
        self._begun: BrokerFigures | None = None
        self._count = 0

    def __enter__(self) -> CopyScreen:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)

    def update(self, slave: BrokerFigures, master: BrokerFigures) -> None:
        """One more answer of each."""
        if self._quiet or not slave.log_end or not master.log_end:
            return
        if self._bar is None or self._begun is None:
            self._bar = ScanProgress("copying", master.log_begin or 0, master.log_end)
            self._begun = slave
        self._bar(slave.log_end)
        self._count += 1
        if not self._count % TELL and not self._bar.visible:
            self._tell(_line(self._begun, slave, master))


def _line(begun: BrokerFigures, slave: BrokerFigures, master: BrokerFigures) -> str:
    begin, end, goal = master.log_begin or 0, slave.log_end or 0, master.log_end or 0
    share = (end - begin) / max(1, goal - begin)
    rate = (end - (begun.log_end or 0)) / max(0.001, slave.at - begun.at)
    left = f", {time_text((goal - end) / rate)} left" if rate > 0 else ""
    return f"copying  {share:.0%} of {size_text(goal - begin)}, {size_text(rate)}/s{left}"
