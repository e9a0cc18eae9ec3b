"""The report's column expressions, on rows made to measure."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from hatwisted.pipeline.jobs.report import reportfigures
from hatwisted.pipeline.jobs.report.reportfigures import Extent, bin_edges, percentile
from hatwisted.pipeline.jobs.report.reportsummary import OTHER, step_for, summarise
from tests.support.goldenlog import ROW_SCHEMA, row


def cube_of(spark, rows, step=1, slaves=()):
    records = spark.createDataFrame(rows, ROW_SCHEMA)
    return reportfigures.cube(reportfigures.facts(records, step, slaves), len(slaves))


def plain(frame):
    return [found.asDict() for found in frame.collect()]


def test_facts_keep_what_the_report_needs_and_nothing_else(spark):
    rows = [row(stored=61_999, born=61_000, size=5), row(stored=5, born=6)]
    found = plain(reportfigures.facts(spark.createDataFrame(rows, ROW_SCHEMA), 60))
    assert list(found[0]) == ["broker", "topic", "queue_id", "moment", "stored", "size", "latency"]
    assert (found[0]["moment"], found[0]["latency"], found[0]["size"]) == (60, 999, 5)
    assert (found[1]["moment"], found[1]["latency"]) == (0, None)


def test_bins_hold_their_numbers(spark):
    numbers = [*range(2000), *(2**power + step for power in range(11, 43) for step in (-2, -1, 0, 1))]
    frame = spark.createDataFrame([(number,) for number in numbers], "number bigint")
    found = frame.select("number", reportfigures.bin_of(frame.number).alias("bin")).collect()
    assert len(found) == len(numbers)
    for number, chosen in found:
        low, high = bin_edges(chosen)
        assert low <= number <= high <= max((number + 1) * 1.0906 - 1, number), (number, chosen, low, high)


def test_the_cube_adds_up(spark):
    rows = [row(size=100 + number, stored=1000 * number + 7, born=1000 * number) for number in range(10)]
    rows += [row(topic="U", broker="c", queue_id=1, stored=3, born=4)]
    (whole,) = plain(reportfigures.rolled_up(cube_of(spark, rows)))
    assert whole == {
        "messages": 11, "bytes": 1145, "latency_sum": 70, "early": 1, "size_max": 109, "latency_max": 7,
        "first": 3, "last": 9007,
    }  # fmt: skip
    by_topic = {found["topic"]: found for found in plain(reportfigures.groups(cube_of(spark, rows), "topic"))}
    assert by_topic["T"]["messages"] == 10
    assert sum(each["messages"] for each in by_topic["T"]["bins"]) == 10
    assert by_topic["U"]["latency_max"] is None


def test_by_minute_topic_and_queue(spark):
    rows = [
        row(stored=59_000),
        row(stored=60_000, born=59_990),
        row(stored=61_000),
        row(stored=61_000, queue_id=1),
    ]
    found = plain(reportfigures.minutes(cube_of(spark, rows)))
    assert [(each["minute"], each["queue_id"], each["messages"]) for each in found] == [
        (0, 0, 1),
        (60, 0, 2),
        (60, 1, 1),
    ]
    assert found[1]["latency_max_ms"] == 61_000


def test_lag_is_measured_by_offsets(spark):
    slave = Extent("s", "b", 100, 300)
    rows = [row(physical_offset=at, size=100, stored=at) for at in range(0, 500, 100)]
    rows.append(row(broker="other", physical_offset=100))
    summary = summarise(cube_of(spark, rows, slaves=[slave]), {"b": (0, 500), "other": (0, 200)}, [slave])
    assert summary is not None
    (lag,) = summary.slaves
    assert (lag.behind, lag.missing_before, lag.messages, lag.milliseconds) == (200, 100, 3, 200)
    assert [(each.queue_id, each.messages, each.bytes) for each in lag.queues] == [(0, 3, 300)]


def test_small_topics_share_a_line(spark):
    rows = [row(topic=f"T{number}", size=1000 - number, stored=1000 * number) for number in range(9)]
    summary = summarise(cube_of(spark, rows), {"b": (0, 1)}, [])
    assert summary is not None
    assert list(summary.timeline.messages) == [*(f"T{number}" for number in range(7)), OTHER]
    assert summary.timeline.messages[OTHER] == (0,) * 7 + (1, 1)
    assert sum(map(sum, summary.timeline.bytes.values())) == summary.total.bytes
    assert summary.topic_count == 9


def test_nothing_at_all(spark):
    assert summarise(cube_of(spark, []), {}, []) is None


def test_percentiles_are_never_beyond_the_maximum():
    bins = {0: 50, 8: 49, 40: 1}
    assert percentile(bins, 0.5, 33) == 0
    assert percentile(bins, 0.99, 33) == 1
    assert percentile(bins, 1.0, 33) == 33
    assert percentile({}, 0.5, 0) is None


def test_steps_of_a_time_axis():
    assert step_for(0) == 1
    assert step_for(299_000) == 1
    assert step_for(3_600_000) == 30
    assert step_for(10**15) == 7 * 86_400
