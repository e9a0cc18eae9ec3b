"""`python -m bench`: run the rows, keep their results in bench/results/latest.json, write docs/benchmarks.md.

A short run (`--quick`) writes next to its stores under var/bench instead: its figures aren't worth keeping.
`--only` replaces single rows of the last results. A row or a contender that fails is reported in the table, and
the run goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import (
    catchup,
    consuming,
    history,
    landing,
    manytopics,
    peers,
    protecting,
    report,
    restarting,
    sampling,
    scaling,
    sending,
    sourcepull,
    sparking,
    sparkpeers,
    waiting,
    watching,
)
from bench.arena import Arena, last_core
from bench.figures import Figure, Outcome, spread
from bench.plots import draw_all
from testbed import javarocketmq
from testbed.brokergroup import JAVA, OURS, Kind
from testbed.processes import REPOSITORY

ROWS: dict[str, Callable[[Arena], Outcome]] = {
    "send-sync": sending.send_sync,
    "send-async": sending.send_async,
    "batch-sync": sending.batch_sync,
    "latency": sending.latency,
    "sync-cost": sending.sync_cost,
    "flush-single": sending.flush_single,
    "flush-batch": sending.flush_batch,
    "two-groups": scaling.two_groups,
    "acl-cost": protecting.acl_cost,
    "tls-cost": protecting.tls_cost,
    "metrics-cost": watching.metrics_cost,
    "catch-up": catchup.catch_up,
    "catch-up-delay": catchup.catch_up_delayed,
    "catch-up-tls": protecting.ha_tls_cost,
    "memory": sampling.memory,
    "silent-slave": waiting.silent_slave,
    "restart": restarting.restart,
    "rebuild": restarting.rebuild,
    "dispatch-lag": sampling.dispatch_lag,
    "pull": consuming.pull,
    "end-to-end": consuming.end_to_end,
    "idle": manytopics.idle_connections,
    "topics": manytopics.topics,
    "more-topics": manytopics.more_topics,
    "kafka-sync": peers.kafka_sync,
    "kafka-async": peers.kafka_async,
    "spark-decode": sparking.decode,
    "spark-count": sparking.count,
    "spark-land": sparking.land,
    "land-local": landing.land_local,
    "spark-trigger": sparking.trigger,
    "spark-audit": sparking.audit,
    "spark-growth": sparking.growth,
    "source-pull": sourcepull.source_pull,
    "spark-kafka": sparkpeers.spark_kafka,
}
STORES = REPOSITORY / "var" / "bench"
RESULTS = REPOSITORY / "bench" / "results" / "latest.json"
HISTORY = RESULTS.with_name("history.jsonl")
DOCUMENT = REPOSITORY / "docs" / "benchmarks.md"
BUSY = 1.0  # load from which on a row says that the machine wasn't its own
MOST_GIB = 1024
FREE_BYTES = 40 << 30  # the fullest rows hold four stores of up to 10 GB


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    kinds = _contenders(options.no_java, options.no_ours)
    if not _enough_room(options.quick):
        return 1
    core = last_core() if options.pin else None
    arena = Arena(STORES, kinds, options.quick, sorted(options.gib), core=core)
    results = _earlier(options)
    begun, version = time.monotonic(), history.revision()
    chosen = options.only or list(ROWS)
    for number, name in enumerate(chosen, 1):
        arena.prefix = f"{number}/{len(chosen)} {name}: "
        results["rows"][name] = _run(arena, name)
        if not options.quick:
            figures = (Figure(**each) for each in results["rows"][name]["figures"])
            history.add(HISTORY, version, name, figures)
        _write(results, options.quick)
    arena.end()
    minutes = (time.monotonic() - begun) / 60
    arena.prefix = ""
    arena.say(
        f"{len(chosen)} rows in {minutes:.1f} min, see {_document(options.quick).relative_to(REPOSITORY)}"
    )
    return 1 if any(results["rows"][name]["errors"] for name in chosen) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(ROWS), help="just this row (may be repeated)")
    parser.add_argument(
        "--quick", action="store_true", help="seconds instead of minutes a row; to see it work"
    )
    parser.add_argument(
        "--gib",
        action="append",
        type=_size,
        default=[],
        help="a size for the rows over sizes, spark-growth and spark-kafka (may be repeated)",
    )
    parser.add_argument("--pin", action="store_true", help="keep the load generator to the last core")
    parser.add_argument("--no-java", action="store_true", help="hatwisted alone")
    parser.add_argument("--no-ours", action="store_true", help="RocketMQ alone")
    return parser.parse_args(arguments)


def _size(text: str) -> float:
    size = float(text)
    if not 0 < size <= MOST_GIB:
        raise argparse.ArgumentTypeError(f"a size is more than 0 and at most {MOST_GIB} GiB, not {text}")
    return size


def _contenders(no_java: bool, no_ours: bool) -> list[Kind]:
    reason = "left out" if no_java else javarocketmq.available()
    if reason is not None:
        print(f"RocketMQ {javarocketmq.VERSION}: {reason}; figures are hatwisted's alone", flush=True)
    return [*([] if no_ours else [OURS]), *([] if reason is not None else [JAVA])]


def _enough_room(quick: bool) -> bool:
    STORES.mkdir(parents=True, exist_ok=True)
    free, wanted = shutil.disk_usage(STORES).free, FREE_BYTES // (8 if quick else 1)
    if free < wanted:
        print(f"{STORES} has {free >> 30} GiB free, {wanted >> 30} GiB are needed", file=sys.stderr)
    return free >= wanted


def _earlier(options: argparse.Namespace) -> dict[str, Any]:
    """The results so far (rows of an unfinished or partial run replace theirs), with today's frame. The machine
    stays the one of the whole run; a row of another says so."""
    rows: dict[str, Any] = {}
    path, machine = _results(options.quick), report.machine()
    if options.only and path.exists():
        earlier = json.loads(path.read_text())
        rows, machine = earlier["rows"], earlier["machine"]
    command = "make bench" if not options.quick else "make bench BENCH=--quick"
    frame = {"machine": machine, "rocketmq": javarocketmq.VERSION, "command": command}
    return {**frame, "rows": rows}


def _run(arena: Arena, name: str) -> dict[str, Any]:
    arena.say("begins")
    arena.pinned = False
    begun, load = time.monotonic(), os.getloadavg()[0]
    try:
        outcome = ROWS[name](arena)
    except Exception as failure:
        traceback.print_exc()
        outcome = Outcome(errors={name: f"{type(failure).__name__}: {str(failure).splitlines()[0][:300]}"})
    for figure in outcome.figures:
        arena.say(_told(figure))
    if arena.pinned:
        outcome.notes.append(f"the load generator kept to core {arena.core}")
    if load >= BUSY:
        outcome.notes.append(
            f"the machine had other work: a load of {load:.1f} on {os.cpu_count()} cores as the row began"
        )
    title = (ROWS[name].__doc__ or name).strip().splitlines()[0].rstrip(".")
    frame = {"title": title, "date": time.strftime("%Y-%m-%d"), "seconds": time.monotonic() - begun}
    return {**frame, "processor": report.machine()["processor"], **outcome.as_json()}


def _told(figure: Figure) -> str:
    ratio = "" if figure.ratio is None else f", ratio {figure.ratio:.2f}"
    ours, java = spread(figure.ours, figure.digits), spread(figure.java, figure.digits)
    return f"{figure.label}: ours {ours}, Java {java} {figure.unit}{ratio}; target {figure.target}"


def _write(results: dict[str, Any], quick: bool) -> None:
    path, document = _results(quick), _document(quick)
    ordered = {name: results["rows"][name] for name in ROWS if name in results["rows"]}
    results = {**results, "rows": ordered}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    document.parent.mkdir(parents=True, exist_ok=True)
    past = [] if quick else history.read(HISTORY)
    plots = draw_all(ordered, past, document.parent / "benchmarks", document.parent)
    document.write_text(report.markdown(results, plots))


def _results(quick: bool) -> Path:
    return STORES / "quick.json" if quick else RESULTS


def _document(quick: bool) -> Path:
    return STORES / "quick.md" if quick else DOCUMENT


if __name__ == "__main__":
    sys.exit(main())
