"""Where both contenders meet: pairs of real processes on the shipped conf files, under one load.

While one pair is measured the other is suspended, for less than the time after which a link is given up, so
that an idle JVM's timers don't cost the other side anything. Stores are removed as soon as a row is done.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.bareloops import bare_loops, told
from bench.figures import Outcome
from bench.warmth import Warmth
from testbed.brokergroup import JAVA, OURS, BrokerGroup, Kind
from testbed.processes import REPOSITORY, ServerProcess, Setting, read_conf

# A heap that never is the limit here (RocketMQ's scripts ask for 8 GiB); untouched before use, for RssAnon's sake
JAVA_OPTIONS = ("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=1g")
CONF = {"SYNC_MASTER": "2m-2s-sync", "ASYNC_MASTER": "2m-2s-async"}
WARM = {OURS: (8, 30), JAVA: (30, 75)}  # fewest and most seconds until the rate is flat
REWARM_SECONDS = 3  # after the other side's turn
MEASURE_SECONDS = (
    10  # with REWARM_SECONDS below the housekeeping interval of 20 s, which a suspended link must meet
)
REPEATS = 5
COLD_SECONDS = 10
TURN_SECONDS = 450.0
"""That a load generator may take beyond what it's asked for: a slow machine's turns of 8 x 256 are long."""
FULL_STORE = 3 << 30  # bytes
QUICK_WARM_BYTES = 256 << 20  # of memory, in a short run
MESSAGE_BYTES = 1250  # roughly what a message of 1 KiB takes in the log

LoadOptions = Mapping[str, int | str]
SINGLE: LoadOptions = {"connections": 4, "window": 64}
BATCH: LoadOptions = {"connections": 4, "window": 8, "batch": 50}


class RowFailed(Exception):
    """This contender can't be measured in this row; the message says why."""


