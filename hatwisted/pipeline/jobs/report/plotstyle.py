"""The style of the report's plots: the palette, the look, the units, and axes with round numbers.

A colour is one of the light palette's values, each of which stands for one role and nothing else: so it can be
replaced by the CSS variable of its role afterwards (`ROLES`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MultipleLocator

from hatwisted.pipeline.jobs.report.reportfigures import BINS_PER_OCTAVE
from hatwisted.pipeline.jobs.report.reportsummary import Timeline

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

LOG_TICKS: Final = 7
TIME_TICKS: Final = 9
BYTE_TICKS: Final = 6
"""Labels that an axis has room for, at most."""
TIME_GAPS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200,
                    86_400, 172_800, 432_000, 1_209_600, 5_184_000, 31_536_000)  # fmt: skip
"""s between two ticks of a time axis."""
ROUND: Final = (0.25, 0.5, 1, 2, 4, 5, 10, 20, 25, 50, 100, 200, 250, 500)

STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    # A topic may be called "$x$": no formula.
    "text.parse_math": False,
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


# ---- units


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


# ---- axes


def step_edges(line: Timeline) -> np.ndarray[Any, Any]:
    """Where the steps of a time axis begin, and the end of the last one: s since the epoch."""
    return np.array([*line.moments, line.moments[-1] + line.step], dtype=float)


def time_axis(axes: Axes, line: Timeline, edges: np.ndarray[Any, Any]) -> None:
    """Ticks at round times of day.

    - axes: of the plot
    - line: the timeline
    - edges: of the bins, from the first moment to the last
    """
    begin, end = edges[0], edges[-1]
    gap = next((gap for gap in TIME_GAPS if end - begin <= gap * TIME_TICKS), TIME_GAPS[-1])
    form = "%H:%M:%S" if gap < 60 else "%H:%M" if gap < 86_400 else "%d %b"
    ticks = np.arange(-(-begin // gap) * gap, end + 1, gap)
    axes.set_xticks(ticks, [datetime.fromtimestamp(at, UTC).strftime(form) for at in ticks])
    axes.set_xlim(begin, end)
    day = datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d")
    axes.set_xlabel(f"store time, UTC, from {day}; steps of {in_time(1000 * line.step)}")


def byte_axis(axis: Axis, low: float, high: float) -> None:
    """Ticks at round numbers of KiB, MiB, ...

    - axis: of the plot
    - low: its start
    - high: its end
    """
    unit = 1024 ** max(0, min(4, int(np.log2(max(1, high - low)) // 10)))
    pieces = next((each for each in ROUND if (high - low) / unit <= each * BYTE_TICKS), ROUND[-1])
    axis.set_major_locator(MultipleLocator(pieces * unit))
    axis.set_major_formatter(FuncFormatter(lambda value, _: in_bytes(value)))


def log_axis(axes: Axes, unit: Unit) -> None:
    """Round values as ticks, as many as can be read."""
    low, high = axes.get_xlim()
    inside = [value for value in unit.ticks if low <= place(value) <= high]
    shown = inside[:: max(1, -(-len(inside) // LOG_TICKS))]
    axes.set_xticks([place(value) for value in shown], [unit.show(value) for value in shown])
    axes.set_xlim(low, high)


def place(value: float) -> float:
    """Where a number of bytes or ms lies on a logarithmic axis: BINS_PER_OCTAVE to the octave, 0 at 0."""
    return float(BINS_PER_OCTAVE * np.log2(value + 1))
