"""Lines over the last hour as SVG, drawn here: the page needs no library and no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup, escape

WIDTH: Final = 600
HEIGHT: Final = 132
TOP: Final = 8
BOTTOM: Final = 18
HOUR: Final = 3600.0
"""Seconds that it shows at the most."""
LEAST: Final = 600.0
"""And at the least, soon after a start."""

Points = Sequence[tuple[float, float | None]]


class Chart(NamedTuple):
    """One.

    - title: of it
    - unit: of its figures, as text
    - lines: name -> (clock seconds, figure or None) in order
    - least: figure at the top, if none is higher
    """

    title: str
    unit: Callable[[float], str]
    lines: Mapping[str, Points]
    least: float = 0.0


def span_of(chart: Chart, now: float) -> float:
    """Seconds that it shows."""
    begun = min((line[0][0] for line in chart.lines.values() if line), default=now)
    return LEAST if now - begun <= LEAST else HOUR


def drawn(chart: Chart, now: float) -> Markup:
    """Its SVG. now: at the right edge."""
    span = span_of(chart, now)
    figures = [figure for line in chart.lines.values() for _, figure in line if figure is not None]
    most = max(figures, default=0.0)
    most = max(most, chart.least) or 1.0
    floor = HEIGHT - BOTTOM
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}: '
        f'at most {escape(chart.unit(max(figures, default=0.0)))} in the last hour" preserveAspectRatio="none">'
    ]
    for share in (0.0, 0.5, 1.0):
        y = floor - (floor - TOP) * share
        parts.append(f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y:g}" y2="{y:g}"/>')
    for number, points in enumerate(chart.lines.values()):
        for run in _runs(points):
            places = [
                f"{WIDTH * (1 - (now - at) / span):.1f},{floor - (floor - TOP) * figure / most:.1f}"
                for at, figure in run
                if now - at <= span
            ]
            if places:
                parts.append(f'<polyline class="line{number}" points="{" ".join(places)}"/>')
    return Markup("".join(parts) + "</svg>")


def _runs(points: Points) -> list[list[tuple[float, float]]]:
    """Stretches without a gap."""
    runs: list[list[tuple[float, float]]] = [[]]
    for at, figure in points:
        if figure is None:
            runs.append([])
        else:
            runs[-1].append((at, figure))
    return [run for run in runs if run]
