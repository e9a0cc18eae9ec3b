"""How a cluster is, as one screen of 80 columns: brokers in two lines each, groups, and what to do.

Nothing is cut off and no column is shared, so that a narrow terminal folds lines and loses none: what doesn't fit
goes on below its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from hatwisted.health.events import Event
from hatwisted.health.figures import BrokerFigures, Look, View
from hatwisted.health.hanging import hanging
from hatwisted.health.judgement import GROUP_BEHIND, Finding, Weight
from hatwisted.health.words import Mood, counted, make_of, span_text, state_of
from hatwisted.wire.printable import printable
from hatwisted.wire.quantities import size_text, time_text

MOST_GROUPS: Final = 5
"""Consumer groups on the screen; `--json` has all."""
MOST_EVENTS: Final = 8
"""The last ones, on the screen of --watch."""
INDENT: Final = " " * 6
"""In front of figures: below the role."""
LINKED: Final = "transfer"
"""State of a link that needs no word."""
# Read on a light terminal as on a dark one: no yellow and no cyan, which many palettes make for dark ones alone.
GOOD, BUSY, BAD, FAINT = "green", "bold", "bold red", "dim"
STYLES: Final = {Mood.GOOD: GOOD, Mood.BUSY: BUSY, Mood.BAD: BAD}


def screen(view: View, found: list[Finding], happened: Sequence[Event] = ()) -> RenderableType:
    """All of it.

    - view: what is shown
    - found: findings of it
    - happened: events since somebody watches
    """
    parts = [*_head(view, found), *_brokers(view, found), *_groups(view.now), *_advice(found)]
    parts += _events(happened)
    return Group(*parts)


class _Packed:
    """Figures side by side, as many as fit in an indented line; none is folded between its number and its unit.

    - parts: each with what belongs to it
    - style: of all
    """

    def __init__(self, parts: list[str], style: str) -> None:
        self._parts = parts
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = ""
        for part in self._parts:
            longer = f"{line}  {part}" if line else INDENT + part
            if line and cell_len(longer) > options.max_width:
                yield Text(line, self._style)
                longer = INDENT + part
            line = longer
        yield Text(line, self._style)


def _head(view: View, found: list[Finding]) -> Iterable[RenderableType]:
    problems = sum(each.weight is Weight.PROBLEM for each in found)
    when = datetime.fromtimestamp(view.now.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if view.now.at else ""
    verdict = Text("all well", GOOD) if not problems else Text(counted(problems, "problem"), BAD)
    yield Text.assemble((f"{when}  ", FAINT), verdict)
    for address, error in view.now.name_servers.items():
        state = Text("no answer", BAD) if error else Text("ok", GOOD)
        yield Text.assemble("name server  ", printable(address), "  ", state)


def _brokers(view: View, found: list[Finding]) -> Iterable[RenderableType]:
    seen = None
    for broker in view.now.brokers:
        if broker.group != seen:
            seen = broker.group
            yield Text()
            yield Text(printable(seen), "bold")
        yield hanging(f"  {broker.id:>3} ", _who(view, broker))
        if broker.error is None:
            yield _Packed(_figures(view, broker), FAINT)


def _who(view: View, broker: BrokerFigures) -> Text:
    role = broker.role or ("MASTER" if broker.is_master else "SLAVE")
    state, mood = state_of(view, broker)
    words = f"{role:<12}  {printable(broker.address)}  {printable(make_of(broker))}  "
    return Text.assemble(words, (printable(state), STYLES[mood]))


def _figures(view: View, broker: BrokerFigures) -> list[str]:
    """Those that it tells."""
    growth = view.growth(broker)
    parts = [
        f"log {broker.log_begin or 0:,} to {broker.log_end or 0:,}",
        None if growth is None else f"{size_text(growth)}/s",
        None if broker.put_tps is None or not broker.is_master else f"in {broker.put_tps:,.0f}/s",
        None if broker.get_tps is None else f"out {broker.get_tps:,.0f}/s",
        None if broker.disk_used is None else f"disk {broker.disk_used:.0%}",
        f"unflushed {size_text(broker.flush_lag)}" if broker.flush_lag else None,
        f"undispatched {size_text(broker.dispatch_lag)}" if broker.dispatch_lag else None,
        f"link: {broker.state}" if broker.state not in (None, LINKED) else None,
        None if broker.booted is None else f"up {time_text(broker.at - broker.booted)}",
        _heard(broker),
    ]
    return [printable(each) for each in parts if each]


def _heard(broker: BrokerFigures) -> str | None:
    if broker.last_heard is None:
        return None
    return f"heard {span_text(max(0.0, broker.at - broker.last_heard))} ago"


def _groups(look: Look) -> Iterable[RenderableType]:
    groups, unasked = look.groups, look.groups_not_asked
    behind = [each for each in groups if each.behind]
    if not groups and not unasked:
        return
    yield Text()
    yield Text.assemble(("consumer groups", "bold"), f"  {len(groups)}, {len(behind)} of them behind")
    if unasked:
        yield Text(f"  {counted(unasked, 'more group')} not looked at: hatwisted group lag asks all", BUSY)
    for each in behind[:MOST_GROUPS]:
        style = BAD if each.behind >= GROUP_BEHIND else ""
        members = "" if each.members is None else f"  {counted(each.members, 'member')}"
        yield hanging((f"  {each.behind:>12,}  ", style), Text(f"{printable(each.name)}{members}", style))
    if len(behind) > MOST_GROUPS:
        yield Text(f"  and {len(behind) - MOST_GROUPS} more: --json has all", FAINT)


def _advice(found: list[Finding]) -> Iterable[RenderableType]:
    for each in found:
        mark, style = ("!", BAD) if each.weight is Weight.PROBLEM else ("-", "")
        yield Text()
        said = Text.assemble((f"{printable(each.where)}: ", style), printable(each.what))
        yield hanging((f"{mark} ", style), said)
        yield hanging("  ", Text(printable(each.advice)))


def _events(happened: Sequence[Event]) -> Iterable[RenderableType]:
    if happened:
        yield Text()
        yield Text("since you watch", "bold")
    for each in happened[-MOST_EVENTS:]:
        when = datetime.fromtimestamp(each.at, UTC).strftime("%H:%M:%S")
        yield hanging((f"  {when}  ", FAINT), Text(printable(f"{each.where}: {each.what}")))
