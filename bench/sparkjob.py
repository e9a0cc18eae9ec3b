"""One measured piece of pipeline work in a process of its own: `python -m bench.sparkjob '{"job": "count", ...}'`.

A Spark session keeps what an earlier query warmed, and its memory; a row that wants figures which mean
something starts afresh. Prints one JSON line a repetition: {"seconds", "rows", "cpu" and others}, the first
marked "cold".
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import kafkajob, pulljob
from hatwisted.wire.record import decode_record
from hatwisted.wire.storedrecord import Record
from testbed.processtree import cpu_seconds

Job = dict[str, Any]
ROW_GROUP = 50_000  # messages the row-wise consumer collects before it writes them


def decode(job: Job) -> Callable[[], int]:
    """The decoder alone, without Spark."""
    from hatwisted.pipeline import read_arrow

    def run() -> int:
        return sum(batch.num_rows for batch in read_arrow([job["path"]], columns=job["columns"]))

    return run


def count(job: Job) -> Callable[[], int]:
    """All rows with the columns asked for, built and handed to Spark's JVM, which drops them."""
    from hatwisted.pipeline.spark.sparksession import spark_session

    spark = spark_session(job.get("master", "local[2]"))
    reader = kafkajob.narrowed(spark.read.format("commitlog"), job)
    if job.get("split"):
        reader = reader.option("splitBytes", str(job["split"]))

    def run() -> int:
        return int(reader.load(job["path"]).count())

    return run


def land(job: Job) -> Callable[[], int]:
    """The log into a new Delta table."""
    from hatwisted.pipeline.jobs.land.landing import land as land_job
    from hatwisted.pipeline.jobs.land.landoptions import LandOptions

    def run() -> int:
        table = Path(job["table"])
        shutil.rmtree(table, ignore_errors=True)
        return land_job([job["path"]], str(table), LandOptions(engine="spark")).rows

    return run


def audit(job: Job) -> Callable[[], int]:
    """Two stores against each other."""
    from hatwisted.pipeline.jobs.audit.auditing import audit as audit_job
    from hatwisted.pipeline.spark.sparksession import spark_session

    spark = spark_session()

    def run() -> int:
        result = audit_job(spark, job["paths"])
        if not result.identical:
            raise AssertionError(f"two equal stores differ: {result}")
        return result.records

    return run


def trigger(job: Job) -> Callable[[], int]:
    """Micro-batches of `bytes` each: a trigger's time apart from its work, as Spark reports it."""
    from hatwisted.pipeline.spark.sparksession import spark_session

    spark = spark_session()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")

    def run() -> int:
        stream = spark.readStream.format("commitlog").option("maxBytesPerTrigger", str(job["bytes"]))
        query = stream.load(job["path"]).writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        job["triggers"] = [
            entry["batchDuration"] / 1e3 for entry in query.recentProgress if entry["numInputRows"]
        ]
        return sum(entry["numInputRows"] for entry in query.recentProgress)

    return run


def rowwise(job: Job) -> Callable[[], int]:
    """What one writes first: a loop over messages, a dict each, into Parquet by the thousands."""

    def run() -> int:
        target = Path(job["table"])
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        rows: list[dict[str, Any]] = []
        total = 0
        for record in _records(Path(job["path"])):
            rows.append(_row(record))
            if len(rows) == ROW_GROUP:
                total += _write(rows, target / f"{total}.parquet")
        return total + (_write(rows, target / f"{total}.parquet") if rows else 0)

    return run


def _records(store: Path) -> Iterator[Record]:
    for path in sorted((store / "commitlog").iterdir()):
        data = path.read_bytes()
        at = 0
        while isinstance(record := decode_record(data, at), Record):
            yield record
            at += record.total_size


def _row(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "physical_offset": record.physical_offset,
        "store_timestamp": record.store_timestamp,
        "born_timestamp": record.born_timestamp,
        "properties": record.properties,
        "body": record.body,
    }


def _write(rows: list[dict[str, Any]], path: Path) -> int:
    written = len(rows)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["properties"] = [list(each.items()) for each in columns["properties"]]
    kinds = {"properties": pa.map_(pa.string(), pa.string())}
    arrays = {name: pa.array(values, kinds.get(name)) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), path, compression="zstd")
    rows.clear()
    return written


JOBS: dict[str, Callable[[Job], Callable[[], int]]] = {
    work.__name__: work
    for work in (
        *(decode, count, land, audit, trigger, rowwise),
        *(kafkajob.fill, kafkajob.noop, kafkajob.land_log, kafkajob.land_topic),
        *(pulljob.pull, pulljob.consume, pulljob.source),
    )
}


def main(text: str) -> None:
    """Print a line for each repetition of a job, or of several jobs one after the other, "place" in their list.
    "cpu": seconds of this process, its JVM and its workers; "broker": of the
    process that the job names so."""
    given = json.loads(text)
    for place, job in enumerate(given if isinstance(given, list) else [given]):
        _do(place, job)


def _do(place: int, job: Job) -> None:
    run = JOBS[job["job"]](job)
    watched = {"cpu": os.getpid(), **({"broker": job["broker"]} if "broker" in job else {})}
    for number in range(job.get("repeats", 3) + 1):
        begun = time.perf_counter()
        before = {name: cpu_seconds(process) for name, process in watched.items()}
        rows = run()
        figures = {"seconds": time.perf_counter() - begun, "rows": rows, "cold": number == 0}
        costs = {name: cpu_seconds(process) - before[name] for name, process in watched.items()}
        print(
            json.dumps({"place": place, **figures, **costs, "triggers": job.get("triggers", [])}), flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1])
