"""What more groups on one machine give: a broker's work is one thread's, and more cores take more brokers."""

from __future__ import annotations

import os

from bench.arena import REWARM_SECONDS, SINGLE, Arena, attempt, check_answers, settle
from bench.figures import Outcome, Values, absolute_figure
from testbed.brokergroup import OURS, BrokerGroup

LEAST_CORES = 4
"""A master and a load generator of each group; the slaves share what they leave."""


def two_groups(arena: Arena) -> Outcome:
    """One group, and two beside each other: 4 x 64 in flight each, SYNC_MASTER and slave."""
    outcome = Outcome()
    one: Values = {OURS: []}
    both: Values = {OURS: []}
    with (
        attempt(arena, outcome, OURS),
        arena.pair(OURS, "SYNC_MASTER") as first,
        arena.pair(OURS, "SYNC_MASTER") as second,
    ):
        for group in (first, second):
            group.start()
            arena.load(group.master_port, SINGLE, warm=arena.warm_seconds(OURS), quiet=True)
        for number in range(arena.repeats):
            settle()
            one[OURS].append(_rate_of(arena, first))
            settle()
            both[OURS].append(_rate_of(arena, first, second))
            arena.say(f"{number + 1}: {one[OURS][-1]:,.0f} by one, {both[OURS][-1]:,.0f} msgs/s by two")
    for label, values in (("one group", one), ("two groups, together", both)):
        text = f"send, SYNC_MASTER, 4 x 64 in flight each, {label}"
        outcome.figures.append(absolute_figure(text, "msgs/s", values, "–"))
    gains = {OURS: [two / single for two, single in zip(both[OURS], one[OURS], strict=False)]}
    outcome.figures.append(absolute_figure("two groups, compared with one", "x", gains, "–", digits=2))
    if (cores := os.cpu_count() or 1) < LEAST_CORES:
        outcome.notes.append(f"{cores} cores are fewer than both groups and their load could use")
    return outcome


def _rate_of(arena: Arena, *groups: BrokerGroup) -> float:
    """Messages a second of all of them, loaded at the same time."""
    arena.warm_memory()
    running = [
        arena.start_load(group.master_port, SINGLE, warm=(REWARM_SECONDS, 0), seconds=arena.measure_seconds)
        for group in groups
    ]
    total = 0.0
    for process in running:
        result = arena.finish_load(process, quiet=True)
        check_answers(result)
        total += float(result["rate"])
    return total
