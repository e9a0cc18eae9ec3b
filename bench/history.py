"""What each measured figure was at earlier versions: lines in a file that only grows, and a plot of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import Figure
from testbed.processes import REPOSITORY

RATIOS = {
    "send-sync": "SYNC 4 x 64",
    "send-async": "ASYNC 4 x 64",
    "batch-sync": "batches of 50",
    "catch-up": "catch-up",
    "pull": "pull",
    "rebuild": "rebuild",
}
"""Rows whose first figure is drawn as a ratio to RocketMQ's, and what each is called there."""
COSTS = {"send-sync": "a message by itself", "batch-sync": "one of a batch"}
"""Rows whose CPU time of the master is drawn."""


@dataclass(frozen=True)
class Past:
    """A figure's medians.

    - at: when it was measured, ISO 8601 in UTC, to the minute
    - revision: of the checkout
    - row, label: of the figure
    - ours, other: medians; None where there was none
    """

    at: str
    revision: str
    row: str
    label: str
    ours: float
    other: float | None


def read(path: Path) -> list[Past]:
    """All lines, in the order of their times."""
    if not path.exists():
        return []
    lines = (Past(**json.loads(line)) for line in path.read_text().splitlines())
    return sorted(lines, key=lambda each: each.at)


def add(path: Path, version: str, row: str, figures: Iterable[Figure]) -> None:
    """Keep what a row has just measured.

    - path: of the file
    - version, row, figures: of what, and the row's figures
    """
    now = datetime.now(UTC).isoformat(timespec="minutes")
    found = [of(now, version, row, each) for each in figures if each.ours]
    with open(path, "a") as file:
        file.writelines(f"{json.dumps(asdict(each), ensure_ascii=False)}\n" for each in found)


def of(at: str, version: str, row: str, figure: Figure) -> Past:
    """A figure's line.

    - at, version: when, and of what
    - row, figure: which; it has values
    """
    other = median(figure.java) if figure.java else None
    return Past(at, version, row, figure.label, median(figure.ours), other)


def revision() -> str:
    """As git describes the checkout; "unknown" outside of one."""
    try:
        command = ["git", "describe", "--always", "--dirty", "--tags"]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def ratios(past: Sequence[Past]) -> dict[str, list[tuple[datetime, float]]]:
    """By name, (time, ratio to RocketMQ) of the rows that are drawn."""
    curves: dict[str, list[tuple[datetime, float]]] = {}
    first: dict[tuple[str, str], Past] = {}
    for each in past:
        if each.row in RATIOS and each.other:
            first.setdefault((each.at, each.row), each)
    for (at, row), each in first.items():
        assert each.other
        curves.setdefault(RATIOS[row], []).append((datetime.fromisoformat(at), each.ours / each.other))
    return curves


def costs(past: Sequence[Past]) -> dict[str, list[tuple[datetime, float]]]:
    """By name, (time, µs of the master for a message)."""
    curves: dict[str, list[tuple[datetime, float]]] = {}
    for each in past:
        if each.row in COSTS and "CPU time of the master" in each.label:
            curves.setdefault(COSTS[each.row], []).append((datetime.fromisoformat(each.at), each.ours))
    return curves


def draw(past: Sequence[Past], axes: Sequence[Any]) -> None:
    """Both plots.

    - axes: of ratios, and of costs
    """
    for place, curves, label in zip(
        axes, (ratios(past), costs(past)), ("x RocketMQ", "µs of the master's CPU a message"), strict=True
    ):
        for name, points in curves.items():
            place.plot(
                [at for at, _ in points], [value for _, value in points], "o-", label=name, markersize=3
            )
        place.set_ylabel(label)
        place.tick_params(axis="x", rotation=30)
    axes[0].axhline(1.0, color="#4a5568", linewidth=0.8)
