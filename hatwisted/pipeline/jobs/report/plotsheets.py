"""What a report's plots show: the sheets in the page's order, and how each is drawn on a matplotlib figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from hatwisted.pipeline.jobs.report.plotstyle import (
    BYTES,
    GRID,
    INK,
    MUTED,
    REST,
    SERIES,
    SURFACE,
    TIME,
    WARM,
    Unit,
    byte_axis,
    clipped,
    in_bytes,
    in_time,
    log_axis,
    place,
    short,
    step_edges,
    time_axis,
)
from hatwisted.pipeline.jobs.report.reportfigures import BINS_PER_OCTAVE, bin_edges
from hatwisted.pipeline.jobs.report.reportsummary import (
    OTHER,
    Bins,
    Group,
    SlaveLag,
    Spread,
    Summary,
    Timeline,
)

WIDE: Final = (11.0, 2.9)
HALF: Final = (5.4, 2.9)
"""Inches; a page shows two HALFs side by side, or one below the other."""
SPREAD_ROWS: Final = 12
"""Topics in a plot of spreads: what can be labelled legibly."""
BALANCE_ROWS: Final = 16
BALANCE_QUEUES: Final = 64
"""Topics and queues in the picture of the queues' balance."""

Draw = Callable[[Figure, Summary], None]


@dataclass(frozen=True)
class Sheet:
    """A plot that can be drawn; `fits`: has the summary something for it?"""

    name: str
    title: str
    note: str
    size: tuple[float, float]
    draw: Draw
    fits: Callable[[Summary], bool] = lambda summary: True


def _throughput(figure: Figure, summary: Summary) -> None:
    line = summary.timeline
    axes = figure.add_subplot()
    _stacked(axes, line, {name: np.array(counts) / line.step for name, counts in line.messages.items()})
    axes.set_ylabel("messages/s")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def _bytes(figure: Figure, summary: Summary) -> None:
    line = summary.timeline
    axes = figure.add_subplot()
    _stacked(axes, line, {name: np.array(sizes) / line.step for name, sizes in line.bytes.items()})
    axes.set_ylabel("log written per second")
    byte_axis(axes.yaxis, *axes.get_ylim())


