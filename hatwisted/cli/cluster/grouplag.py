"""`hatwisted group lag`: how far groups are behind, once or again and again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click
import msgspec

from hatwisted.cli.cluster import completion
from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.cluster.pauses import Pauses
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS
from hatwisted.cli.optiongroup import Command
from hatwisted.cli.output import echo_json, json_option, table_text
from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.admin import QueueProgress
from hatwisted.clientcore.errors import ClientError
from hatwisted.clientcore.survey import Survey
from hatwisted.health.words import span_text
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.printable import printable
from hatwisted.wire.topics import RETRY_PREFIX

WATCH: Final = 2.0
"""Seconds between two looks."""


class TopicLag(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of a group in a topic; per second since the look before, None at the first one.

    - last_consumed: when the newest message that it has consumed was stored, seconds since 1970; None: unknown
    - seconds_to_level: at this rate; None: never, or not known yet
    """

    topic: str
    behind: int
    last_consumed: float | None
    consumed_per_second: float | None = None
    stored_per_second: float | None = None
    seconds_to_level: float | None = None


class GroupLag(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of a group. members: connected; None: it isn't behind, so they weren't asked for."""

    group: str
    behind: int
    members: int | None
    topics: list[TopicLag]


class LagLook(msgspec.Struct, frozen=True, kw_only=True):
    """One look.

    - at: seconds since the epoch
    - groups: those most behind first
    - unknown: by group, why it isn't known how far it is behind
    - error: why nothing could be looked at; None: it could
    """

    at: float
    groups: list[GroupLag] = []
    unknown: dict[str, str] = {}
    error: str | None = None

    def problems(self) -> list[str]:
        """What it couldn't see, a line each."""
        lines = [
            f"group {name}: how far it is behind isn't known: {why}" for name, why in self.unknown.items()
        ]
        return lines if self.error is None else [*lines, f"nothing could be looked at: {self.error}"]


Places = dict[tuple[str, str], dict[MessageQueue, tuple[int, int]]]
"""By group and topic: of each queue the offset consumed, and its end."""


@click.command("lag", cls=Command, short_help="Show how far groups are behind, by topic.")
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=completion.groups)
@cluster_options
@click.option("-w", "--watch", is_flag=True, help="Go on until Ctrl-C, with rates.")
@click.option("--most", type=click.IntRange(0), metavar="COUNT", help="Exit code 1 if one is further behind.")
@json_option
def lag_command(names: tuple[str, ...], namesrv: str, watch: bool, most: int | None, as_json: bool) -> None:
    """Show how many messages groups are behind, by topic: these groups, or all that are behind.

    Exit codes: 0 done; 1 one is more than --most behind, or it isn't known of one (with --watch: at the last
    look); 2 usage error, no cluster, or no such group.
    """

    async def work(cluster: Cluster, interrupt: Interrupt) -> int:
        looker = _Looker(cluster, names)
        if watch:
            found = await _watch(looker, Pauses(cluster.clock, interrupt), interrupt, as_json)
        else:
            found = await looker.next()
            _show(found, as_json, rates=False)
        beyond = most is not None and any(each.behind > most for each in found.groups)
        return EXIT_PROBLEMS if beyond or found.problems() else EXIT_OK

    sys.exit(run(namesrv, work))


