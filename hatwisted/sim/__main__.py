"""python -m hatwisted.sim: run seeds, repeat one, or try whether deliberate bugs are caught."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hatwisted.sim import soak
from hatwisted.sim.bughunt import HEAD, hunts
from hatwisted.sim.deliberatebugs import BUGS
from hatwisted.sim.faultplan import Fault
from hatwisted.sim.setup import FAULT_KINDS
from hatwisted.sim.simulationpage import page, watch


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m hatwisted.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, help="seeds to run; default: as many as there is time for")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--minutes", type=float, help="time for starting seeds (1; no limit with --seeds)")
    parser.add_argument(
        "--jobs", type=int, default=soak.cores(), help="processes (one per core); 0: this one"
    )
    parser.add_argument("--kinds", default="all", help="kinds of faults, separated by commas (all)")
    parser.add_argument("--faults", help="JSON of the faults, instead of the seed's own")
    parser.add_argument(
        "--page",
        type=Path,
        help="write a page that shows a seed: one that failed, or with many kinds of faults",
    )
    parser.add_argument("--json", type=Path, help="write the outcome of all seeds")
    parser.add_argument("--bug", choices=[*BUGS, "all"], help="plant it, and count seeds (200) until caught")
    parser.add_argument("--starts", type=int, default=1, help="how often each bug is hunted (1)")
    given = parser.parse_args(arguments)
    soak.quiet()
    kinds = FAULT_KINDS if given.kinds == "all" else tuple(filter(None, given.kinds.split(",")))
    if given.bug is not None:
        return _hunt(list(BUGS) if given.bug == "all" else [given.bug], given)
    faults = None if given.faults is None else msgspec.json.decode(given.faults, type=tuple[Fault, ...])
    seeds: Iterator[int] = itertools.count(given.first)
    if given.seeds is not None:
        seeds = iter(range(given.first, given.first + given.seeds))
    jobs = (soak.Job(seed=seed, kinds=kinds, faults=faults) for seed in seeds)
    minutes = given.minutes or (float("inf") if given.seeds is not None else 1.0)
    workers = min(given.jobs, given.jobs if given.seeds is None else given.seeds)
    totals = soak.run_seeds(jobs, workers, minutes * 60)
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(totals.figures())) + b"\n")
    if given.page is not None and totals.telling is not None:
        _write_page(given.page, totals.telling.job)
    return 1 if totals.failed else 0


def _write_page(path: Path, job: soak.Job) -> None:
    setup = job.setup()
    path.write_text(page(setup, *watch(setup)), encoding="utf-8")
    sys.stdout.write(f"{path} shows seed {job.seed}\n")


def _hunt(bugs: Sequence[str], given: argparse.Namespace) -> int:
    missed = 0
    sys.stdout.write(HEAD + "\n")
    for hunt in hunts(bugs, given.first, given.seeds or 200, given.starts, given.jobs):
        missed += None in hunt.catches
        sys.stdout.write(hunt.row() + "\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
