"""`python -m bench.against REV --row send-sync`: two revisions of ours in alternation, so that 3 % can be seen.

`make bench ROW=send-sync AGAINST=REV` runs it. REV is checked out under var/bench and its kernel built there, as
an installation would; `pure` means this checkout with HATWISTED_PURE=1. Both pairs are started once, only one of
them runs at a time, memory is warmed before each of its turns, and a turn is a fixed number of messages. What is
compared is the rate, and the CPU time a message costs master and slave, which noise hardly moves. A turn
of `pull` lasts as long as its messages take at a usual rate; its stores are filled before.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

from bench.arena import (
    BATCH,
    SINGLE,
    Arena,
    Costs,
    LoadOptions,
    check_answers,
    servers,
    settle,
)
from bench.catchup import CatchUp, one_catch_up, prepare
from bench.consuming import PULLED_BYTES, pulls, round_trips
from bench.figures import spread
from bench.manytopics import TOPICS, make_topics, sends_to
from bench.sending import PING, WIDE
from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import REPOSITORY


class Work(Protocol):
    """What a pair has to do in one turn."""

    def __call__(self, arena: Arena, group: BrokerGroup, messages: int) -> dict[str, Any]:
        """Let it do so much; "rate" in messages a second, "p50_ms", "p99_ms" and "messages", how many it was."""


def _sends(load: LoadOptions, arena: Arena, group: BrokerGroup, messages: int) -> dict[str, Any]:
    requests = messages // int(load.get("batch", 1))
    result = arena.load(group.master_port, {**load, "requests": requests}, seconds=SECONDS, quiet=True)
    check_answers(result)
    group.wait_caught_up()
    return {**result, "messages": messages}


def _pulls(arena: Arena, group: BrokerGroup, messages: int) -> dict[str, Any]:
    arena.fill(group, PULLED_BYTES)
    return pulls(group, warm=0, seconds=max(1.0, messages / PULLED_A_SECOND))


def _round_trips(arena: Arena, group: BrokerGroup, messages: int) -> dict[str, Any]:
    took = round_trips(group, messages, SECONDS)
    p50, p99 = np.quantile(took, [0.5, 0.99])
    return {"rate": len(took) / took.sum() * 1e3, "p50_ms": p50, "p99_ms": p99, "messages": len(took)}


class _SendsToMany:
    """To as many topics as the row `topics` has, which a pair gets in its first turn."""

    def __init__(self) -> None:
        self._made: set[int] = set()

    def __call__(self, arena: Arena, group: BrokerGroup, messages: int) -> dict[str, Any]:
        if group.master_port not in self._made:
            make_topics(group, max(TOPICS))
            self._made.add(group.master_port)
        return _sends(sends_to(max(TOPICS)), arena, group, messages)


ROWS: dict[str, tuple[str, Work, int]] = {
    "send-sync": ("SYNC_MASTER", partial(_sends, SINGLE), 400_000),
    "send-async": ("ASYNC_MASTER", partial(_sends, SINGLE), 400_000),
    "batch-sync": ("SYNC_MASTER", partial(_sends, BATCH), 800_000),
    "wide-sync": ("SYNC_MASTER", partial(_sends, WIDE), 400_000),
    "topics": ("ASYNC_MASTER", _SendsToMany(), 400_000),
    "latency": ("SYNC_MASTER", partial(_sends, PING), 12_000),
    "pull": ("ASYNC_MASTER", _pulls, 2_000_000),
    "end-to-end": ("ASYNC_MASTER", _round_trips, 6_000),
}
"""Role, work, and messages of one turn."""
PULLED_A_SECOND = 250_000
"""About; a turn of pulls lasts as long as its messages take at this rate."""
CATCH_UP = "catch-up"
STORES = REPOSITORY / "var" / "bench"
WARM_MESSAGES = 150_000
PURE = "pure"
SECONDS = 300.0  # that a turn may take


@dataclass
class Contender:
    """One revision: its pair, and what its turns have shown. CPU times in us a message."""

    name: str
    sources: Path
    group: BrokerGroup
    rates: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    master: list[float] = field(default_factory=list)
    slave: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("revision", help="what this checkout is compared with: a commit, or 'pure'")
    parser.add_argument("--row", choices=[*ROWS, CATCH_UP], default="send-sync")
    parser.add_argument("--turns", type=int, default=5, help="of each revision")
    parser.add_argument("--messages", type=int, default=0, help="of each turn")
    options = parser.parse_args(arguments)
    if options.row == CATCH_UP:
        _catch_ups(options.revision, options.turns)
        return
    role, work, messages = ROWS[options.row]
    messages = options.messages or messages
    arena = Arena(STORES, [OURS])
    with ExitStack() as stack:
        contenders = [
            _started(stack, arena, role, name, sources)
            for name, sources in (("this", REPOSITORY), (options.revision, _sources(options.revision)))
        ]
        for each in contenders:
            _turn(arena, contenders, each, work, min(messages, WARM_MESSAGES), counts=False)
        for _ in range(options.turns):
            for each in contenders:
                _turn(arena, contenders, each, work, messages)
    arena.end()
    _report(options.row, contenders)


def _sources(revision: str) -> Path:
    """A checkout of the revision with its kernel built, if it has one."""
    if revision == PURE:
        return REPOSITORY
    git = ["git", "-C", str(REPOSITORY)]
    found = subprocess.run(
        [*git, "rev-parse", "--verify", f"{revision}^{{commit}}"], capture_output=True, text=True
    )
    if found.returncode:
        sys.exit(f"{revision} is no revision of {REPOSITORY}: {found.stderr.strip()}")
    folder = STORES / "revisions" / found.stdout.strip()[:12]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run([*git, "archive", found.stdout.strip()], capture_output=True, check=True)
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        subprocess.run(["tar", "-x", "-C", str(unfinished)], input=packed.stdout, check=True)
        unfinished.rename(folder)
    if (folder / "setup.py").exists():
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, check=True)
    return folder


def _started(stack: ExitStack, arena: Arena, role: str, name: str, sources: Path) -> Contender:
    """The revision's pair, running.

    - stack: ends it
    - arena: where its stores lie
    - role: of its master
    - name: of the revision
    - sources: its checkout
    """
    group = _pair(stack, arena, role, name, sources)
    arena.say(f"starting {name} as {role} with a slave")
    group.start()
    return Contender(name, sources, group)


def _pair(stack: ExitStack, arena: Arena, role: str, name: str, sources: Path) -> BrokerGroup:
    """The same, not started yet."""
    group = stack.enter_context(arena.pair(OURS, role))
    for server in servers(group):
        own = {"HATWISTED_PURE": "1"} if name == PURE else {}
        server.environment = {**server.environment, "PYTHONPATH": str(sources), **own}
    return group


def _turn(
    arena: Arena,
    contenders: Sequence[Contender],
    each: Contender,
    work: Work,
    messages: int,
    counts: bool = True,
) -> None:
    """Only this contender runs, on warm memory.

    - arena: the run
    - contenders: all
    - each: whose turn it is
    - work, messages: what it does
    - counts: False while it gets warm
    """
    others = [server for other in contenders if other is not each for server in servers(other.group)]
    settle()
    arena.warm_memory()
    for server in others:
        server.suspend()
    try:
        weighed = Costs(*servers(each.group))
        result = work(arena, each.group, messages)
        master, slave = weighed.each(result["messages"])
    finally:
        for server in others:
            server.resume()
    if counts:
        each.rates.append(float(result["rate"]))
        each.p50.append(float(result["p50_ms"]))
        each.p99.append(float(result["p99_ms"]))
        each.master.append(master)
        each.slave.append(slave)
        arena.say(f"{each.name}: {result['rate']:,.0f} msgs/s, CPU {master:.1f} + {slave:.1f} us a message")


def _catch_ups(revision: str, turns: int) -> None:
    """The row `catch-up`."""
    arena = Arena(STORES, [OURS])
    sources = {"this": REPOSITORY, revision: _sources(revision)}
    done: dict[str, list[CatchUp]] = {name: [] for name in sources}
    with ExitStack() as stack:
        groups = {name: _pair(stack, arena, "ASYNC_MASTER", name, sources[name]) for name in sources}
        for group in groups.values():
            prepare(arena, group)
        for _ in range(turns):
            for name, group in groups.items():
                one = one_catch_up(arena, group)
                done[name].append(one)
                arena.say(f"{name}: {one.rate:,.0f} MB/s, CPU {one.master:.2f} + {one.slave:.2f} s a GB")
    print(f"{CATCH_UP}: medians (and ranges) of {turns} turns each")
    for label, digits, get in (
        ("MB/s", 0, lambda one: one.rate),
        ("CPU s a GB, master", 2, lambda one: one.master),
        ("CPU s a GB, slave", 2, lambda one: one.slave),
    ):
        _compare(label, revision, [[get(one) for one in each] for each in done.values()], digits)


def _report(row: str, contenders: Sequence[Contender]) -> None:
    this, that = contenders
    print(f"{row}: medians (and ranges) of {len(this.rates)} turns each")
    for label, name, digits in (
        ("msgs/s", "rates", 0),
        ("p50 ms", "p50", 3),
        ("p99 ms", "p99", 3),
        ("CPU us a message, master", "master", 1),
        ("CPU us a message, slave", "slave", 1),
    ):
        _compare(label, that.name, [getattr(this, name), getattr(that, name)], digits)


def _compare(label: str, name: str, values: Sequence[list[float]], digits: int) -> None:
    """One line.

    - label: of the figure
    - name: of the revision compared with
    - values: this one's, and that one's
    - digits: shown of them
    """
    ours, theirs = values
    ratio = median(ours) / median(theirs) if median(theirs) else float("nan")
    print(f"  {label}: this {spread(ours, digits)}, {name} {spread(theirs, digits)}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