@dataclass
class Arena:
    """One run of the benchmark.

    - sizes: GiB, of rows over sizes; none for what a row has of its own
    - core: that the load generator keeps to; None: to none
    - pinned: whether one was started that does, since somebody set this to False
    """

    folder: Path
    kinds: Sequence[Kind]
    quick: bool = False
    sizes: Sequence[float] = ()
    prefix: str = ""
    core: int | None = None
    pinned: bool = False
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._warmth = Warmth(self.folder)

    @property
    def repeats(self) -> int:
        return 1 if self.quick else REPEATS

    @property
    def measure_seconds(self) -> int:
        return 3 if self.quick else MEASURE_SECONDS

    @property
    def full_store(self) -> int:
        return FULL_STORE // 10 if self.quick else FULL_STORE

    def warm_seconds(self, kind: Kind) -> tuple[int, int]:
        return (4, 4) if self.quick else WARM[kind]

    def say(self, text: str) -> None:
        print(f"[{time.strftime('%H:%M:%S')}] {self.prefix}{text}", flush=True)

    def warm_memory(self) -> None:
        """Have the next files take over pages that are there, right before a measured phase."""
        self._warmth.fill(QUICK_WARM_BYTES if self.quick else None)

    def end(self) -> None:
        """Give the memory back."""
        self._warmth.end()

    def turns(self) -> Iterator[tuple[int, Kind]]:
        """(repetition, contender) in alternation."""
        for number in range(self.repeats):
            for kind in self.kinds:
                yield number, kind

    @contextmanager
    def pair(
        self, kind: Kind, role: str, settings: Mapping[str, Setting] | None = None, *, namesrv: bool = False
    ) -> Iterator[BrokerGroup]:
        """A pair that isn't started yet, on request with a name server of its kind; killed and its stores
        removed afterwards."""
        folder = self.folder / f"{kind.value}-{next(self._numbers)}"
        shutil.rmtree(folder, ignore_errors=True)
        shipped: dict[str, Setting] = dict(
            read_conf(REPOSITORY / "conf" / CONF[role] / "broker-a.properties")
        )
        group = BrokerGroup(
            folder,
            kind,
            kind,
            kind if namesrv else None,
            role=role,
            settings={**shipped, **(settings or {})},
            java_options=JAVA_OPTIONS,
        )
        try:
            with group:
                yield group
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def load(
        self,
        port: int,
        options: LoadOptions,
        *,
        warm: tuple[float, float] = (0, 0),
        seconds: float = 0,
        each: Callable[[dict[str, Any]], None] | None = None,
        quiet: bool = False,
    ) -> dict[str, Any]:
        """Run the load generator to its end; its result, with a progress line every few seconds."""
        process = self.start_load(port, options, warm=warm, seconds=seconds)
        return self.finish_load(process, each=each, quiet=quiet, limit=max(warm) + seconds + TURN_SECONDS)

    def finish_load(
        self,
        process: subprocess.Popen[str],
        *,
        each: Callable[[dict[str, Any]], None] | None = None,
        quiet: bool = False,
        limit: float = TURN_SECONDS,
    ) -> dict[str, Any]:
        """As `load`, of a generator that was started. limit: s, after which it's ended."""
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit, end)
        timer.daemon = True
        timer.start()
        try:
            return self._result(process, each, quiet)
        except RowFailed:
            if late.is_set():
                raise RowFailed(f"the load wasn't done after {limit:g} s") from None
            raise
        finally:
            timer.cancel()

    def _result(
        self, process: subprocess.Popen[str], each: Callable[[dict[str, Any]], None] | None, quiet: bool
    ) -> dict[str, Any]:
        assert process.stdout is not None
        result: dict[str, Any] | None = None
        for line in process.stdout:
            event = json.loads(line)
            result = event.get("result", result)
            if "second" in event:
                if each is not None:
                    each(event)
                if not quiet and event["second"] % 5 == 0:
                    rate, p99 = event["rate"], event["p99_ms"]
                    self.say(
                        f"  {event['phase']} {event['second']:3d} s: {rate:,.0f} msgs/s, p99 {p99:.1f} ms"
                    )
        if process.wait() or result is None:
            raise RowFailed(f"the load generator failed: {process.stderr.read() if process.stderr else ''}")
        return result

    def start_load(
        self, port: int, options: LoadOptions, *, warm: tuple[float, float] = (0, 0), seconds: float = 0
    ) -> subprocess.Popen[str]:
        given = [f"--{name}={value}" for name, value in options.items()]
        if self.core is not None:
            given.append(f"--core={self.core}")
            self.pinned = True
        timing = [f"--warm={warm[0]}", f"--warm-most={warm[1]}", f"--seconds={seconds}"]
        return subprocess.Popen(
            [sys.executable, "-m", "bench.loadgen", "127.0.0.1", str(port), *given, *timing],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def fill(self, group: BrokerGroup, size: int) -> int:
        """Send batches until the master's log has `size` bytes; returns its end."""
        while (end := group.master_end()) < size:
            requests = max(4, (size - end) // (MESSAGE_BYTES * 50))
            result = self.load(group.master_port, {**BATCH, "requests": requests}, seconds=600, quiet=True)
            if result.get("gone") or set(result["codes"]) != {"0"}:
                raise RowFailed(f"filling the store ended with {result['codes']} {result.get('gone', '')}")
        return end


class Duel:
    """Both contenders' pairs, started and linked, one of them running at a time."""

    def __init__(
        self, arena: Arena, role: str, outcome: Outcome, settings: Mapping[str, Setting] | None = None
    ) -> None:
        self.arena, self.role, self.outcome, self.settings = arena, role, outcome, settings
        self.groups: dict[Kind, BrokerGroup] = {}

    @contextmanager
    def started(self) -> Iterator[Duel]:
        with ExitStack() as stack:
            for kind in self.arena.kinds:
                with self.attempt(kind):
                    group = stack.enter_context(self.arena.pair(kind, self.role, self.settings))
                    self.arena.say(f"starting {kind.value} as {self.role} with a slave")
                    group.start()
                    self.groups[kind] = group
            yield self

    @contextmanager
    def attempt(self, kind: Kind) -> Iterator[None]:
        """A failure is this contender's, is kept for the table, and ends its part in the row."""
        with attempt(self.arena, self.outcome, kind):
            try:
                yield
            except Exception:
                self.groups.pop(kind, None)
                raise

    @contextmanager
    def alone(self, kind: Kind) -> Iterator[BrokerGroup]:
        """Only this pair runs."""
        others = [
            server for other, group in self.groups.items() if other is not kind for server in servers(group)
        ]
        for server in others:
            server.suspend()
        try:
            yield self.groups[kind]
        finally:
            for server in others:
                server.resume()

    def turns(self) -> Iterator[tuple[int, Kind]]:
        """The arena's, without contenders that have failed; memory is warm as each begins."""
        for number, kind in self.arena.turns():
            if kind in self.groups:
                self.arena.warm_memory()
                yield number, kind

    def contest(self, options: LoadOptions) -> dict[Kind, list[dict[str, Any]]]:
        """Warm both until flat, then measure in turn; also notes the first ten seconds of each, and what the
        machine does without either. `master_us`, `slave_us` of a result: CPU time of a message."""
        results: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in self.arena.kinds}
        for kind in list(self.groups):
            with self.attempt(kind):
                self._warm(kind, options)
        self.arena.warm_memory()
        self.outcome.notes.append(told(bare_loops(self.arena.folder)))
        for number, kind in self.turns():
            with self.attempt(kind), self.alone(kind) as group:
                seconds = self.arena.measure_seconds
                costs = Costs(*servers(group))
                result = self.arena.load(
                    group.master_port, options, warm=(REWARM_SECONDS, 0), seconds=seconds, quiet=True
                )
                check_answers(result)
                # The rates are those of each second, the ones before the measurement with them.
                result["master_us"], result["slave_us"] = costs.each(sum(result["rates"]))
                self.arena.say(f"{kind.value} {number + 1}: {described(result)}")
                results[kind].append(result)
        return results

    def _warm(self, kind: Kind, options: LoadOptions) -> None:
        """The other side isn't suspended here (warming outlasts its link's patience) but idle."""
        group, warm = self.groups[kind], self.arena.warm_seconds(kind)
        self.arena.say(f"warming {kind.value} for {warm[0]} to {warm[1]} s until its rate is flat")
        rates = self.arena.load(group.master_port, options, warm=warm)["rates"]
        cold = sum(rates[:COLD_SECONDS]) / max(1, len(rates[:COLD_SECONDS]))
        self.outcome.series.setdefault("warm", {})[kind.value] = rates
        self.outcome.notes.append(
            f"{kind.value}: {cold:,.0f} msgs/s in its first {len(rates[:COLD_SECONDS])} s after start, "
            f"flat after {len(rates)} s"
        )


class Costs:
    """CPU time of servers from now on."""

    def __init__(self, *measured: ServerProcess) -> None:
        self._begun = [(server, server.cpu_seconds()) for server in measured]

    def each(self, messages: float) -> list[float]:
        """µs of each server for a message. messages: that they have had since."""
        return [1e6 * (server.cpu_seconds() - then) / max(1, messages) for server, then in self._begun]


def last_core() -> int:
    """Of those that this process may use."""
    return max(os.sched_getaffinity(0))


def servers(group: BrokerGroup) -> list[ServerProcess]:
    return [group.master, group.slave]


@contextmanager
def attempt(arena: Arena, outcome: Outcome, kind: Kind) -> Iterator[None]:
    """Keep a failure of one contender in the outcome instead of losing the run."""
    try:
        yield
    except Exception as failure:
        text = f"{type(failure).__name__}: {failure}"
        arena.say(f"{kind.value} FAILED: {text}")
        outcome.errors[kind.value] = text.splitlines()[0][:300]


def check_answers(result: dict[str, Any]) -> None:
    """A rate of which a good part are refusals means nothing."""
    codes = {int(code): count for code, count in result["codes"].items()}
    if result.get("gone"):
        raise RowFailed(f"the broker went away: {result['gone']}")
    if codes.get(0, 0) < 0.99 * sum(codes.values()) or not codes:
        raise RowFailed(f"answers were {codes}")


def described(result: dict[str, Any]) -> str:
    refused = {code: count for code, count in result["codes"].items() if code != "0"}
    tail = f", other answers {refused}" if refused else ""
    return f"{result['rate']:,.0f} msgs/s, p50 {result['p50_ms']:.2f} ms, p99 {result['p99_ms']:.2f} ms{tail}"


def settle() -> None:
    """Let dirty pages reach the disk, so that one measurement doesn't pay for the one before."""
    os.sync()
