"""Rows that watch processes under load: anonymous memory, and how far dispatch lags behind the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from bench.arena import BATCH, SINGLE, Arena, LoadOptions, attempt, check_answers
from bench.figures import Outcome, Values, absolute_figure
from testbed.brokergroup import BrokerGroup, Kind, info_of

MEMORY_LIMIT = 60.0  # MB
GROWTH_LIMIT = 5.0  # MB of memory per GB of log
LAG_LIMIT = 1.0  # seconds of the master's rate
SAMPLE_SECONDS = 0.25
SECONDS = {"memory": 25, "lag": 20}

Sample = dict[str, float]


class Sampler(threading.Thread):
    """Takes a sample every SAMPLE_SECONDS until left."""

    def __init__(self, take: Callable[[], Sample]) -> None:
        super().__init__(daemon=True)
        self.samples: list[Sample] = []
        self.failure = ""
        self._take = take
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        self._begun = time.perf_counter()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        while not self._stopping.wait(SAMPLE_SECONDS):
            try:
                sample = self._take()
            except Exception as failure:
                self.failure = str(failure)
                return
            self.samples.append({"at": time.perf_counter() - self._begun, **sample})


def memory(arena: Arena) -> Outcome:
    """RssAnon of master and slave while the log grows by gigabytes: single sends, then batches."""
    outcome = Outcome()
    peaks: dict[str, Values] = {"master": {}, "slave": {}}
    growth: Values = {}
    for kind in arena.kinds:
        with attempt(arena, outcome, kind), arena.pair(kind, "SYNC_MASTER") as group:
            group.start()
            samples = _under_load(arena, group, _memory_sample(group), [SINGLE, BATCH], SECONDS["memory"])
            for which, peak in peaks.items():
                peak[kind] = [max(sample[which] for sample in samples)]
            growth[kind] = [_growth(samples)]
            outcome.series[kind.value] = samples
    for which, peak in peaks.items():
        label = f"anonymous memory of the {which} under load, at most"
        text = f"≤ {MEMORY_LIMIT:g} MB"
        outcome.figures.append(absolute_figure(label, "MB", peak, text, at_most=MEMORY_LIMIT))
    label, text = "growth of both, second half of the run", f"≤ {GROWTH_LIMIT:g} MB per GB of log"
    outcome.figures.append(
        absolute_figure(label, "MB per GB of log", growth, text, at_most=GROWTH_LIMIT, digits=1)
    )
    return outcome


def _memory_sample(group: BrokerGroup) -> Callable[[], Sample]:
    def take() -> Sample:
        end = int(info_of(group.master_port)["commitLogMaxOffset"])
        return {"log": end / 1e9, "master": group.master.memory() / 1e6, "slave": group.slave.memory() / 1e6}

    return take


def _growth(samples: list[Sample]) -> float:
    """MB of both processes' memory per GB of log, from the mean of the third quarter to that of the last."""
    quarter = max(1, len(samples) // 4)
    before, after = samples[-2 * quarter : -quarter], samples[-quarter:]

    def mean(part: list[Sample], name: str) -> float:
        return sum(sample[name] for sample in part) / max(1, len(part))

    grown = sum(mean(after, which) - mean(before, which) for which in ("master", "slave"))
    return grown / max(1e-9, mean(after, "log") - mean(before, "log"))


def dispatch_lag(arena: Arena) -> Outcome:
    """dispatchBehindBytes of master and slave while batches come at full rate."""
    outcome = Outcome()
    worst: Values = {}
    for kind in arena.kinds:
        with attempt(arena, outcome, kind), arena.pair(kind, "SYNC_MASTER") as group:
            group.start()
            samples = _under_load(arena, group, _lag_sample(group), [BATCH], SECONDS["lag"])
            rate = (samples[-1]["log"] - samples[0]["log"]) / (samples[-1]["at"] - samples[0]["at"])
            worst[kind] = [max(sample["slave"] for sample in samples) / max(1.0, rate)]
            outcome.series[kind.value] = samples
            last = samples[-1]
            outcome.notes.append(
                f"{kind.value}: slave at most {max(s['slave'] for s in samples) / 1e6:,.1f} MB behind at "
                f"{rate / 1e6:,.0f} MB/s, {last['slave'] / 1e6:,.1f} MB in the last sample"
            )
    label, text = "dispatch lag of the slave at full batch rate, at most", f"bounded (≤ {LAG_LIMIT:g} s)"
    outcome.figures.append(absolute_figure(label, "s", worst, text, at_most=LAG_LIMIT, digits=2))
    return outcome


def _lag_sample(group: BrokerGroup) -> Callable[[], Sample]:
    def take() -> Sample:
        master, slave = info_of(group.master_port), info_of(group.slave_port)
        behind = "dispatchBehindBytes"
        return {
            "log": float(master["commitLogMaxOffset"]),
            "master": float(master[behind]),
            "slave": float(slave[behind]),
        }

    return take


def _under_load(
    arena: Arena, group: BrokerGroup, take: Callable[[], Sample], loads: list[LoadOptions], seconds: int
) -> list[Sample]:
    kind: Kind = group.master_kind
    seconds = 5 if arena.quick else seconds
    # Once, and before the first sample: the kernel takes back what processes have let go of while memory fills.
    arena.warm_memory()
    with Sampler(take) as sampler:
        for options in loads:
            arena.say(f"{kind.value} under load {dict(options)} for {seconds} s")
            check_answers(arena.load(group.master_port, options, warm=(2, 0), seconds=seconds, quiet=True))
    if sampler.failure or len(sampler.samples) < 4:
        raise RuntimeError(f"sampling ended early: {sampler.failure}")
    return sampler.samples
