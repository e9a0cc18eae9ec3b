"""What each measured figure was at earlier versions: lines in a file that only grows, and a plot of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import Figure
from testbed.processes import REPOSITORY


@dataclass(frozen=True)
class Curve:
    """A figure that is drawn over revisions.

    - row: that has it
    - figure: words of its label, which have stayed the same while others changed; the row's first that has them
    - name: in the plot
    """

    row: str
    figure: str
    name: str


@dataclass(frozen=True)
class Plot:
    """Curves that can be compared.

    - label: of their values
    - ratio: to RocketMQ's figure of the same run, or as measured
    - curves: few enough to be told apart
    """

    label: str
    ratio: bool
    curves: tuple[Curve, ...]


SENDS = Plot(
    "rate of sends, x RocketMQ",
    True,
    (
        Curve("send-sync", "send, SYNC_MASTER, 4 x 64", "SYNC 4 x 64"),
        Curve("send-async", "send, ASYNC_MASTER, 4 x 64", "ASYNC 4 x 64"),
        Curve("sync-cost", "send, SYNC_MASTER, 8 x 256", "SYNC 8 x 256"),
        Curve("batch-sync", "batch send", "SYNC, batches of 50"),
        Curve("flush-single", "send, SYNC_FLUSH", "SYNC_FLUSH 4 x 64"),
    ),
)
RATES = Plot(
    "other rates, x RocketMQ",
    True,
    (
        Curve("pull", "pull, 4 consumers", "pull"),
        Curve("catch-up", "slave catch-up", "catch-up"),
        Curve("rebuild", "full rebuild", "rebuild"),
    ),
)
TIMES = Plot(
    "times, x RocketMQ (less is better)",
    True,
    (
        Curve("latency", "1 in flight, p50", "a send by itself, p50"),
        Curve("topics", "start of a master", "start with 500 topics"),
    ),
)
COSTS = Plot(
    "µs of the master's CPU a message",
    False,
    (
        Curve("send-sync", "CPU time of the master", "a message by itself"),
        Curve("batch-sync", "CPU time of the master", "one of a batch"),
    ),
)
MEMORY = Plot(
    "MB of anonymous memory", False, (Curve("memory", "memory of the master", "master under load"),)
)
PLACES = {"A": SENDS, "B": RATES, "C": TIMES, "D": COSTS, "E": MEMORY}
"""What stands where in LAYOUT."""
LAYOUT = "AA;BC;DE"
MOST_TICKS = {"A": 40, "B": 20, "C": 20, "D": 20, "E": 20}
"""Revisions that are named below a plot."""
ROOM_ABOVE = 1.1
"""How far a plot goes, of its highest value."""


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


def values(past: Iterable[Past], curve: Curve, *, ratio: bool) -> dict[str, float]:
    """By revision, what is drawn of a curve: the median, if the row ran several times.

    - past: in the order of times
    - curve: which
    - ratio: to RocketMQ's; runs without that are left out
    """
    first: dict[tuple[str, str], Past] = {}
    for each in past:
        if each.row == curve.row and curve.figure in each.label:
            first.setdefault((each.at, each.revision), each)
    found: dict[str, list[float]] = {}
    for each in first.values():
        if not ratio:
            found.setdefault(each.revision, []).append(each.ours)
        elif each.other:
            found.setdefault(each.revision, []).append(each.ours / each.other)
    return {version: median(several) for version, several in found.items()}


def revisions(past: Sequence[Past]) -> list[str]:
    """Those with a figure that is drawn, in the order of their first times."""
    drawn = {
        version
        for plot in PLACES.values()
        for curve in plot.curves
        for version in values(past, curve, ratio=plot.ratio)
    }
    return [version for version in dict.fromkeys(each.revision for each in past) if version in drawn]


def ticks(count: int, most: int) -> range:
    """Which of `count` revisions are named, so that they are `most` at most: the last one, and others at equal
    distances."""
    step = -(-count // most)
    return range((count - 1) % step, count, step)


def draw(past: Sequence[Past], axes: Mapping[str, Any]) -> None:
    """All plots over the same revisions.

    - past: in the order of times
    - axes: by their letters in LAYOUT
    """
    versions = revisions(past)
    places = {version: place for place, version in enumerate(versions)}
    for letter, plot in PLACES.items():
        highest = 1.0
        for curve in plot.curves:
            found = values(past, curve, ratio=plot.ratio)
            if found:
                highest = max(highest, *found.values())
                xs = sorted(places[version] for version in found)
                ys = [found[versions[x]] for x in xs]
                axes[letter].plot(xs, ys, "o-", label=curve.name, markersize=3)
        if plot.ratio:
            axes[letter].axhline(1.0, color="#4a5568", linewidth=0.8)
        axes[letter].set_title(plot.label, loc="left", fontsize="medium")
        axes[letter].set_ylim(0, highest * ROOM_ABOVE)
        axes[letter].set_xlim(-0.5, len(versions) - 0.5)
        named = ticks(len(versions), MOST_TICKS[letter])
        axes[letter].set_xticks(named, [versions[place] for place in named], rotation=90, fontsize="x-small")
