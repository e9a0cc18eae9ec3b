"""What a row of the benchmark yields: figures with their targets, notes, series to plot, and failures.

A figure keeps every repetition; the table shows medians. A contender that failed has no values, and its
reason stands in the table instead of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from testbed.brokergroup import JAVA, OURS, Kind

Values = dict[Kind, list[float]]


@dataclass
class Figure:
    """One line of the table. `bound` is what `judge` compares with: the ratio, or our own median."""

    label: str
    unit: str
    ours: list[float]
    java: list[float]
    target: str
    met: bool | None = None
    digits: int = 0

    @property
    def ratio(self) -> float | None:
        if not self.ours or not self.java or not median(self.java):
            return None
        return median(self.ours) / median(self.java)


@dataclass
class Outcome:
    """All that one row measured. `series` is plotted, `errors` says per contender why there are no values."""

    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    series: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def ratio_figure(
    label: str,
    unit: str,
    values: Values,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    digits: int = 0,
    other: str = "Java",
) -> Figure:
    """A figure judged by its ratio to the other side in the same run."""
    target = f"≥ {at_least:g}x {other}" if at_least is not None else f"≤ {at_most:g}x {other}"
    figure = Figure(label, unit, values.get(OURS, []), values.get(JAVA, []), target, digits=digits)
    figure.met = None if figure.ratio is None else within(figure.ratio, at_least, at_most)
    return figure


def absolute_figure(
    label: str,
    unit: str,
    values: Values,
    target: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    digits: int = 0,
) -> Figure:
    """A figure judged by our own median (no bound: only reported)."""
    figure = Figure(label, unit, values.get(OURS, []), values.get(JAVA, []), target, digits=digits)
    if figure.ours and (at_least is not None or at_most is not None):
        figure.met = within(median(figure.ours), at_least, at_most)
    return figure


def within(value: float, at_least: float | None, at_most: float | None) -> bool:
    return (at_least is None or value >= at_least) and (at_most is None or value <= at_most)


def spread(values: Sequence[float], digits: int) -> str:
    """Median and, if there were several, the range."""
    if not values:
        return "–"
    text = f"{median(values):,.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):,.{digits}f} – {max(values):,.{digits}f})"
    return text
