"""The report's numbers: column expressions that turn records into one small cube, and the cube's roll-ups.

A log is read once. `facts` keeps what the report needs of a record, `cube` counts records by broker, topic,
queue, moment, size bin and latency bin; every table and plot is a roll-up of that cube, which has as many rows
as there are combinations, not records. Percentiles come from the bins, so they add up over any grouping and
are the same however the log was split. Bins grow by 2^(1/8): a percentile is at most a tenth above the true one,
and never above the maximum. `percentile_approx` was rejected: its sketches can't be rolled up in SQL, so each
grouping would have to read the log again.

How much of a log its slaves hold is measured by offsets alone: a slave's log is a piece of its master's, so a
record is held if it lies within the piece. That the bytes are the same is for the audit to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

COLUMNS: Final = (
    "broker", "topic", "queue_id", "physical_offset", "size", "store_timestamp", "born_timestamp",
)  # fmt: skip
"""What is read of a record: never its body."""

BINS_PER_OCTAVE: Final = 8
_SLACK: Final = 1e-12
"""Keeps an exact power of two in its own bin whatever the logarithm's last bits say; less than what tells
neighbours apart up to 2^42 (bytes, or ms: 139 years)."""

MINUTE: Final = 60
"""s"""


@dataclass(frozen=True)
class Extent:
    """A piece of `broker`'s log that a slave holds: physical offsets, bytes, `end` after its last record."""

    name: str
    broker: str
    begin: int
    end: int


def facts(records: DataFrame, step: int, slaves: Sequence[Extent] = ()) -> DataFrame:
    """One row a record: its group, its moment (s since the epoch, a multiple of the step), sizes and latency.

    - records: rows of the source
    - step: seconds
    - slaves: what each log holds

    The latency is ms from born to stored. It is negative if the producer's clock is ahead of the broker's;
    such a record counts as `early` and has no latency.
    """
    latency = F.unix_millis("store_timestamp") - F.unix_millis("born_timestamp")
    stored = F.unix_millis("store_timestamp")
    return records.select(
        "broker",
        "topic",
        "queue_id",
        moment(stored, step).alias("moment"),
        stored.alias("stored"),
        F.col("size").cast("bigint").alias("size"),
        F.when(latency >= 0, latency).alias("latency"),
        *(held_by(extent).alias(f"held_{number}") for number, extent in enumerate(slaves)),
    )


def cube(facts: DataFrame, slaves: int = 0) -> DataFrame:
    """The facts counted, with `slaves` of the `held_N` columns."""
    return facts.groupBy(
        "broker",
        "topic",
        "queue_id",
        "moment",
        bin_of(F.col("size")).alias("size_bin"),
        bin_of(F.col("latency")).alias("latency_bin"),
    ).agg(
        F.count("*").alias("messages"),
        F.sum("size").alias("bytes"),
        F.max("size").alias("size_max"),
        F.sum("latency").alias("latency_sum"),
        F.max("latency").alias("latency_max"),
        F.count_if(F.col("latency").isNull()).alias("early"),
        F.min("stored").alias("first"),
        F.max("stored").alias("last"),
        *(each for number in range(slaves) for each in _held(number)),
    )


def rolled_up(cube: DataFrame, *keys: str | Column) -> DataFrame:
    """The cube's totals by `keys`: messages, bytes, maxima, sum of latencies, early, first and last (ms)."""
    return cube.groupBy(*keys).agg(*_totals())


def groups(cube: DataFrame, *keys: str) -> DataFrame:
    """The totals by `keys`, and beside them `bins`: array of (size_bin, latency_bin, messages)."""
    fine = rolled_up(cube, *keys, "size_bin", "latency_bin")
    bins = F.collect_list(F.struct("size_bin", "latency_bin", "messages")).alias("bins")
    return fine.groupBy(*keys).agg(*_totals(), bins)


def holdings(cube: DataFrame, number: int) -> DataFrame:
    """By broker, topic, queue: what the log has, and what slave `number` holds of it (`held_last`: ms)."""
    return cube.groupBy("broker", "topic", "queue_id").agg(
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.max("last").alias("last"),
        F.sum(f"held_messages_{number}").alias("held_messages"),
        F.sum(f"held_bytes_{number}").alias("held_bytes"),
        F.max(f"held_last_{number}").alias("held_last"),
    )


