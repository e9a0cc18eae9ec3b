"""The SVG plots of docs/benchmarks.md, drawn from the results alone and byte-stable for equal results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench import history
from bench.sparkpeers import ALL, LAND, SAME

COLOURS = {"ours": "#2b6cb0", "java": "#c05621", "other": "#4a5568"}
NAMES = {"ours": "hatwisted", "java": "RocketMQ"}
SIZE = (7.2, 3.4)  # inches
HISTORY_SIZE = (7.2, 8.4)

Series = dict[str, Any]
Rows = dict[str, Any]


def draw_all(rows: Rows, past: Sequence[history.Past], folder: Path, base: Path) -> list[tuple[str, str]]:
    """Draw what there is data for; (title, path relative to `base`).

    - rows, past: the last results, and all earlier ones
    - folder, base: for the plots, and the document's
    """
    matplotlib.rcParams.update({"svg.hashsalt": "hatwisted", "svg.fonttype": "none", "font.size": 9})
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []

    def save(canvas: Canvas, name: str, title: str) -> None:
        path = folder / f"{name}.svg"
        canvas.savefig(path, metadata={"Date": None})
        drawn.append((title, str(path.relative_to(base))))

    for key, name, title, draw in PLOTS:
        series = rows.get(key, {}).get("series")
        if not series:
            continue
        canvas = Canvas(figsize=SIZE, layout="constrained")
        axes = canvas.add_subplot()
        draw(axes, series)
        axes.set_title(title, loc="left")
        _finish(axes)
        save(canvas, name, title)
    if history.revisions(past):
        canvas = Canvas(figsize=HISTORY_SIZE, layout="constrained")
        places = canvas.subplot_mosaic(history.LAYOUT)
        history.draw(past, places)
        for axes in places.values():
            _finish(axes)
        save(canvas, "history", "Rows as they were at earlier versions")
    return drawn


def _finish(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_ylim(bottom=0)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)


def _warm(axes: Axes, series: Series) -> None:
    for kind, rates in series["warm"].items():
        axes.plot(range(1, len(rates) + 1), rates, color=COLOURS[kind], label=NAMES[kind])
    axes.set_xlabel("seconds since the first request")
    axes.set_ylabel("messages/s")


def _catch_up(axes: Axes, series: Series) -> None:
    for kind, curve in series["curves"].items():
        axes.plot(
            [at for at, _ in curve], [end / 1e9 for _, end in curve], color=COLOURS[kind], label=NAMES[kind]
        )
    axes.set_xlabel("seconds since the first byte")
    axes.set_ylabel("slave's log, GB")


def _memory(axes: Axes, series: Series) -> None:
    for kind, samples in series.items():
        if kind not in NAMES:
            continue
        for which, style in (("master", "-"), ("slave", "--")):
            xs, ys = [s["log"] for s in samples], [s[which] for s in samples]
            axes.plot(xs, ys, style, color=COLOURS[kind], label=f"{NAMES[kind]} {which}")
    axes.set_xlabel("log written, GB")
    axes.set_ylabel("RssAnon, MB")


def _acks(axes: Axes, series: Series) -> None:
    axes.plot(
        [count for count, _ in series["ack"]],
        [cost for _, cost in series["ack"]],
        "o-",
        color=COLOURS["ours"],
    )
    axes.set_xscale("log")
    axes.set_xlabel("puts waiting")
    axes.set_ylabel("µs an ack")


def _lag(axes: Axes, series: Series) -> None:
    for kind, samples in series.items():
        if kind not in NAMES:
            continue
        for which, style in (("master", ":"), ("slave", "-")):
            xs, ys = [s["at"] for s in samples], [s[which] / 1e6 for s in samples]
            axes.plot(xs, ys, style, color=COLOURS[kind], label=f"{NAMES[kind]} {which}")
    axes.set_xlabel("seconds")
    axes.set_ylabel("dispatch behind, MB")


def _topics(axes: Axes, series: Series) -> None:
    for kind, curve in series["known"].items():
        for which, style in (("name server", "-"), ("slave", "--")):
            xs, ys = [point["topics"] for point in curve], [point[which] for point in curve]
            axes.plot(xs, ys, f"o{style}", color=COLOURS[kind], label=f"{NAMES[kind]}, {which}")
    axes.set_xlabel("topics of 8 queues")
    axes.set_ylabel("seconds until all are known")


def _data_growth(axes: Axes, series: Series) -> None:
    for key, style in (("data", "o-"), ("cores", "o--")):
        points = [point for point in series[key] if "gib" in point]
        if not points:
            continue
        xs, ys = [point["gib"] for point in points], [point["seconds"] for point in points]
        cores = points[0].get("cores", 2)
        label = f"{cores} core{'s' if cores > 1 else ''}"
        axes.plot(xs, ys, style, color=COLOURS["ours"], label=label)
    axes.set_xlabel("log, GiB")
    axes.set_ylabel("seconds, all columns")
    memory = axes.twinx()
    for which, style in (("python", "--"), ("jvm", ":")):
        xs = [point["gib"] for point in series["data"]]
        ys = [point[which] for point in series["data"]]
        memory.plot(xs, ys, f"o{style}", color=COLOURS["other"], label=f"{which}, MB")
    memory.set_ylim(bottom=0)
    memory.set_ylabel("anonymous memory, MB")
    memory.legend(frameon=False, loc="lower right")


def _partition_growth(axes: Axes, series: Series) -> None:
    xs = [point["partitions"] for point in series["splits"]]
    ys = [point["seconds"] for point in series["splits"]]
    axes.plot(xs, ys, "o-", color=COLOURS["ours"])
    axes.set_xscale("log", base=2)
    axes.set_xlabel("partitions")
    axes.set_ylabel("seconds for 4 GiB, all columns, two cores")


def _beside_kafka(what: str) -> Callable[[Axes, Series], None]:
    def draw(axes: Axes, series: Series) -> None:
        for kind, name in (("ours", NAMES["ours"]), ("java", "Spark's Kafka source")):
            for cores, style in ((1, "o--"), (2, "o-")):
                points = [
                    point
                    for point in series["points"]
                    if (point["kind"], point["cores"], point["what"]) == (kind, cores, what)
                ]
                xs, ys = [point["gib"] for point in points], [point["seconds"] for point in points]
                label = f"{name}, {cores} core{'s' if cores > 1 else ''}"
                axes.plot(xs, ys, style, color=COLOURS[kind], label=label)
        axes.set_xlabel("log, GiB")
        axes.set_ylabel("seconds")

    return draw


PLOTS: list[tuple[str, str, str, Callable[[Axes, Series], None]]] = [
    ("send-sync", "warm-send-sync", "Warming up: single sends, SYNC_MASTER, 4 x 64 in flight", _warm),
    ("batch-sync", "warm-batch-sync", "Warming up: batch sends, SYNC_MASTER, 4 x 8 in flight", _warm),
    ("catch-up", "catch-up", "A slave catches up", _catch_up),
    ("memory", "memory", "Anonymous memory while the log grows", _memory),
    ("silent-slave", "ack-cost", "Cost of one ack by number of waiting puts", _acks),
    ("dispatch-lag", "dispatch-lag", "How far queues and index lag behind the log at full batch rate", _lag),
    ("spark-growth", "spark-data", "Pipeline: time and memory over the log's size", _data_growth),
    ("spark-growth", "spark-partitions", "Pipeline: time over partitions", _partition_growth),
    (
        "spark-kafka",
        "spark-kafka-all",
        "Beside Spark's Kafka source: all columns to nowhere",
        _beside_kafka(ALL),
    ),
    (
        "spark-kafka",
        "spark-kafka-same",
        "Beside Spark's Kafka source: its columns to nowhere",
        _beside_kafka(SAME),
    ),
    (
        "spark-kafka",
        "spark-kafka-land",
        "Beside Spark's Kafka source: landing with zstd",
        _beside_kafka(LAND),
    ),
    ("topics", "topics", "Creating topics: until name server and slave know them", _topics),
]