class _Looker:
    """Looks again and again.

    - cluster: at which
    - names: of the groups; none: all
    """

    def __init__(self, cluster: Cluster, names: Sequence[str]) -> None:
        self._survey = Survey(cluster.session)
        self._clock = cluster.clock
        self._names = list(names)
        self._before: Places = {}
        self._at = 0.0

    async def next(self) -> LagLook:
        """How they are now."""
        found: LagLook = await deferred(self._look())
        return found

    async def again(self) -> LagLook:
        """As `next`; who watches wants to know how it goes on, whatever it is that fails meanwhile."""
        try:
            return await self.next()
        except ClientError as error:
            return LagLook(at=self._clock.seconds(), error=str(error))

    async def _look(self) -> LagLook:
        told = await self._survey.progress(self._names or await self._survey.group_names())
        now, passed = self._clock.seconds(), self._clock.seconds() - self._at
        before, self._before, self._at = self._before, {}, now
        found, unknown = [], {}
        for name, queues in told.items():
            if isinstance(queues, ClientError):
                if self._names:
                    raise queues
                unknown[name] = str(queues)
                continue
            topics = self._topics(name, queues, before, passed)
            behind = sum(each.behind for each in topics)
            if self._names or behind:
                members = await self._survey.members(name) if behind else None
                found.append(GroupLag(group=name, behind=behind, members=members, topics=topics))
        found.sort(key=lambda each: (-each.behind, each.group))
        return LagLook(at=now, groups=found, unknown=unknown)

    def _topics(
        self, group: str, queues: list[QueueProgress], before: Places, passed: float
    ) -> list[TopicLag]:
        found = []
        for topic in sorted({each.queue.topic for each in queues}):
            own = [each for each in queues if each.queue.topic == topic]
            behind = sum(max(0, each.lag) for each in own)
            places = self._before[group, topic] = {each.queue: (each.consumed, each.end) for each in own}
            if not behind and topic.startswith(RETRY_PREFIX):
                continue
            last = max(each.last_timestamp for each in own)
            lag = TopicLag(topic=topic, behind=behind, last_consumed=last / 1000 if last > 0 else None)
            moved = _moved(before.get((group, topic), {}), places)
            if moved is not None and passed > 0:
                taken, stored = moved[0] / passed, moved[1] / passed
                lag = msgspec.structs.replace(
                    lag,
                    consumed_per_second=taken,
                    stored_per_second=stored,
                    seconds_to_level=0.0
                    if not behind
                    else behind / gain
                    if (gain := taken - stored) > 0
                    else None,
                )
            found.append(lag)
        return found


def _moved(
    before: dict[MessageQueue, tuple[int, int]], now: dict[MessageQueue, tuple[int, int]]
) -> tuple[int, int] | None:
    """Messages that were consumed and stored between two looks, in the queues that both have seen: a broker that
    comes or goes moves nobody by all that its queues hold. None if there is none."""
    both = now.keys() & before.keys()
    if not both:
        return None
    return (
        sum(now[queue][0] - before[queue][0] for queue in both),
        sum(now[queue][1] - before[queue][1] for queue in both),
    )


async def _watch(looker: _Looker, pauses: Pauses, interrupt: Interrupt, as_json: bool) -> LagLook:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    found = await looker.next()
    if as_json or not console.is_terminal:
        while not interrupt.requested:
            _show(found, as_json, rates=True)
            await pauses.wait(WATCH)
            found = await looker.again()
        return found
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while not interrupt.requested:
            when = datetime.fromtimestamp(found.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            lines = [when, *map(printable, found.problems())]
            if found.groups or not found.problems():
                lines.insert(1, _table(found.groups, rates=True))
            live.update(Text.from_ansi("\n".join(lines)), refresh=True)
            await pauses.wait(WATCH)
            found = await looker.again()
    return found


def _show(found: LagLook, as_json: bool, *, rates: bool) -> None:
    if as_json:
        echo_json(found)
        return
    for line in found.problems():
        click.echo(printable(line), err=True)
    if found.groups or not found.problems():
        click.echo(_table(found.groups, rates=rates) + ("\n" if rates else ""))


def _table(found: list[GroupLag], *, rates: bool) -> str:
    if not found:
        return "no group is behind"
    # 80 columns have no room for both.
    columns = ["group", "topic", "behind", "members"]
    columns += ["read/s", "new/s", "level in"] if rates else ["consumed up to"]
    rows = []
    for group in found:
        for each in group.topics:
            moving = [_rate(each.consumed_per_second), _rate(each.stored_per_second), _level(each)]
            row = [group.group, each.topic, f"{each.behind:,}", _or_dash(group.members)]
            rows.append(row + (moving if rates else [_moment(each)]))
    return table_text(columns, rows)


def _or_dash(value: Any) -> str:
    return "-" if value is None else str(value)


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _level(lag: TopicLag) -> str:
    if not lag.behind:
        return "level"
    if lag.consumed_per_second is None:
        return "-"
    return "never" if lag.seconds_to_level is None else span_text(lag.seconds_to_level)


def _moment(lag: TopicLag) -> str:
    if lag.last_consumed is None:
        return "-"
    return datetime.fromtimestamp(lag.last_consumed, UTC).strftime("%m-%d %H:%M:%S")