def volumes(cube: DataFrame, step: int, topics: Sequence[str], other: str) -> DataFrame:
    """Messages and bytes by moment and topic.

    - cube: the sums
    - step: seconds between two moments
    - topics: shown by name
    - other: the name of all others together
    """
    name = F.when(F.col("topic").isin(list(topics)), F.col("topic")).otherwise(other)
    return cube.groupBy(coarser(step), name.alias("topic")).agg(
        F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")
    )


def latencies(cube: DataFrame, step: int) -> DataFrame:
    """How many messages each latency bin has by moment of `step` s, and the moment's maximum."""
    return (
        cube.where(F.col("latency_bin").isNotNull())
        .groupBy(coarser(step), "latency_bin")
        .agg(F.sum("messages").alias("messages"), F.max("latency_max").alias("latency_max"))
    )


def minutes(cube: DataFrame) -> DataFrame:
    """By minute (s since the epoch), broker, topic and queue, in this order: the whole detail of the report."""
    found = rolled_up(cube, coarser(MINUTE), "broker", "topic", "queue_id")
    return found.select(
        F.col("moment").alias("minute"),
        "broker",
        "topic",
        "queue_id",
        "messages",
        "bytes",
        mean_latency().alias("latency_mean_ms"),
        F.col("latency_max").alias("latency_max_ms"),
        F.col("early").alias("born_after_stored"),
    ).orderBy("minute", "broker", "topic", "queue_id")


def moment(milliseconds: Column, step: int) -> Column:
    """The beginning of its `step` (s), in s since the epoch."""
    return (F.floor(milliseconds / (1000 * step)) * step).cast("bigint")


def coarser(step: int) -> Column:
    """The cube's `moment` in steps of `step` s."""
    return (F.floor(F.col("moment") / step) * step).cast("bigint").alias("moment")


def bin_of(value: Column) -> Column:
    """The logarithmic bin of a number >= 0; null for null."""
    return F.floor(F.log2(value + 1) * BINS_PER_OCTAVE + _SLACK).cast("int")


def mean_latency() -> Column:
    """ms, of the messages that have a latency; null if none has."""
    counted = F.col("messages") - F.col("early")
    return F.when(counted > 0, F.round(F.col("latency_sum") / counted, 3))


def held_by(extent: Extent) -> Column:
    """Is the record within the slave's piece of the log?"""
    offset = F.col("physical_offset")
    return (F.col("broker") == extent.broker) & (offset >= extent.begin) & (offset < extent.end)


def _totals() -> tuple[Column, ...]:
    return (
        *(F.sum(name).alias(name) for name in ("messages", "bytes", "latency_sum", "early")),
        *(F.max(name).alias(name) for name in ("size_max", "latency_max", "last")),
        F.min("first").alias("first"),
    )


def _held(number: int) -> tuple[Column, ...]:
    held = F.col(f"held_{number}")
    return (
        F.count_if(held).alias(f"held_messages_{number}"),
        F.sum(F.when(held, F.col("size")).otherwise(0)).alias(f"held_bytes_{number}"),
        F.max(F.when(held, F.col("stored"))).alias(f"held_last_{number}"),
    )


# ---- the bins, on this side of Spark


def bin_edges(number: int) -> tuple[int, int]:
    """The first and the last whole number of a bin."""
    lower, upper = (2 ** ((number + step) / BINS_PER_OCTAVE) - 1 for step in (0, 1))
    return max(0, _ceiling(lower)), _ceiling(upper) - 1


def _ceiling(value: float) -> int:
    """The next whole number, with the slack of `bin_of`: 7.0000000001 is 7."""
    return -int(-(value - 1e-6) // 1)


def percentile(bins: Mapping[int, int], share: float, most: int) -> int | None:
    """The smallest whole number that at least a share of the values doesn't exceed; None without any.

    - bins: number of a bin -> count
    - share: from 0 to 1
    - most: the true maximum, above which no percentile can lie
    """
    wanted = share * sum(bins.values())
    reached = 0
    for number in sorted(bins):
        reached += bins[number]
        if reached >= wanted:
            return min(most, bin_edges(number)[1])
    return None