def _stacked(axes: Axes, line: Timeline, rates: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Stacked steps, the biggest topic at the bottom."""
    edges = step_edges(line)
    base = np.zeros(len(line.moments))
    for name, rate in rates.items():
        top = base + rate
        axes.stairs(
            top, edges, baseline=base, fill=True, color=colour_of(name, list(rates)), label=name, lw=0
        )
        base = top
    time_axis(axes, line, edges)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0, handlelength=0.9)


def _latency_line(figure: Figure, summary: Summary) -> None:
    line = summary.timeline
    axes = figure.add_subplot()
    edges = step_edges(line)
    for label, values, colour in (
        ("maximum", line.max, REST),
        ("99 %", line.p99, SERIES[1]),
        ("median", line.p50, SERIES[0]),
    ):
        heights = np.array([np.nan if value is None else value for value in values], dtype=float)
        axes.stairs(heights, edges, baseline=None, color=colour, label=label, lw=1.6)
    time_axis(axes, line, edges)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("born to stored")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: in_time(value)))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0, handlelength=0.9)


def _size_bins(figure: Figure, summary: Summary) -> None:
    _histogram(figure.add_subplot(), summary.size_bins, SERIES[0], BYTES, summary.total.size, 4)


def _latency_bins(figure: Figure, summary: Summary) -> None:
    _histogram(figure.add_subplot(), summary.latency_bins, SERIES[4], TIME, summary.total.latency, 2)


def _histogram(axes: Axes, bins: Bins, colour: str, unit: Unit, spread: Spread, per_octave: int) -> None:
    """Shares of messages by bin, each bar as wide as its bin on a logarithmic axis that has a zero."""
    total = sum(bins.values())
    merged: Counter[int] = Counter()
    for number, count in bins.items():
        merged[number * per_octave // BINS_PER_OCTAVE] += count
    for number, count in merged.items():
        first, after = (each * BINS_PER_OCTAVE // per_octave for each in (number, number + 1))
        left, right = place(bin_edges(first)[0]), place(bin_edges(after - 1)[1] + 1)
        axes.bar(left, 100 * count / total, width=max(0.2, right - left - 0.5), align="edge", color=colour)
    log_axis(axes, unit)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axes.set_ylabel("messages")
    for name, value, side in (("median", spread.p50, "right"), ("99 %", spread.p99, "left")):
        if value is not None:
            axes.axvline(place(value), color=INK, lw=1, ls=(0, (2, 2)))
            text, across = f" {name} {unit.show(value)} ", axes.get_xaxis_transform()
            axes.text(place(value), 1.0, text, transform=across, ha=side, va="bottom", fontsize=8)


def _size_spreads(figure: Figure, summary: Summary) -> None:
    _spreads(figure.add_subplot(), summary.topics, lambda group: group.size, SERIES[0], BYTES)


def _latency_spreads(figure: Figure, summary: Summary) -> None:
    _spreads(figure.add_subplot(), summary.topics, lambda group: group.latency, SERIES[4], TIME)


def _spreads(
    axes: Axes,
    groups: Sequence[Group],
    spread_of: Callable[[Group], Spread],
    colour: str,
    unit: Unit,
) -> None:
    """A row a topic: bar from 5 to 90 %, dot at the median, tick at 99 %, ring at the maximum."""
    shown = [group for group in groups if spread_of(group).max is not None][:SPREAD_ROWS]
    for row, group in enumerate(shown):
        spread = spread_of(group)
        low, half, high, highest, most = (
            place(value or 0) for value in (spread.p5, spread.p50, spread.p90, spread.p99, spread.max)
        )
        axes.plot([low, most], [row, row], color=GRID, lw=1.2, zorder=1)
        axes.plot([low, high], [row, row], color=colour, lw=5, alpha=0.45, solid_capstyle="round", zorder=2)
        axes.plot([half], [row], "o", color=colour, ms=5.5, zorder=4)
        axes.plot([highest], [row], "|", color=colour, ms=9, mew=1.8, zorder=3)
        axes.plot([most], [row], "o", color=MUTED, mfc=SURFACE, ms=4, mew=1.1, zorder=3)
    axes.set_yticks(range(len(shown)), [clipped(group.topic or "") for group in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    log_axis(axes, unit)


def _balance(figure: Figure, summary: Summary) -> None:
    """A cell a queue, as dark as its share of its topic's fullest queue."""
    topics = [group.topic or "" for group in summary.topics[:BALANCE_ROWS]]
    queues = _queue_axis(summary, topics)
    counts = np.zeros((len(topics), len(queues)))
    for group in summary.queues:
        key = (group.broker or "", group.queue_id or 0)
        if group.topic in topics and key in queues:
            counts[topics.index(group.topic), queues.index(key)] = group.messages
    shares = counts / np.maximum(1, counts.max(axis=1, keepdims=True))
    axes = figure.add_subplot()
    for (row, column), share in np.ndenumerate(shares):
        if counts[row, column]:
            axes.add_patch(
                Rectangle(
                    (column - 0.46, row - 0.44), 0.92, 0.88, color=SERIES[2], alpha=0.12 + 0.88 * share, lw=0
                )
            )
    axes.set_xlim(-0.6, len(queues) - 0.4)
    axes.set_ylim(len(topics) - 0.4, -0.6)
    axes.set_yticks(range(len(topics)), [clipped(topic) for topic in topics])
    several = len({broker for broker, _ in queues}) > 1
    names = [f"{clipped(broker, 10)} {queue}" if several else str(queue) for broker, queue in queues]
    axes.set_xticks(range(len(queues)), names, rotation=90 if several else 0)
    axes.set_xlabel("broker and queue" if several else "queue")
    axes.grid(visible=False)


def _queue_axis(summary: Summary, topics: Sequence[str]) -> list[tuple[str, int]]:
    found = {(each.broker or "", each.queue_id or 0) for each in summary.queues if each.topic in topics}
    return sorted(found)[:BALANCE_QUEUES]


def _positions(figure: Figure, summary: Summary) -> None:
    """A bar a log from its first to its last byte, the slaves' below their master's."""
    axes = figure.add_subplot()
    labels: list[str] = []
    drawn: set[str] = set()
    for slave in summary.slaves:
        if slave.broker not in drawn:
            drawn.add(slave.broker)
            _bar(axes, labels, master_label(slave.broker), slave.master_begin, slave.master_end, INK)
        _slave_bar(axes, labels, slave)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left=min(slave.master_begin for slave in summary.slaves))
    byte_axis(axes.xaxis, *axes.get_xlim())
    axes.set_xlabel("offset in the commit log")


