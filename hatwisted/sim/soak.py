"""Seeds by the thousand, on all cores: `python -m hatwisted.sim`, or `make soak`.

A worker runs one seed after the other, by itself; what comes back is the outcome. A seed that fails is run
again at once, and must come to the same digest; then its faults are shrunk, and both are reported with the
command that repeats them.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context

import msgspec
from twisted.logger import globalLogBeginner

from hatwisted.sim.faultplan import Fault
from hatwisted.sim.logwatch import LogWatch
from hatwisted.sim.outcome import Outcome
from hatwisted.sim.setup import FAULT_KINDS, Setup, draw_setup
from hatwisted.sim.shrink import shrink
from hatwisted.sim.simulation import Simulation

PROGRESS = 2.0
"""Seconds between two lines of progress."""

AHEAD = 3
"""Seeds per worker that are handed out at a time."""

SEEDS_PER_WORKER = 1000
"""Runs after which a worker is a new process: a few leave objects behind that no collector finds. Of 200 from 7000
on, one did: 14,000 of them."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One seed to run. kinds: of faults; faults: instead of the seed's own."""

    seed: int
    kinds: tuple[str, ...]
    faults: tuple[Fault, ...] | None = None

    def setup(self) -> Setup:
        """What it runs."""
        drawn = draw_setup(self.seed, self.kinds)
        return drawn if self.faults is None else msgspec.structs.replace(drawn, faults=self.faults)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of `job`.

    - cpu: seconds of CPU that it took, the first time
    - replayed: did the same come of it the second time (a failing one's)
    - fewest: the faults that are enough
    """

    job: Job
    outcome: Outcome
    cpu: float
    replayed: bool = True
    fewest: tuple[Fault, ...] | None = None


class Totals:
    """Of many seeds."""

    def __init__(self) -> None:
        self.seeds = 0
        self.failed: list[Report] = []
        self.seconds = 0.0
        self.answers: Counter[str] = Counter()
        self.struck: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        """Runs in which a tight limit was reached, by its name."""
        self.refusals = 0
        self.emptied = 0
        self.cpu = 0.0
        """Seconds of CPU, of all workers: what seeds cost on a busy machine, too."""
        self.elapsed = 0.0
        """Wall-clock seconds that they took."""
        self.telling: Report | None = None
        """The one to look at: the first that failed, or else the one with the most kinds of faults."""

    def add(self, report: Report) -> None:
        """One more."""
        outcome = report.outcome
        self.seeds += 1
        self.seconds += outcome.seconds
        self.cpu += report.cpu
        self.answers.update(outcome.answers)
        self.struck.update(outcome.struck)
        self.reached.update(outcome.reached)
        self.refusals += len(outcome.refusals)
        self.emptied += outcome.emptied
        if outcome.violations or not report.replayed:
            self.failed.append(report)
        telling = self.telling
        if telling is None or len(outcome.struck) > len(telling.outcome.struck):
            self.telling = report
        if self.failed:
            self.telling = self.failed[0]

    def line(self, elapsed: float) -> str:
        """On one line."""
        return (
            f"{self.seeds} seeds, {self.seconds / 3600:.1f} simulated hours "
            f"({self.seconds / max(elapsed, 0.001):.0f} s a second, {1000 * self.cpu / max(self.seeds, 1):.0f} ms "
            f"of CPU a seed), {sum(self.answers.values())} messages, "
            f"{sum(self.struck.values())} faults, {self.refusals} starts refused, {self.emptied} slaves emptied, "
            f"{len(self.failed)} failed"
        )

    def figures(self) -> dict[str, object]:
        """All of it, for a report."""
        return {
            "seeds": self.seeds,
            "simulated_hours": round(self.seconds / 3600, 2),
            "simulated_seconds_a_second": round(self.seconds / max(self.elapsed, 0.001)),
            "simulated_seconds_a_cpu_second": round(self.seconds / max(self.cpu, 0.001)),
            "cpu_ms_a_seed": round(1000 * self.cpu / max(self.seeds, 1)),
            "answers": dict(sorted(self.answers.items())),
            "faults": dict(sorted(self.struck.items())),
            "limits_reached": dict(sorted(self.reached.items())),
            "starts_refused": self.refusals,
            "slaves_emptied": self.emptied,
            "failed": [report.outcome.seed for report in self.failed],
        }


@contextmanager
def _apart() -> Iterator[None]:
    """No garbage is collected meanwhile, unless asked for: it would stir among the Deferreds that are watched.
    Then it's that of what was made meanwhile: what was there before is much, and isn't looked at."""
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


def run_one(setup: Setup) -> Outcome:
    """One run, whose garbage is collected at its end: what is logged then, such as a failure that nobody handled,
    counts. That little is collected while it's still in the processor's cache, and the next run's objects take its
    place there: for many runs together it takes twice as long."""
    with _apart():
        simulation = Simulation(setup)
        outcome = simulation.run()
        watch = LogWatch()
        with watch.watching():
            simulation.deferreds.let_go()
            del simulation
            gc.collect()
    outcome.violations += map(str, watch.violations)
    return outcome


def run_job(job: Job) -> Report:
    """Run it in this process; one that fails is run again, and then shrunk."""
    began = time.process_time()
    outcome = run_one(job.setup())
    cpu = time.process_time() - began
    if not outcome.violations:
        return Report(job=job, outcome=outcome, cpu=cpu)
    replayed = run_one(job.setup()).digest == outcome.digest
    if job.faults is not None:
        return Report(job=job, outcome=outcome, cpu=cpu, replayed=replayed)
    promise = outcome.violations[0].partition(":")[0]

    def fails(setup: Setup) -> bool:
        return any(each.startswith(promise) for each in run_one(setup).violations)

    fewest = shrink(job.setup(), fails).faults
    return Report(job=job, outcome=outcome, cpu=cpu, replayed=replayed, fewest=fewest)


def quiet() -> None:
    """The programs' log goes nowhere: what is wrong in it is a violation."""
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)


