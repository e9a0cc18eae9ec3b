"""Rows of the data pipeline: the decoder, Spark on two cores, and what a user would write instead.

Every figure comes from a process of its own (bench/sparkjob.py); its first run, in which the JVM warms up, is
reported in the notes and not counted. The stores are those of bench/logmaker.py, read from the page cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.arena import Arena, RowFailed
from bench.figures import Outcome, Values, absolute_figure
from bench.logmaker import make_store
from bench.sampling import Sample, Sampler
from testbed.brokergroup import JAVA, OURS
from testbed.processes import REPOSITORY
from testbed.processtree import descendants

ONE = ["queue_offset"]
PROTOTYPE = [
    "topic",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "store_timestamp",
    "born_timestamp",
    "flag",
    "sys_flag",
    "reconsume_times",
    "prepared_transaction_offset",
    "body",
]
"""The fixed fields, topic and body: no maps, lists and host texts."""
GIB = 1 << 30
LEFT_FREE = 2 << 30
"""Bytes of the disk that stay free."""
ROWWISE_BYTES = 256 << 20
GROWTH = (1, 2, 4, 8, 16, 32)
"""GiB; `--gib` chooses others. One log is there at a time."""
SPLIT_AT = 4
"""GiB of the log that is split in several ways."""
CORES = (1, 2)


@dataclass(frozen=True)
class Log:
    """A made store."""

    path: Path
    size: int
    records: int


@contextmanager
def log(arena: Arena, size: int, body: int, name: str = "log") -> Iterator[Log]:
    """A store of `size` bytes (a tenth in a quick run) with bodies of `body` bytes, removed afterwards."""
    size = size // 10 if arena.quick else size
    folder = arena.folder / f"spark-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        need_room(arena, size)
        arena.say(f"making a log of {size / GIB:.2f} GiB, bodies of {body} bytes")
        records = make_store(folder, size, body)
        os.sync()
        yield Log(folder, size, records)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cores_of(arena: Arena) -> tuple[int, ...]:
    """How many cores Spark has by turns."""
    return CORES[-1:] if arena.quick else CORES


def need_room(arena: Arena, size: int) -> None:
    """Refuse what would fill the disk."""
    arena.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(arena.folder).free
    if free < size + LEFT_FREE:
        raise RowFailed(f"{free / GIB:.1f} GiB are free, {(size + LEFT_FREE) / GIB:.1f} GiB are needed")


def run_job(arena: Arena, **job: Any) -> list[dict[str, Any]]:
    """The repetitions of one job, the cold one first."""
    process = start_job(arena, **job)
    output, errors = process.communicate()
    return finished(process.returncode, output, errors)


def run_jobs(arena: Arena, jobs: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """As `run_job`, of several jobs that one process does one after the other: one Spark for all of them."""
    process = _start(json.dumps(jobs))
    output, errors = process.communicate()
    lines = finished(process.returncode, output, errors)
    return [[line for line in lines if line["place"] == place] for place in range(len(jobs))]


def start_job(arena: Arena, **job: Any) -> subprocess.Popen[str]:
    return _start(json.dumps({"repeats": arena.repeats, **job}))


def _start(text: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.sparkjob", text]
    return subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(status: int, output: str, errors: str) -> list[dict[str, Any]]:
    if status:
        raise RowFailed(f"the job failed: {(errors.strip().splitlines() or ['no reason given'])[-1]}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def rates(results: Iterable[dict[str, Any]], amount: float) -> list[float]:
    """`amount` a second, of the runs that count."""
    return [amount / result["seconds"] for result in results if not result["cold"]]


def decode(arena: Arena) -> Outcome:
    """The decoder alone, one core, 1 GiB from the page cache."""
    outcome = Outcome()
    targets = {1024: 2.3, 128: 5.3}
    for body, target in targets.items():
        with log(arena, GIB, body) as made:
            for columns, what in (
                (PROTOTYPE, "fixed fields, topic, body"),
                (None, "all columns, maps and texts too"),
            ):
                results = run_job(arena, job="decode", path=str(made.path), columns=columns)
                values: Values = {OURS: rates(results, made.records / 1e6)}
                label = f"decoder, one core, {body} B bodies: {what}"
                figure = absolute_figure(
                    label, "M msgs/s", values, f"≥ {target:g}", at_least=target, digits=2
                )
                outcome.figures.append(figure)
    return outcome


def count(arena: Arena) -> Outcome:
    """Spark local[2] counts over 4 GiB, all columns built and one."""
    outcome = Outcome()
    with log(arena, 4 * GIB, 1024) as made:
        for columns, target, what in (
            (None, 1.0, "all columns"),
            (PROTOTYPE, 2.3 * max(CORES), "fixed fields, topic, body"),
            (ONE, None, "one column"),
        ):
            results = run_job(arena, job="count", path=str(made.path), columns=columns)
            check_rows(results, made.records)
            values: Values = {OURS: rates(results, made.records / 1e6)}
            label = f"Spark local[2], count over {made.size / GIB:.1f} GiB, {what}"
            asked = "–" if target is None else f"≥ {target:g}"
            outcome.figures.append(
                absolute_figure(label, "M msgs/s", values, asked, at_least=target, digits=2)
            )
            outcome.notes.append(f"{what}: the first query of a session took {results[0]['seconds']:.1f} s")
    return outcome


def land(arena: Arena) -> Outcome:
    """Landing 4 GiB as Parquet (zstd) with a Delta log; next to it a row-wise consumer, one process."""
    outcome = Outcome()
    table = str(arena.folder / "spark-table")
    values: Values = {}
    try:
        with log(arena, ROWWISE_BYTES, 1024, "small") as made:
            results = run_job(arena, job="rowwise", path=str(made.path), table=table)
            values[JAVA] = rates(results, made.size / 1e6)
        with log(arena, 4 * GIB, 1024) as made:
            results = run_job(arena, job="land", path=str(made.path), table=table)
            check_rows(results, made.records)
            values[OURS] = rates(results, made.size / 1e6)
    finally:
        shutil.rmtree(table, ignore_errors=True)
    label = "landing to Parquet zstd with a Delta log, local[2]"
    outcome.figures.append(absolute_figure(label, "MB/s of log", values, "≥ 430 MB/s", at_least=430))
    return outcome


def trigger(arena: Arena) -> Outcome:
    """Streaming: seconds a trigger takes that has almost nothing to do."""
    outcome = Outcome()
    with log(arena, 64 << 20, 1024) as made:
        results = run_job(arena, job="trigger", path=str(made.path), bytes=made.size // 40)
        seconds: Values = {OURS: [median(result["triggers"]) for result in results if not result["cold"]]}
    label = "streaming, a trigger with 1.6 MB of log"
    outcome.figures.append(absolute_figure(label, "s", seconds, "≤ 0.3 s", at_most=0.3, digits=2))
    return outcome


def audit(arena: Arena) -> Outcome:
    """Two equal stores of 4 GiB audited."""
    outcome = Outcome()
    with log(arena, 4 * GIB, 1024, "master") as made, log(arena, 4 * GIB, 1024, "slave") as copy:
        paths = [str(made.path), str(copy.path)]
        results = run_job(arena, job="audit", paths=paths)
        check_rows(results, made.records)
        values: Values = {OURS: rates(results, (made.size + copy.size) / 1e9)}
    label = f"audit of two stores of {made.size / GIB:.1f} GiB, local[2]"
    outcome.figures.append(absolute_figure(label, "GB/s of log", values, "≥ 1 GB/s", at_least=1.0, digits=2))
    return outcome


def growth(arena: Arena) -> Outcome:
    """Time and memory over data (1 to 32 GiB) with one core and two, and time over split sizes, all columns."""
    outcome = Outcome()
    outcome.series = {"data": [], "cores": [], "splits": []}
    sizes = arena.sizes or GROWTH
    for gib in sizes:
        with log(arena, int(gib * GIB), 1024) as made:
            for cores in cores_of(arena):
                result, peak = _watched(arena, made, cores)
                which = "data" if cores == max(CORES) else "cores"
                point = {"gib": made.size / GIB, "cores": cores, "seconds": result["seconds"], **peak}
                outcome.series[which].append(point)
            if gib == SPLIT_AT:
                _over_splits(arena, made, outcome)
    first, last = outcome.series["data"][0], outcome.series["data"][-1]
    extent = f"{first['gib']:g} to {last['gib']:g} GiB"
    for which in ("python", "jvm"):
        values: Values = {OURS: [point[which] for point in outcome.series["data"]]}
        label = f"anonymous memory of Spark's {'Python workers' if which == 'python' else 'JVM'}, {extent}"
        outcome.figures.append(absolute_figure(label, "MB at most", values, "flat"))
    grown = {OURS: [last["python"] / max(1.0, first["python"])]}
    outcome.figures.append(
        absolute_figure(
            f"workers' memory at {last['gib']:g} GiB, compared with {first['gib']:g} GiB",
            "x",
            grown,
            "flat: ≤ 1.25x",
            at_most=1.25,
            digits=2,
        )
    )
    return outcome


def _over_splits(arena: Arena, made: Log, outcome: Outcome) -> None:
    for split in (4, 16, 64, 256, 1024):
        results = run_job(arena, job="count", path=str(made.path), columns=None, split=split << 20, repeats=1)
        outcome.series["splits"].append(
            {"partitions": -(-made.size // (split << 20)), "seconds": results[-1]["seconds"]}
        )


def _watched(arena: Arena, made: Log, cores: int) -> tuple[dict[str, Any], Sample]:
    master = f"local[{cores}]"
    process = start_job(arena, job="count", path=str(made.path), columns=None, master=master, repeats=1)
    with Sampler(lambda: _tree_memory(process.pid)) as sampler:
        output, errors = process.communicate()
    results = finished(process.returncode, output, errors)
    if not sampler.samples:
        raise RowFailed(f"no memory samples: {sampler.failure}")
    peak = {which: max(sample[which] for sample in sampler.samples) for which in ("python", "jvm")}
    arena.say(f"{made.size / GIB:.2f} GiB, {cores} cores: {results[-1]['seconds']:.1f} s, {peak}")
    return results[-1], peak


def _tree_memory(root: int) -> Sample:
    """Anonymous memory (MB) of the JVM below `root` and of all Python workers below that."""
    memory: Sample = {"python": 0.0, "jvm": 0.0}
    for process in descendants(root):
        try:
            status = Path(f"/proc/{process}/status").read_text()
            name = Path(f"/proc/{process}/comm").read_text().strip()
        except OSError:
            continue
        anonymous = next((line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")), "0")
        memory["jvm" if name == "java" else "python"] += int(anonymous) / 1e3
    return memory


def check_rows(results: list[dict[str, Any]], records: int) -> None:
    """A rate over other rows than the log has means nothing."""
    seen = {result["rows"] for result in results}
    if seen != {records}:
        raise RowFailed(f"{records} records were made and {seen} rows were read")
