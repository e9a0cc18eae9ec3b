"""The report as a page: the key figures on top, the plots, then the tables with the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hatwisted.pipeline.jobs import htmlpage
from hatwisted.pipeline.jobs.htmlpage import Cell, Tile, escape
from hatwisted.pipeline.jobs.report.plotstyle import in_bytes, in_time, short
from hatwisted.pipeline.jobs.report.reportplots import Plot
from hatwisted.pipeline.jobs.report.reportsummary import Group, QueueLag, SlaveLag, Spread, Summary

CLOCKS = (
    "Latency is from the producer's clock to the broker's. A delayed or repeated message carries the time at "
    "which it was first born. Percentiles are at most a tenth above the true ones."
)


def page(summary: Summary, plots: Sequence[Plot], sources: Sequence[str], minutes: str, damages: int) -> str:
    """The whole page.

    - summary: the figures
    - plots: in the order of the page
    - sources: what was read
    - minutes: name of the CSV next to the page
    - damages: ranges of the log that couldn't be read
    """
    total = summary.total
    under = (
        f"{'<br>'.join(f'<code>{escape(source)}</code>' for source in sources)}<br>"
        f"stored from {_instant(total.first)} to {_instant(total.last)}"
    )
    parts = [
        ("", htmlpage.tiles(_tiles(summary)) + "".join(map(htmlpage.warning, _warnings(summary, damages))))
    ]
    parts.append(("Plots", htmlpage.figures(htmlpage.figure(p.title, p.note, p.svg, p.wide) for p in plots)))
    if summary.slaves:
        parts.append(("Master and slaves", _slaves(summary.slaves)))
    parts.append(("Topics", _topics(summary)))
    parts.append(("Queues", _queues(summary)))
    foot = (
        f'By minute, topic and queue: <a href="{escape(minutes)}">{escape(minutes)}</a>. {escape(CLOCKS)} '
        f"Made by hatwisted at {_instant(round(datetime.now(UTC).timestamp() * 1000))}."
    )
    return htmlpage.document("Message log report", under, parts, foot)


def _tiles(summary: Summary) -> list[Tile]:
    total = summary.total
    found = [
        Tile("Messages", f"{total.messages:,}", f"{short(total.messages / total.seconds)}/s on average"),
        Tile("Log", in_bytes(total.bytes), f"{in_bytes(total.bytes / total.seconds)}/s on average"),
        Tile("Topics", f"{summary.topic_count:,}", f"{summary.queue_count:,} queues"),
        Tile("Busiest step", f"{short(_peak(summary))}/s", f"within {in_time(1000 * summary.timeline.step)}"),
        Tile("Record", _bytes(total.size.p50), f"median; 99 % up to {_bytes(total.size.p99)}"),
    ]
    if total.latency.p50 is not None:
        found.append(
            Tile("Latency", _time(total.latency.p50), f"median; 99 % up to {_time(total.latency.p99)}")
        )
    found.extend(_lag_tile(slave) for slave in summary.slaves)
    return found


def _lag_tile(slave: SlaveLag) -> Tile:
    if not slave.behind:
        return Tile(_label(slave.name), "level", f"with its master at {slave.end:,}", "good")
    detail = f"{slave.messages:,} messages" + (
        f", {_time(slave.milliseconds)}" if slave.milliseconds is not None else ""
    )
    return Tile(_label(slave.name), f"-{in_bytes(slave.behind)}", detail, "bad")


def _peak(summary: Summary) -> float:
    line = summary.timeline
    return max(map(sum, zip(*line.messages.values(), strict=True)), default=0) / line.step


def _warnings(summary: Summary, damages: int) -> list[str]:
    found = []
    if damages:
        found.append(
            f"{damages} damaged range{'s' if damages > 1 else ''} of the log couldn't be read: "
            "their messages are missing from the report."
        )
    if summary.total.early:
        found.append(
            f"{summary.total.early:,} messages were born after they were stored: their producers' clocks are "
            "ahead of the broker's. They count as messages, but not in the latencies."
        )
    return found


def _topics(summary: Summary) -> str:
    heads = ("topic", "messages", "share", "messages/s", "log", *_SPREAD_HEADS, "first", "last")
    rows = [_group_row(group, summary.total, [group.topic or ""]) for group in summary.topics]
    return htmlpage.table(heads, rows, 1, _beyond(len(rows), summary.topic_count, "topics"))


def _queues(summary: Summary) -> str:
    heads = (
        "broker",
        "topic",
        "queue",
        "messages",
        "share",
        "messages/s",
        "log",
        *_SPREAD_HEADS,
        "first",
        "last",
    )
    rows = [
        _group_row(group, summary.total, [group.broker or "", group.topic or "", str(group.queue_id)])
        for group in summary.queues
    ]
    return htmlpage.table(heads, rows, 2, _beyond(len(rows), summary.queue_count, "queues"))


def _group_row(group: Group, total: Group, names: Sequence[str]) -> list[str | Cell]:
    return [*names, *_volume(group, total), *_spreads(group), *_times(group, total)]


_SPREAD_HEADS = ("size median", "99 %", "max", "latency median", "99 %", "max")


def _volume(group: Group, total: Group) -> list[Cell]:
    share = group.messages / total.messages
    rate = group.messages / total.seconds
    return [
        Cell(f"{group.messages:,}", group.messages),
        Cell(f"{100 * share:.1f} %", share, share),
        Cell(short(rate), rate),
        Cell(in_bytes(group.bytes), group.bytes),
    ]


def _spreads(group: Group) -> list[Cell]:
    cells = [Cell(_bytes(value), value) for value in _three(group.size)]
    cells += [Cell(_time(value), -1 if value is None else value) for value in _three(group.latency)]
    return cells


def _times(group: Group, total: Group) -> list[Cell]:
    """The page's head says the day; here it stands only if there are several."""
    several = _clock(total.first, day=True)[:5] != _clock(total.last, day=True)[:5]
    return [Cell(_clock(each, day=several), each) for each in (group.first, group.last)]


