"""Rows about coming back: restart after kill -9 with 3 GiB stored, and a full rebuild of queues and index."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.arena import SINGLE, Arena, RowFailed, attempt, settle
from bench.figures import Outcome, Values, absolute_figure, ratio_figure
from testbed.brokergroup import BrokerGroup, Kind, info_of

START_LIMIT = 300.0  # seconds
REBUILD_TARGET = 300.0  # MB/s
LOAD_SECONDS = 3.0  # of load before the kill


@contextmanager
def filled(arena: Arena, outcome: Outcome) -> Iterator[dict[Kind, BrokerGroup]]:
    """Masters without slave, running, with a full store."""
    with ExitStack() as stack:
        groups: dict[Kind, BrokerGroup] = {}
        for kind in arena.kinds:
            with attempt(arena, outcome, kind):
                group = stack.enter_context(arena.pair(kind, "ASYNC_MASTER"))
                group.master.start()
                arena.say(f"filling the {kind.value} master with {arena.full_store / (1 << 30):.1f} GiB")
                arena.fill(group, arena.full_store)
                groups[kind] = group
        yield groups


def restart(arena: Arena) -> Outcome:
    """kill -9 in the middle of a load; seconds until the restarted master answers, and what was lost."""
    outcome = Outcome()
    seconds: Values = {kind: [] for kind in arena.kinds}
    lost: Values = {kind: [] for kind in arena.kinds}
    with filled(arena, outcome) as groups:
        for number, kind in arena.turns():
            if kind not in groups:
                continue
            with attempt(arena, outcome, kind):
                group = groups[kind]
                if not group.master.running:
                    group.master.start(START_LIMIT)
                acknowledged = _killed_under_load(arena, group)
                settle()
                arena.warm_memory()
                seconds[kind].append(group.master.start(START_LIMIT))
                lost[kind].append(float(max(0, acknowledged - group.master_end())))
                arena.say(f"{kind.value} {number + 1}: answers after {seconds[kind][-1]:.2f} s")
                group.master.stop()
    size = f"{arena.full_store / (1 << 30):.1f} GiB"
    label = f"restart after kill -9 with {size} stored"
    outcome.figures.append(ratio_figure(label, "s", seconds, at_most=1.0, digits=2))
    outcome.figures.append(absolute_figure("acknowledged bytes lost by it", "bytes", lost, "0", at_most=0))
    return outcome


def _killed_under_load(arena: Arena, group: BrokerGroup) -> int:
    """Kill the master while it is sent to; the highest log offset that was acknowledged."""
    load = arena.start_load(group.master_port, SINGLE, seconds=60)
    time.sleep(LOAD_SECONDS)
    group.master.kill()
    output, errors = load.communicate(timeout=30)
    result = json.loads(output.splitlines()[-1]).get("result")
    if not result or result["highest_offset"] < 0:
        raise RowFailed(f"nothing was acknowledged before the kill: {errors}")
    return int(result["highest_offset"]) + 1


def rebuild(arena: Arena) -> Outcome:
    """Queues and index removed; until the restarted master has built them all again."""
    outcome = Outcome()
    rates: Values = {kind: [] for kind in arena.kinds}
    with filled(arena, outcome) as groups:
        for number, kind in arena.turns():
            if kind not in groups:
                continue
            with attempt(arena, outcome, kind):
                group = groups[kind]
                if group.master.running:
                    group.master.stop()
                for folder in ("consumequeue", "index"):
                    shutil.rmtree(group.master_store / folder)
                settle()
                arena.warm_memory()
                begun = time.perf_counter()
                group.master.start(START_LIMIT)
                size = _wait_dispatched(group)
                rates[kind].append(size / (time.perf_counter() - begun) / 1e6)
                arena.say(f"{kind.value} {number + 1}: {rates[kind][-1]:,.0f} MB/s, start included")
    label = "full rebuild of queues and index, start of the process included"
    text = f"≥ {REBUILD_TARGET:g} MB/s"
    outcome.figures.append(absolute_figure(label, "MB/s", rates, text, at_least=REBUILD_TARGET))
    return outcome


def _wait_dispatched(group: BrokerGroup) -> int:
    deadline = time.perf_counter() + START_LIMIT
    while True:
        info = info_of(group.master_port)
        if int(info["dispatchBehindBytes"]) <= 0:
            return int(info["commitLogMaxOffset"]) - int(info["commitLogMinOffset"])
        if time.perf_counter() > deadline:
            raise RowFailed(
                f"{info['dispatchBehindBytes']} bytes still not dispatched after {START_LIMIT:g} s"
            )
        time.sleep(0.05)