def prepare_worker() -> None:
    """A process that runs seeds alone: garbage is collected by `run_one`."""
    quiet()
    gc.disable()


def soak(jobs: Iterator[Job], workers: int, ends: float) -> Iterator[Report]:
    """Reports as they come.

    - jobs: to run
    - workers: processes; 0: this one
    - ends: when no more are begun, by `time.monotonic`
    """
    if not workers:
        while time.monotonic() < ends and (here := next(jobs, None)) is not None:
            yield run_job(here)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=prepare_worker, max_tasks_per_child=SEEDS_PER_WORKER
    ) as pool:
        pending: set[Future[Report]] = set()
        while True:
            while len(pending) < AHEAD * workers and time.monotonic() < ends:
                job = next(jobs, None)
                if job is None:
                    break
                pending.add(pool.submit(run_job, job))
            if not pending:
                return
            done, pending = wait(pending, timeout=PROGRESS, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def told(report: Report) -> str:
    """A failed seed, with the command that repeats it."""
    outcome = report.outcome
    lines = [f"seed {outcome.seed} failed:", *(f"  {violation}" for violation in outcome.violations)]
    if not report.replayed:
        lines.append("  and didn't replay: something in it depends on more than the seed")
    kinds = "" if report.job.kinds == FAULT_KINDS else f" --kinds {','.join(report.job.kinds)}"
    lines.append(f"  again: python -m hatwisted.sim --first {outcome.seed} --seeds 1{kinds}")
    if report.fewest is not None:
        faults = msgspec.json.encode(report.fewest).decode()
        lines.append(f"  with {len(report.fewest)} faults: --faults '{faults}'")
    return "\n".join(lines)


def run_seeds(jobs: Iterator[Job], workers: int, seconds: float) -> Totals:
    """To the end, with lines of progress.

    - jobs: to run
    - workers: processes; 0: this one
    - seconds: for which jobs are begun
    """
    begun = time.monotonic()
    totals, spoken = Totals(), begun
    for report in soak(jobs, workers, begun + seconds):
        totals.add(report)
        now = time.monotonic()
        if report.outcome.violations or not report.replayed:
            sys.stdout.write(told(report) + "\n")
        if now - spoken >= PROGRESS:
            spoken = now
            sys.stdout.write(totals.line(now - begun) + "\n")
            sys.stdout.flush()
    totals.elapsed = time.monotonic() - begun
    sys.stdout.write(totals.line(totals.elapsed) + "\n")
    sys.stdout.write(f"answers {dict(totals.answers)}; faults {dict(totals.struck)}\n")
    return totals


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))
