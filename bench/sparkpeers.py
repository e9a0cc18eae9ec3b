"""A row beside Spark's own Kafka source: the same bodies, the same Spark, the same cores.

Ours reads a log from the page cache, Kafka's a topic of a broker on the same machine, as each of them is used: a
log's files lie where Spark runs, a topic's are the broker's. So the broker's CPU time is told beside Spark's. The
log is removed before Kafka's turn: memory then has the topic as it had the log.
"""

from __future__ import annotations

import os
import shutil
from statistics import median
from typing import Any

from bench import kafkajob
from bench.arena import Arena, RowFailed
from bench.figures import Outcome, Values, ratio_figure
from bench.kafkajob import Job
from bench.peers import kafka_pair
from bench.sparking import CORES, GIB, Log, check_rows, cores_of, log, need_room, run_job, run_jobs
from testbed import kafkapair
from testbed.brokergroup import JAVA as KAFKA
from testbed.brokergroup import OURS
from testbed.kafkapair import KafkaPair

SIZES = (1, 2, 4, 8, 16)
"""GiB; `--gib` chooses others."""
ROOM = 2
"""Times the log's size on the disk: with the topic that is filled from it, or one of them with a table."""
BODY = 1024
TOPIC = "log"
PARTITIONS = 4
REPEATS = 3
OFTEN = 4
"""GiB up to which everything is repeated."""
KAFKAS = ["topic", "queue_id", "queue_offset", "store_timestamp", "keys", "body"]
"""Ours of the columns that Kafka's source has."""
ALL, SAME, LAND = "all columns to nowhere", "Kafka's columns to nowhere", "landing"
LABELS = {
    ALL: "all columns (ours 20 and more, Kafka's source 7) to nowhere",
    SAME: "Kafka's columns to nowhere",
    LAND: "landing with zstd (ours a Delta table exactly once, Kafka's Parquet files)",
}
Results = list[dict[str, Any]]
Found = dict[tuple[str, int], Results]


def spark_kafka(arena: Arena) -> Outcome:
    """Spark over a log, and Spark's own source over a Kafka topic of the same bodies: by size and cores."""
    missing = kafkapair.available() or kafkajob.JARS.missing()
    if missing is not None:
        raise RowFailed(missing)
    outcome = Outcome(series={"points": []})
    for gib in arena.sizes or SIZES:
        size = int(gib * GIB)
        need_room(arena, ROOM * (size // 10 if arena.quick else size))
        with kafka_pair(arena) as kafka:
            kafka.start_leader()
            with log(arena, size, BODY) as made:
                ours = _ours(arena, made)
                _fill(arena, made, kafka)
            theirs = _theirs(arena, made, kafka)
        _tell(outcome, made, ours, theirs)
    outcome.notes.append(
        f"Kafka {kafkapair.VERSION}, one broker, a topic of {PARTITIONS} partitions, minPartitions=2; Spark's "
        f"Kafka source {kafkajob.VERSION}; the broker's CPU time isn't in the CPU time of Spark"
    )
    return outcome


def _ours(arena: Arena, made: Log) -> Found:
    noop: Job = {"job": "noop", "source": "commitlog", "path": str(made.path)}
    jobs: dict[str, Job] = {
        ALL: noop | {"columns": None},
        SAME: noop | {"columns": KAFKAS},
        LAND: {"job": "land_log", "path": str(made.path)},
    }
    return _run(arena, made, jobs)


def _theirs(arena: Arena, made: Log, kafka: KafkaPair) -> Found:
    topic: Job = {"address": kafka.address, "topic": TOPIC, "broker": kafka.leader.pid}
    jobs: dict[str, Job] = {
        ALL: topic | {"job": "noop", "source": "kafka"},
        LAND: topic | {"job": "land_topic"},
    }
    found = _run(arena, made, jobs)
    return found | {(SAME, cores): found[ALL, cores] for cores in cores_of(arena)}


def _run(arena: Arena, made: Log, jobs: dict[str, Job]) -> Found:
    """The runs that count, of each job by what it does and Spark's cores; a Spark of its own for each of these."""
    found: Found = {}
    table = arena.folder / "spark-table"
    repeats = REPEATS if made.size <= OFTEN * GIB and not arena.quick else 1
    for cores in cores_of(arena):
        given = {"cores": cores, "repeats": repeats, "table": str(table)}
        arena.warm_memory()
        try:
            done = run_jobs(arena, [given | job for job in jobs.values()])
        finally:
            shutil.rmtree(table, ignore_errors=True)
        for what, results in zip(jobs, done, strict=True):
            check_rows(results, made.records)
            counted = [result for result in results if not result["cold"]]
            found[what, cores] = counted
            seconds = median(result["seconds"] for result in counted)
            whose = "Kafka's" if "broker" in jobs[what] else "ours"
            arena.say(f"{made.size / GIB:.2f} GiB, {cores} cores, {whose}, {what}: {seconds:.2f} s")
    return found


def _fill(arena: Arena, made: Log, kafka: KafkaPair) -> None:
    arena.say(f"sending {made.records:,} bodies to Kafka")
    kafka.create(TOPIC, PARTITIONS)
    job = {"path": str(made.path), "address": kafka.address, "topic": TOPIC, "cores": max(CORES)}
    check_rows(run_job(arena, repeats=0, job="fill", **job), made.records)
    os.sync()


def _tell(outcome: Outcome, made: Log, ours: Found, theirs: Found) -> None:
    gib = made.size / GIB
    for (what, cores), results in ours.items():
        others = theirs[what, cores]
        label = f"Spark local[{cores}], {gib:.4g} GiB, {LABELS[what]}"
        values: Values = {kind: [each["seconds"] for each in runs] for kind, runs in _both(results, others)}
        outcome.figures.append(ratio_figure(label, "s", values, at_most=1.0, other="Kafka", digits=2))
        costs: Values = {
            kind: [1e6 * each["cpu"] / made.records for each in runs] for kind, runs in _both(results, others)
        }
        outcome.figures.append(
            ratio_figure(f"{label}: CPU time", "µs a message", costs, at_most=1.0, other="Kafka", digits=2)
        )
        broker = median(1e6 * each["broker"] / made.records for each in others)
        outcome.notes.append(f"{label}: Kafka's broker took {broker:.2f} µs of CPU time a message besides")
        outcome.series["points"] += [
            {
                "gib": gib,
                "cores": cores,
                "what": what,
                "kind": kind.value,
                "seconds": median(each["seconds"] for each in runs),
                "cpu": median(each["cpu"] for each in runs),
            }
            for kind, runs in _both(results, others)
        ]


def _both(ours: Results, theirs: Results) -> tuple[tuple[Any, Results], ...]:
    return (OURS, ours), (KAFKA, theirs)