def _three(spread: Spread) -> tuple[int | None, int | None, int | None]:
    return spread.p50, spread.p99, spread.max


def _slaves(slaves: Sequence[SlaveLag]) -> str:
    heads = ("slave", "of broker", "log begins", "log ends", "lag", "messages", "time", "missing before")
    html = htmlpage.table(
        heads,
        map(_slave_row, slaves),
        2,
        "Judged by offsets; an audit tells whether the bytes are equal.",
    )
    lacking = [_lacking_row(slave.name, queue) for slave in slaves for queue in slave.queues]
    if not lacking:
        return html
    missing = ("slave", "broker", "topic", "queue", "messages it lacks", "log it lacks", "time")
    return f'{html}<div style="height:14px"></div>{htmlpage.table(missing, lacking, 3)}'


def _slave_row(slave: SlaveLag) -> list[str | Cell]:
    return [
        slave.name,
        slave.broker,
        Cell(f"{slave.begin:,}", slave.begin),
        Cell(f"{slave.end:,}", slave.end),
        Cell(in_bytes(slave.behind), slave.behind),
        Cell(f"{slave.messages:,}", slave.messages),
        Cell(_time(slave.milliseconds), slave.milliseconds or 0),
        Cell(in_bytes(slave.missing_before), slave.missing_before),
    ]


def _lacking_row(slave: str, queue: QueueLag) -> list[str | Cell]:
    return [
        slave,
        queue.broker,
        queue.topic,
        str(queue.queue_id),
        Cell(f"{queue.messages:,}", queue.messages),
        Cell(in_bytes(queue.bytes), queue.bytes),
        Cell(_time(queue.milliseconds), queue.milliseconds or 0),
    ]


def _beyond(shown: int, count: int, what: str) -> str:
    return "" if shown == count else f"The {shown:,} biggest of {count:,} {what}."


def _bytes(value: int | None) -> str:
    return "–" if value is None else in_bytes(value)


def _time(value: int | None) -> str:
    return "–" if value is None else in_time(value)


def _instant(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _clock(milliseconds: int, *, day: bool) -> str:
    form = "%m-%d %H:%M:%S" if day else "%H:%M:%S"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime(form)


def _label(name: str) -> str:
    """Of a slave's tile; many a folder says already what it is."""
    return name[:1].upper() + name[1:] if "slave" in name.lower() else f"Slave {name}"
