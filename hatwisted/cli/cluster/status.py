"""`hatwisted status`: how a whole cluster is, brokers of any make, and one line of advice for what isn't well."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Final

import click
import msgspec
from click.core import ParameterSource

from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.cluster.looking import look_at
from hatwisted.cli.cluster.pauses import Pauses
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.optiongroup import Command
from hatwisted.cli.output import echo_json, json_option
from hatwisted.client.cluster import Cluster
from hatwisted.config.errors import ConfigError
from hatwisted.config.load import read_source
from hatwisted.health.events import Event, events
from hatwisted.health.figures import BrokerFigures, View
from hatwisted.health.judgement import Finding, Weight, findings

GLANCE: Final = 1.0
"""Seconds between the two looks that a rate takes."""
WATCH: Final = 2.0
"""Seconds between two screens."""
EVENTS: Final = 1000
"""The last ones that are kept while somebody watches."""


@click.command(cls=Command)
@cluster_options
@click.option(
    "--conf", type=click.Path(dir_okay=False), help="Name servers as in this broker.conf, if it has some."
)
@click.option("-w", "--watch", is_flag=True, help="Go on until Ctrl-C.")
@click.option("--no-groups", is_flag=True, help="Don't ask for consumer groups: quicker with many of them.")
@json_option
def status(namesrv: str, conf: str | None, watch: bool, no_groups: bool, as_json: bool) -> None:
    """Show how all brokers are, who is behind, and what to do.

    Works with brokers of any make, by what each of them answers.

    Exit codes: 0 all well; 1 something needs attention (with --watch: at the last look); 2 usage error, or no
    name server answers.
    """

    async def work(cluster: Cluster, interrupt: Interrupt) -> int:
        looker = _Looker(cluster, interrupt, consumers=not no_groups)
        if not watch:
            return _show(await looker.next(GLANCE), as_json)
        return await _watch(looker, as_json)

    sys.exit(run(_name_servers(conf, namesrv) if conf else namesrv, work))


def _name_servers(conf: str, given: str) -> str:
    """Those of a configuration; given: the command's, for one that names none."""
    try:
        entry = read_source(conf, ()).entries.get("namesrvAddr")
    except ConfigError as error:
        raise CannotRun(str(error)) from None
    if entry is not None and entry.value.strip():
        return entry.value.strip()
    if click.get_current_context().get_parameter_source("namesrv") is ParameterSource.DEFAULT:
        # Whoever answers on this machine may be another cluster's.
        raise CannotRun(f"{conf}: sets no namesrvAddr: name the servers by -n HOST or NAMESRV_ADDR")
    return given


class _Looker:
    """Looks again and again.

    - cluster: at which
    - interrupt: ends a pause
    - consumers: look at their groups, too
    """

    def __init__(self, cluster: Cluster, interrupt: Interrupt, *, consumers: bool) -> None:
        self._cluster = cluster
        self._consumers = consumers
        self._pauses = Pauses(cluster.clock, interrupt)
        self.interrupt = interrupt
        self.happened: deque[Event] = deque(maxlen=EVENTS)
        self._before: Any = None
        self._seen: dict[tuple[str, int], BrokerFigures] = {}

    async def next(self, pause: float) -> View:
        """The view after `pause` seconds."""
        if self._before is None:
            self._before = await look_at(self._cluster, consumers=False)
        await self._pauses.wait(pause)
        now = await look_at(self._cluster, consumers=self._consumers, before=self._before)
        self.happened.extend(events(self._before, now))
        present = {(each.group, each.id): each for each in now.brokers}
        for each in self._before.brokers:
            self._seen[each.group, each.id] = each
        left = [each for key, each in sorted(self._seen.items()) if key not in present]
        view = View(before=self._before, now=now, left=left)
        self._before = now
        return view


def _show(view: View, as_json: bool) -> int:
    found = findings(view)
    if as_json:
        echo_json(document(view, found))
    else:
        from rich.console import Console

        from hatwisted.cli.cluster.statusscreen import screen

        Console(highlight=False).print(screen(view, found))
    return _code(found)


async def _watch(looker: _Looker, as_json: bool) -> int:
    from rich.console import Console
    from rich.live import Live

    from hatwisted.cli.cluster.statusscreen import screen

    code, console = EXIT_OK, Console(highlight=False)
    if as_json or not console.is_terminal:
        while not looker.interrupt.requested:
            code = _show(await looker.next(WATCH), as_json)
        return code
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        pause = GLANCE
        while not looker.interrupt.requested:
            view = await looker.next(pause)
            found = findings(view)
            live.update(screen(view, found, [*looker.happened]), refresh=True)
            code, pause = _code(found), WATCH
    return code


def _code(found: list[Finding]) -> int:
    return EXIT_PROBLEMS if any(each.weight is Weight.PROBLEM for each in found) else EXIT_OK


def document(view: View, found: list[Finding]) -> dict[str, object]:
    """The same for programs. found: findings of the view."""
    brokers = [
        msgspec.to_builtins(each) | {"bytesPerSecond": view.growth(each), "lag": view.lag(each)}
        for each in view.now.brokers
    ]
    return {
        "at": view.now.at,
        "brokers": brokers,
        "events": events(view.before, view.now),
        "findings": found,
        "groups": view.now.groups,
        "groupsNotAsked": view.now.groups_not_asked,
        "healthy": _code(found) == EXIT_OK,
        "nameServers": [
            {"address": address, "error": error} for address, error in view.now.name_servers.items()
        ],
    }
