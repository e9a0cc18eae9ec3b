"""Rows of landing without Spark: CPU time and memory into tables of both kinds, and what that time goes for.

Each landing is a process of its own (`python -m bench.landing '{...}'`), over a log in the page cache. CPU time is
what is judged: a landing is one thread, and what a core does in a second holds on a busy machine as well.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.arena import Arena, RowFailed
from bench.figures import Outcome, Values, absolute_figure
from bench.sparking import GIB, log
from testbed.brokergroup import OURS
from testbed.processes import REPOSITORY

KINDS = {"delta": "Delta", "iceberg": "Iceberg"}
PARTS = {
    "Parquet and zstd": ("pyarrow/parquet/core.py",),
    "ordering rows by partition": ("hatwisted/pipeline/delta/partitionrows.py", "take"),
    "reading": ("posix.preadv",),
    "decoding": ("hatwisted/pipeline/decode/", "hatwisted/logcodec/", "pyarrow/compute.py", "numpy"),
}
"""Of a landing's CPU time: what files, or names, of functions have in them; the first that fits."""
REST = "all else"


def land_local(arena: Arena) -> Outcome:
    """1 GiB of log into a Delta and an Iceberg table, by turns; then once more, profiled."""
    outcome = Outcome()
    with log(arena, GIB, 1024) as made:
        results: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        for number in range(arena.repeats):
            for kind in KINDS:
                arena.say(f"landing into {KINDS[kind]}, {number + 1} of {arena.repeats}")
                results[kind].append(_landed(arena, kind, made.path, made.records))
        for kind, found in results.items():
            into = f"landing without Spark into {KINDS[kind]}"
            rates: Values = {OURS: [made.size / 1e6 / each["cpu"] for each in found]}
            outcome.figures.append(absolute_figure(into, "MB of log a CPU second", rates, "–"))
            memory: Values = {OURS: [each["memory"] / 1e6 for each in found]}
            outcome.figures.append(absolute_figure(f"{into}: memory at most", "MB", memory, "–"))
            sizes = median(each["bytes"] for each in found) / made.size
            outcome.notes.append(f"{KINDS[kind]}: the table has {sizes:.2f} of the log's bytes")
            parts = _landed(arena, kind, made.path, made.records, profiled=True)["parts"]
            whole = sum(parts.values())
            shares = ", ".join(f"{name} {share / whole:.0%}" for name, share in parts.items())
            outcome.notes.append(f"{KINDS[kind]}: CPU time goes for {shares}")
    return outcome


def _landed(arena: Arena, kind: str, path: Path, records: int, *, profiled: bool = False) -> dict[str, Any]:
    folder = arena.folder / "landed"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = {"kind": kind, "path": str(path), "folder": str(folder), "profiled": profiled}
    command = [sys.executable, "-m", "bench.landing", json.dumps(job)]
    try:
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        if done.returncode:
            raise RowFailed(f"landing into {kind} failed: {done.stderr[-1000:]}")
        found: dict[str, Any] = json.loads(done.stdout)
        if found["rows"] != records:
            raise RowFailed(f"{found['rows']} rows of {records} landed into {kind}")
        found["bytes"] = sum(each.stat().st_size for each in folder.rglob("*.parquet"))
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Land once, as the job says, and print what it took."""
    job = json.loads(sys.argv[1])
    folder = job["folder"]
    before = "PYICEBERG_CATALOG__BENCH__"
    os.environ |= {
        f"{before}TYPE": "sql",
        f"{before}URI": f"sqlite:///{folder}/catalog.db",
        f"{before}WAREHOUSE": f"file://{folder}/warehouse",
    }
    from hatwisted.pipeline.jobs.land.landing import LandOptions, land

    table = f"{folder}/table" if job["kind"] == "delta" else "iceberg:bench.landed.messages"
    profile = cProfile.Profile(time.process_time)
    begun = time.process_time()
    if job["profiled"]:
        profile.enable()
    rows = land([job["path"]], table, LandOptions(engine="local")).rows
    profile.disable()
    found = {
        "rows": rows,
        "cpu": time.process_time() - begun,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "parts": dict(_parts(profile)) if job["profiled"] else {},
    }
    print(json.dumps(found))


def _parts(profile: cProfile.Profile) -> Iterator[tuple[str, float]]:
    """CPU seconds by part."""
    seconds = dict.fromkeys((*PARTS, REST), 0.0)
    timed: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = vars(pstats.Stats(profile))[
        "stats"
    ]
    for (file, _, function), (_, _, own, _, _) in timed.items():
        fits = (
            name for name, marks in PARTS.items() if any(mark in file or mark in function for mark in marks)
        )
        seconds[next(fits, REST)] += own
    yield from seconds.items()


if __name__ == "__main__":
    main()