def master_label(broker: str) -> str:
    """Beside a master's bar. One that is called so, as its folder may be, is it once."""
    return clipped(broker) if broker.lower() == "master" else f"{clipped(broker)} (master)"


def _bar(axes: Axes, labels: list[str], label: str, begin: int, end: int, colour: str) -> None:
    axes.barh(len(labels), end - begin, left=begin, height=0.42, color=colour)
    labels.append(label)


def _slave_bar(axes: Axes, labels: list[str], slave: SlaveLag) -> None:
    row = len(labels)
    _bar(axes, labels, clipped(slave.name), slave.begin, slave.end, SERIES[0])
    if slave.missing_before:
        axes.barh(row, slave.missing_before, left=slave.master_begin, height=0.42, color=GRID)
    if slave.behind:
        axes.barh(row, slave.behind, left=slave.end, height=0.42, color=WARM)
    text = f"{in_bytes(slave.behind)} behind" if slave.behind else "level"
    place = (max(slave.end, slave.master_end), row)
    axes.annotate(text, place, (5, 0), textcoords="offset points", va="center", fontsize=8.5)
    axes.margins(x=0.12)


def colour_of(name: str, names: Sequence[str]) -> str:
    """The colour of a topic among those with one."""
    return REST if name == OTHER else SERIES[names.index(name) % len(SERIES)]


SHEETS: Final = (
    Sheet("throughput", "Messages per second, by topic", "", WIDE, _throughput),
    Sheet(
        "bytes", "Log written per second, by topic", "Whole records, as they lie in the log.", WIDE, _bytes
    ),
    Sheet(
        "slaves",
        "Master and slaves",
        "What each log holds; red is what a slave doesn't have yet, grey what precedes its start.",
        WIDE,
        _positions,
        lambda summary: bool(summary.slaves),
    ),
    Sheet(
        "latency-over-time",
        "Latency, born to stored",
        "",
        WIDE,
        _latency_line,
        lambda summary: bool(summary.latency_bins),
    ),
    Sheet("sizes", "Record sizes", "", HALF, _size_bins),
    Sheet("latencies", "Latencies", "", HALF, _latency_bins, lambda summary: bool(summary.latency_bins)),
    Sheet(
        "sizes-by-topic",
        "Sizes by topic",
        "Bar: 5 to 90 %; dot: median; tick: 99 %; ring: maximum.",
        HALF,
        _size_spreads,
    ),
    Sheet(
        "latencies-by-topic",
        "Latencies by topic",
        "Bar: 5 to 90 %; dot: median; tick: 99 %; ring: maximum.",
        HALF,
        _latency_spreads,
        lambda summary: bool(summary.latency_bins),
    ),
    Sheet(
        "queues",
        "Queue balance",
        "One cell per queue, filled by its share of its topic's fullest queue.",
        WIDE,
        _balance,
    ),
)
"""In the page's order."""
