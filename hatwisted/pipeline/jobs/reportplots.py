"""The report's plots: matplotlib figures, each as SVG for the page and as SVG and PNG files.

A colour is drawn as one of the light palette's values, each of which stands for one role and nothing else. In
the page's copy every one is replaced by a CSS variable, so that the plots follow the reader's light or dark
theme as the page does; files keep the light colours. Drawing twice was rejected: a page would be twice as big,
and a theme that is switched by hand would show the wrong one.

Nothing here imports pyplot: figures are made and dropped without global state, in any thread.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MultipleLocator

from hatwisted.pipeline.jobs.reportfigures import BINS_PER_OCTAVE, bin_edges
from hatwisted.pipeline.jobs.reportsummary import OTHER, Bins, Group, SlaveLag, Spread, Summary, Timeline

INK: Final = "#1c2230"
MUTED: Final = "#5d6678"
GRID: Final = "#dfe3ea"
SURFACE: Final = "#fefefe"
SERIES: Final = ("#2563c9", "#d9601a", "#12855f", "#a4368c", "#b98900", "#5a4fcf", "#0c88a4")
REST: Final = "#9aa3b2"
WARM: Final = "#c8312b"
ROLES: Final[Mapping[str, str]] = {
    INK: "ink", MUTED: "muted", GRID: "grid", SURFACE: "surface", REST: "rest", WARM: "warm",
    **{colour: f"series-{number}" for number, colour in enumerate(SERIES, 1)},
}  # fmt: skip
"""What a colour stands for: the CSS variable's name, without its dashes."""

WIDE: Final = (11.0, 2.9)
HALF: Final = (5.4, 2.9)
"""Inches; a page shows two HALFs side by side, or one below the other."""
PNG_DPI: Final = 160
SPREAD_ROWS: Final = 12
"""Topics in a plot of spreads: what can be labelled legibly."""
LOG_TICKS: Final = 7
TIME_TICKS: Final = 9
BYTE_TICKS: Final = 6
"""Labels that an axis has room for, at most."""
TIME_GAPS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200,
                    86_400, 172_800, 432_000, 1_209_600, 5_184_000, 31_536_000)  # fmt: skip
"""s between two ticks of a time axis."""
ROUND: Final = (0.25, 0.5, 1, 2, 4, 5, 10, 20, 25, 50, 100, 200, 250, 500)
BALANCE_ROWS: Final = 16
BALANCE_QUEUES: Final = 64
"""Topics and queues in the picture of the queues' balance."""

STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.color": GRID,
    "ytick.labelcolor": MUTED,
    "ytick.left": False,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.labelcolor": INK,
}


@dataclass(frozen=True)
class Plot:
    """One drawn plot. `svg`: for the page; `wide`: does it take a row of its own?; `note`: how to read it."""

    name: str
    title: str
    note: str
    wide: bool
    svg: str
    file_svg: bytes
    png: bytes


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


def draw_plots(summary: Summary, progress: Callable[[int, int], None] | None = None) -> list[Plot]:
    """All plots that the summary has something for."""
    wanted = [sheet for sheet in SHEETS if sheet.fits(summary)]
    plots = []
    for number, sheet in enumerate(wanted, 1):
        plots.append(_drawn(sheet, summary))
        if progress is not None:
            progress(number, len(wanted))
    return plots


