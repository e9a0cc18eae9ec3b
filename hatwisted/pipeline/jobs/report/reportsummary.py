"""What the report says, as values: the roll-ups of the cube, collected and made into percentiles.

Everything collected has a limit, so that a log with a hundred thousand queues or a year of minutes makes a page
that opens, not a driver that dies; the rest is counted, and reported as a count. The CSV file next to the
page has it all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hatwisted.pipeline.jobs.report import reportfigures
from hatwisted.pipeline.jobs.report.reportfigures import Extent, percentile

TOPIC_ROWS: Final = 1000
"""Topics listed one by one, the biggest first."""
QUEUE_ROWS: Final = 2000
"""Queues listed one by one, the biggest first."""
PLOTTED_TOPICS: Final = 7
"""Topics with a colour of their own; more can't be distinguished, so the rest shares one."""
OTHER: Final = "other topics"
PLOTTED_MOMENTS: Final = 300
"""Steps of a time axis: more would be too thin to see."""
STEPS: Final = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 86_400, 7 * 86_400)
"""s; what a step of a time axis may be."""

Bins = Mapping[int, int]
"""Number of a bin -> messages."""


@dataclass(frozen=True)
class Spread:
    """A distribution: bytes or ms; None where nothing was counted."""

    mean: float | None
    p5: int | None
    p50: int | None
    p90: int | None
    p99: int | None
    max: int | None


@dataclass(frozen=True)
class Group:
    """The totals of a topic or a queue; of everything, if both are None.

    - size: bytes of a whole record
    - latency: ms from born to stored
    - early: messages whose producer's clock was ahead, which have no latency
    - first, last: store times, ms since the epoch
    """

    broker: str | None
    topic: str | None
    queue_id: int | None
    messages: int
    bytes: int
    first: int
    last: int
    early: int
    size: Spread
    latency: Spread

    @property
    def seconds(self) -> float:
        """From the first to the last message; at least one, so that rates of a moment aren't absurd."""
        return max(1.0, (self.last - self.first) / 1000)


@dataclass(frozen=True)
class QueueLag:
    """What a slave lacks of one queue; `milliseconds` between the last message and the last that it holds."""

    broker: str
    topic: str
    queue_id: int
    messages: int
    bytes: int
    milliseconds: int | None


@dataclass(frozen=True)
class SlaveLag:
    """A slave compared with its master. `behind`: bytes of log between their ends; `missing_before`: bytes of the
    master's log from before the slave's begins; messages and milliseconds as in QueueLag, over all queues."""

    name: str
    broker: str
    begin: int
    end: int
    master_begin: int
    master_end: int
    messages: int
    milliseconds: int | None
    queues: tuple[QueueLag, ...]

    @property
    def behind(self) -> int:
        """Bytes."""
        return max(0, self.master_end - self.end)

    @property
    def missing_before(self) -> int:
        """Bytes."""
        return max(0, self.begin - self.master_begin)


@dataclass(frozen=True)
class Timeline:
    """`moments`: s since the epoch, the beginnings of steps of `step` s without gaps. By topic (the biggest,
    and OTHER): messages and bytes of each step. p50, p99, max: ms of latency, None for a step without."""

    step: int
    moments: tuple[int, ...]
    messages: Mapping[str, tuple[int, ...]]
    bytes: Mapping[str, tuple[int, ...]]
    p50: tuple[int | None, ...]
    p99: tuple[int | None, ...]
    max: tuple[int | None, ...]


@dataclass(frozen=True)
class Summary:
    """The report. `topics` and `queues` are the biggest, out of `topic_count` and `queue_count`."""

    total: Group
    size_bins: Bins
    latency_bins: Bins
    topics: tuple[Group, ...]
    topic_count: int
    queues: tuple[Group, ...]
    queue_count: int
    timeline: Timeline
    slaves: tuple[SlaveLag, ...]


def summarise(
    cube: DataFrame, logs: Mapping[str, tuple[int, int]], slaves: Sequence[Extent]
) -> Summary | None:
    """Collect the report from a cube; None if it's empty.

    - cube: the sums
    - logs: broker -> (begin, end) of its log
    - slaves: in the order of the cube's `held_N` columns
    """
    whole = _rows(reportfigures.groups(cube))[0]
    if not whole["messages"]:
        return None
    total = _group(whole)
    topics, topic_count = _biggest(cube, TOPIC_ROWS, "topic")
    queues, queue_count = _biggest(cube, QUEUE_ROWS, "broker", "topic", "queue_id")
    return Summary(
        total=total,
        size_bins=_bins(whole["bins"], "size_bin"),
        latency_bins=_bins(whole["bins"], "latency_bin"),
        topics=topics,
        topic_count=topic_count,
        queues=queues,
        queue_count=queue_count,
        timeline=_timeline(cube, total, [group.topic or "" for group in topics[:PLOTTED_TOPICS]]),
        slaves=tuple(_lag(cube, number, extent, logs) for number, extent in enumerate(slaves)),
    )


def as_json(summary: Summary) -> dict[str, Any]:
    """The summary as plain values, the bins left out."""
    plain = asdict(summary)
    for name in ("size_bins", "latency_bins"):
        del plain[name]
    for lag, slave in zip(plain["slaves"], summary.slaves, strict=True):
        lag |= {"behind": slave.behind, "missing_before": slave.missing_before}
    return plain