def save_plots(plots: Sequence[Plot], folder: Path) -> list[str]:
    """Each as NAME.svg and NAME.png; the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for plot in plots:
        for suffix, data in (("svg", plot.file_svg), ("png", plot.png)):
            path = folder / f"{plot.name}.{suffix}"
            path.write_bytes(data)
            paths.append(str(path))
    return paths


def _drawn(sheet: Sheet, summary: Summary) -> Plot:
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": sheet.name}):
        figure = Figure(figsize=sheet.size, layout="constrained")
        sheet.draw(figure, summary)
        vector, pixels = io.BytesIO(), io.BytesIO()
        FigureCanvasSVG(figure).print_svg(vector, metadata={"Date": None, "Title": sheet.title})
        figure.set_facecolor(SURFACE)
        FigureCanvasAgg(figure)
        figure.savefig(pixels, format="png", dpi=PNG_DPI, metadata={"Title": sheet.title, "Software": None})
    drawn = vector.getvalue()
    return Plot(
        name=sheet.name,
        title=sheet.title,
        note=sheet.note,
        wide=sheet.size == WIDE,
        svg=themed(drawn.decode(), sheet.name, sheet.title),
        file_svg=drawn,
        png=pixels.getvalue(),
    )


def themed(svg: str, name: str, title: str) -> str:
    """The SVG for a page: colours and fonts by CSS variables, as wide as its place, ids that are `name`'s own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
    svg = re.sub(r"#[0-9a-f]{6}", lambda found: _variable(found[0]), svg)
    svg = re.sub(r"font: ([^;\"]*?)([\d.]+px) [^;\"]*", r"font: \1\2 var(--sans)", svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    return re.sub(r'href="#', f'href="#{name}-', svg)


def _variable(colour: str) -> str:
    role = ROLES.get(colour)
    return colour if role is None else f"var(--{role})"


# ---- the plots


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
    axes.set_ylabel("log written a second")
    _byte_axis(axes.yaxis, *axes.get_ylim())


def _stacked(axes: Axes, line: Timeline, rates: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Filled steps on each other, the biggest topic at the bottom."""
    edges = _edges(line)
    base = np.zeros(len(line.moments))
    for name, rate in rates.items():
        top = base + rate
        axes.stairs(
            top, edges, baseline=base, fill=True, color=colour_of(name, list(rates)), label=name, lw=0
        )
        base = top
    _time_axis(axes, line, edges)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0, handlelength=0.9)


def _latency_line(figure: Figure, summary: Summary) -> None:
    line = summary.timeline
    axes = figure.add_subplot()
    edges = _edges(line)
    for label, values, colour in (
        ("maximum", line.max, REST),
        ("99 %", line.p99, SERIES[1]),
        ("median", line.p50, SERIES[0]),
    ):
        heights = np.array([np.nan if value is None else value for value in values], dtype=float)
        axes.stairs(heights, edges, baseline=None, color=colour, label=label, lw=1.6)
    _time_axis(axes, line, edges)
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
    _log_axis(axes, unit)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axes.set_ylabel("messages")
    for name, value, side in (("median", spread.p50, "right"), ("99 %", spread.p99, "left")):
        if value is not None:
            axes.axvline(place(value), color=INK, lw=1, ls=(0, (2, 2)))
            text, across = f" {name} {unit.show(value)} ", axes.get_xaxis_transform()
            axes.text(place(value), 1.0, text, transform=across, ha=side, va="bottom", fontsize=8)


def _log_axis(axes: Axes, unit: Unit) -> None:
    """Round values as ticks, as many as can be read."""
    low, high = axes.get_xlim()
    inside = [value for value in unit.ticks if low <= place(value) <= high]
    shown = inside[:: max(1, -(-len(inside) // LOG_TICKS))]
    axes.set_xticks([place(value) for value in shown], [unit.show(value) for value in shown])
    axes.set_xlim(low, high)


def place(value: float) -> float:
    """Where a number of bytes or ms lies on a logarithmic axis: BINS_PER_OCTAVE to the octave, 0 at 0."""
    return float(BINS_PER_OCTAVE * np.log2(value + 1))


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
    _log_axis(axes, unit)


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
            _bar(axes, labels, f"{clipped(slave.broker)} (master)", slave.master_begin, slave.master_end, INK)
        _slave_bar(axes, labels, slave)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left=min(slave.master_begin for slave in summary.slaves))
    _byte_axis(axes.xaxis, *axes.get_xlim())
    axes.set_xlabel("offset in the commit log")


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
    text = f" {in_bytes(slave.behind)} behind" if slave.behind else " level"
    axes.text(max(slave.end, slave.master_end), row, text, va="center", fontsize=8.5)
    axes.margins(x=0.12)


# ---- axes and units


def _edges(line: Timeline) -> np.ndarray[Any, Any]:
    return np.array([*line.moments, line.moments[-1] + line.step], dtype=float)


def _time_axis(axes: Axes, line: Timeline, edges: np.ndarray[Any, Any]) -> None:
    begin, end = edges[0], edges[-1]
    gap = next((gap for gap in TIME_GAPS if end - begin <= gap * TIME_TICKS), TIME_GAPS[-1])
    form = "%H:%M:%S" if gap < 60 else "%H:%M" if gap < 86_400 else "%d %b"
    ticks = np.arange(-(-begin // gap) * gap, end + 1, gap)
    axes.set_xticks(ticks, [datetime.fromtimestamp(at, UTC).strftime(form) for at in ticks])
    axes.set_xlim(begin, end)
    day = datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d")
    axes.set_xlabel(f"store time, UTC, from {day}; steps of {in_time(1000 * line.step)}")


def _byte_axis(axis: Axis, low: float, high: float) -> None:
    """Ticks at round numbers of KiB, MiB, ..."""
    unit = 1024 ** max(0, min(4, int(np.log2(max(1, high - low)) // 10)))
    pieces = next((each for each in ROUND if (high - low) / unit <= each * BYTE_TICKS), ROUND[-1])
    axis.set_major_locator(MultipleLocator(pieces * unit))
    axis.set_major_formatter(FuncFormatter(lambda value, _: in_bytes(value)))


def colour_of(name: str, names: Sequence[str]) -> str:
    """The colour of a topic among those with one."""
    return REST if name == OTHER else SERIES[names.index(name) % len(SERIES)]


def clipped(text: str, most: int = 26) -> str:
    """A label of at most `most` characters, the middle left out."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-(most // 2) :]}"


def short(value: float) -> str:
    """1234 -> 1.23k; counts."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def in_bytes(value: float) -> str:
    """1536 -> 1.5 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.3g} {unit}" if abs(value) < 1000 else f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:,.3g} TiB" if abs(value) < 1000 else f"{value:,.0f} TiB"


def in_time(milliseconds: float) -> str:
    """1500 -> 1.5 s."""
    if abs(milliseconds) < 1000:
        return f"{milliseconds:.3g} ms"
    value = milliseconds / 1000
    for limit, unit in ((60, "s"), (60, "min"), (24, "h")):
        if abs(value) < limit:
            return f"{value:.3g} {unit}"
        value /= limit
    return f"{value:,.3g} d"


@dataclass(frozen=True)
class Unit:
    """How values are written, and which of them are round."""

    show: Callable[[float], str]
    ticks: tuple[int, ...]


BYTES: Final = Unit(in_bytes, (0, *(1 << power for power in range(4, 33))))
TIME: Final = Unit(
    in_time,
    (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 60_000, 300_000, 1_800_000, 7_200_000, 43_200_000,
     172_800_000, 864_000_000),
)  # fmt: skip

SHEETS: Final = (
    Sheet("throughput", "Messages a second, by topic", "", WIDE, _throughput),
    Sheet("bytes", "Log written a second, by topic", "Whole records, as they lie in the log.", WIDE, _bytes),
    Sheet(
        "slaves",
        "Master and slaves",
        "What each log holds; red is what a slave doesn't have yet, grey what was gone before it began.",
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
    Sheet("sizes", "Sizes of records", "", HALF, _size_bins),
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
        "Balance of the queues",
        "A cell a queue, as full as its share of its topic's fullest queue.",
        WIDE,
        _balance,
    ),
)
"""In the page's order."""