def step_for(milliseconds: int, most: int = PLOTTED_MOMENTS, least: int = 1) -> int:
    """The shortest step (s) that cuts a span into few enough pieces.

    - milliseconds: the span
    - most: pieces
    - least: seconds of a step
    """
    for step in STEPS:
        if step >= least and milliseconds <= step * 1000 * most:
            return step
    return STEPS[-1]


def _biggest(cube: DataFrame, most: int, *keys: str) -> tuple[tuple[Group, ...], int]:
    """The groups with the most bytes, and how many groups there are."""
    found = reportfigures.groups(cube, *keys).orderBy(F.desc("bytes"), *keys)
    rows = _rows(found.limit(most + 1))
    count = len(rows) if len(rows) <= most else cube.select(*keys).distinct().count()
    return tuple(_group(row) for row in rows[:most]), count


def _group(row: Mapping[str, Any]) -> Group:
    counted = row["messages"] - row["early"]
    sizes, latencies = _bins(row["bins"], "size_bin"), _bins(row["bins"], "latency_bin")
    return Group(
        broker=row.get("broker"),
        topic=row.get("topic"),
        queue_id=row.get("queue_id"),
        messages=row["messages"],
        bytes=row["bytes"],
        first=row["first"],
        last=row["last"],
        early=row["early"],
        size=_spread(sizes, row["bytes"], row["messages"], row["size_max"]),
        latency=_spread(latencies, row["latency_sum"], counted, row["latency_max"]),
    )


def _spread(bins: Bins, total: int, count: int, most: int | None) -> Spread:
    if not count or most is None:
        return Spread(None, None, None, None, None, None)
    low, half, high, highest = (percentile(bins, share, most) for share in (0.05, 0.5, 0.9, 0.99))
    return Spread(round(total / count, 3), low, half, high, highest, most)


def _bins(found: Iterable[Mapping[str, int]], column: str) -> Bins:
    counts: Counter[int] = Counter()
    for each in found:
        if each[column] is not None:
            counts[each[column]] += each["messages"]
    return dict(sorted(counts.items()))


def _timeline(cube: DataFrame, total: Group, topics: Sequence[str]) -> Timeline:
    step = step_for(total.last - total.first)
    begin, end = (ms // (1000 * step) * step for ms in (total.first, total.last))
    moments = tuple(range(begin, end + 1, step))
    named = {each: dict[int, Any]() for each in (*topics, OTHER)}
    for row in _rows(reportfigures.volumes(cube, step, topics, OTHER)):
        named[row["topic"]][row["moment"]] = row
    if not named[OTHER]:
        del named[OTHER]
    bins: dict[int, Counter[int]] = {}
    most: Counter[int] = Counter()
    for row in _rows(reportfigures.latencies(cube, step)):
        bins.setdefault(row["moment"], Counter())[row["latency_bin"]] += row["messages"]
        most[row["moment"]] = max(most[row["moment"]], row["latency_max"])

    def volume(rows: Mapping[int, Any], column: str) -> tuple[int, ...]:
        return tuple(rows[at][column] if at in rows else 0 for at in moments)

    def share(wanted: float) -> tuple[int | None, ...]:
        return tuple(percentile(bins[at], wanted, most[at]) if at in bins else None for at in moments)

    return Timeline(
        step=step,
        moments=moments,
        messages={name: volume(rows, "messages") for name, rows in named.items()},
        bytes={name: volume(rows, "bytes") for name, rows in named.items()},
        p50=share(0.5),
        p99=share(0.99),
        max=tuple(most[at] if at in bins else None for at in moments),
    )


def _lag(cube: DataFrame, number: int, extent: Extent, logs: Mapping[str, tuple[int, int]]) -> SlaveLag:
    begin, end = logs[extent.broker]
    held = reportfigures.holdings(cube, number).where(F.col("broker") == extent.broker)
    sums = held.agg(
        F.sum(F.col("messages") - F.col("held_messages")).alias("messages"),
        F.max("last").alias("last"),
        F.max("held_last").alias("held_last"),
    )
    whole = _rows(sums)[0]
    lacking = (
        held.where(F.col("messages") > F.col("held_messages"))
        .orderBy(F.desc(F.col("bytes") - F.col("held_bytes")), "topic", "queue_id")
        .limit(QUEUE_ROWS)
    )
    return SlaveLag(
        name=extent.name,
        broker=extent.broker,
        begin=extent.begin,
        end=extent.end,
        master_begin=begin,
        master_end=end,
        messages=whole["messages"] or 0,
        milliseconds=_between(whole),
        queues=tuple(
            QueueLag(
                broker=row["broker"],
                topic=row["topic"],
                queue_id=row["queue_id"],
                messages=row["messages"] - row["held_messages"],
                bytes=row["bytes"] - row["held_bytes"],
                milliseconds=_between(row),
            )
            for row in _rows(lacking)
        ),
    )


def _between(row: Mapping[str, Any]) -> int | None:
    """ms from the last message that is held to the last one there is."""
    return None if row["held_last"] is None else row["last"] - row["held_last"]


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]
