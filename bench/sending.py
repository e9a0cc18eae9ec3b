"""Rows about sending: rates of single and batch sends, latency, and what synchronous replication costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import bareping
from bench.arena import BATCH, SINGLE, Arena, Duel, LoadOptions, attempt
from bench.figures import Outcome, Values, absolute_figure, ratio_figure
from bench.ways import Comparison
from testbed.brokergroup import Kind
from testbed.processes import Setting

PING: LoadOptions = {"connections": 1, "window": 1}
WIDE: LoadOptions = {"connections": 8, "window": 256}
SYNC_COST = 10.0  # percent
FLUSHED: Mapping[str, Setting] = {"flushDiskType": "SYNC_FLUSH"}
SHORT_LIVED: Mapping[str, Setting] = {"fileReservedTime": 0, "diskMaxUsedSpaceRatio": 10}
"""Log files go as soon as there is another: two pairs write some 100 GB otherwise, and a full disk refuses."""
MASTER_US, BATCHED_US = 8.0, 3.5  # of CPU time for a message sent by itself, and for one in a batch


def values(results: dict[Kind, list[dict[str, Any]]], name: str) -> Values:
    return {kind: [float(result[name]) for result in each] for kind, each in results.items()}


def send_sync(arena: Arena) -> Outcome:
    """4 connections x 64 in flight, 1 KiB, SYNC_MASTER and slave."""
    outcome = Outcome()
    with Duel(arena, "SYNC_MASTER", outcome).started() as duel:
        results = duel.contest(SINGLE)
    rates = values(results, "rate")
    outcome.figures.append(ratio_figure("send, SYNC_MASTER, 4 x 64 in flight", "msgs/s", rates, at_least=1.5))
    tell_costs(outcome, "send, SYNC_MASTER, 4 x 64 in flight", results, MASTER_US)
    _tell_latencies(outcome, results)
    return outcome


def send_async(arena: Arena) -> Outcome:
    """The same as ASYNC_MASTER; queues and index must have kept up when the load ends."""
    outcome = Outcome()
    with Duel(arena, "ASYNC_MASTER", outcome).started() as duel:
        results = duel.contest(SINGLE)
        for kind, group in duel.groups.items():
            with duel.attempt(kind), group.master_client() as client:
                behind = int(client.runtime_info()["dispatchBehindBytes"])
                outcome.notes.append(f"{kind.value}: {behind:,} bytes not yet in queues and index at the end")
    rates = values(results, "rate")
    outcome.figures.append(
        ratio_figure("send, ASYNC_MASTER, 4 x 64 in flight", "msgs/s", rates, at_least=1.3)
    )
    tell_costs(outcome, "send, ASYNC_MASTER, 4 x 64 in flight", results, MASTER_US)
    _tell_latencies(outcome, results)
    return outcome


def batch_sync(arena: Arena) -> Outcome:
    """Code 320, 50 messages of 1 KiB a request, 4 x 8 in flight, SYNC_MASTER and slave."""
    outcome = Outcome()
    with Duel(arena, "SYNC_MASTER", outcome, SHORT_LIVED).started() as duel:
        results = duel.contest(BATCH)
    rates = values(results, "rate")
    label = "batch send (50 a request), SYNC_MASTER, 4 x 8 in flight"
    outcome.figures.append(ratio_figure(label, "msgs/s", rates, at_least=1.2))
    tell_costs(outcome, label, results, BATCHED_US)
    _tell_latencies(outcome, results)
    return outcome


def latency(arena: Arena) -> Outcome:
    """One connection, one request in flight, SYNC_MASTER and slave."""
    outcome = Outcome()
    with Duel(arena, "SYNC_MASTER", outcome).started() as duel:
        results = duel.contest(PING)
    outcome.notes.append(bareping.told())
    _tell_latencies(outcome, results)
    for name, at_most in (("p50", 0.8), ("p99", 0.7)):
        figure = ratio_figure(
            f"send, SYNC_MASTER, 1 in flight, {name}",
            "ms",
            values(results, f"{name}_ms"),
            at_most=at_most,
            digits=3,
        )
        outcome.figures.append(figure)
    tell_costs(outcome, "send, SYNC_MASTER, 1 in flight", results)
    return outcome


def flush_single(arena: Arena) -> Outcome:
    """The first row under SYNC_FLUSH: an answer waits for both disks."""
    return _flushed(arena, SINGLE, "send, SYNC_FLUSH, SYNC_MASTER, 4 x 64 in flight")


def flush_batch(arena: Arena) -> Outcome:
    """The batch row under SYNC_FLUSH: an answer waits for both disks."""
    return _flushed(arena, BATCH, "batch send (50 a request), SYNC_FLUSH, SYNC_MASTER, 4 x 8 in flight")


def _flushed(arena: Arena, options: LoadOptions, label: str) -> Outcome:
    outcome = Outcome()
    with Duel(arena, "SYNC_MASTER", outcome, FLUSHED).started() as duel:
        results = duel.contest(options)
    outcome.figures.append(ratio_figure(label, "msgs/s", values(results, "rate"), at_least=1.0))
    for name in ("p50", "p99"):
        figure = absolute_figure(f"the same: {name}", "ms", values(results, f"{name}_ms"), "–", digits=2)
        outcome.figures.append(figure)
    return outcome


def sync_cost(arena: Arena) -> Outcome:
    """How much slower SYNC_MASTER is than ASYNC_MASTER at 8 x 256."""
    outcome, found = Outcome(), Comparison("ASYNC_MASTER", "SYNC_MASTER")
    for kind in arena.kinds:
        with (
            attempt(arena, outcome, kind),
            arena.pair(kind, "ASYNC_MASTER", SHORT_LIVED) as free,
            arena.pair(kind, "SYNC_MASTER", SHORT_LIVED) as waited,
        ):
            free.start()
            waited.start()
            found.run(arena, kind, {"ASYNC_MASTER": (free, WIDE), "SYNC_MASTER": (waited, WIDE)})
    for role in ("ASYNC_MASTER", "SYNC_MASTER"):
        label = f"send, {role}, 8 x 256 in flight"
        outcome.figures.append(ratio_figure(label, "msgs/s", found.rates[role], at_least=1.3))
        label = "the same: CPU time of the master for a message"
        outcome.figures.append(absolute_figure(label, "µs", found.costs[role], "–", digits=1))
    text = f"≤ {SYNC_COST:g} % below async"
    label = "cost of SYNC_MASTER at 8 x 256"
    losses = found.losses()
    outcome.figures.append(absolute_figure(label, "%", losses, text, at_most=SYNC_COST, digits=1))
    return outcome


def tell_costs(
    outcome: Outcome, label: str, results: dict[Kind, list[dict[str, Any]]], at_most: float | None = None
) -> None:
    """CPU time of a message, user and system: a second figure for the same row, which noise hardly moves.

    at_most: µs that the master may take; None: no target
    """
    outcome.figures.append(
        absolute_figure(
            f"{label}: CPU time of the master for a message",
            "µs",
            values(results, "master_us"),
            "–" if at_most is None else f"≤ {at_most:g} µs",
            at_most=at_most,
            digits=1,
        )
    )
    slave = values(results, "slave_us")
    outcome.figures.append(
        absolute_figure(f"{label}: CPU time of the slave for a message", "µs", slave, "–", digits=1)
    )


def _tell_latencies(outcome: Outcome, results: dict[Kind, list[dict[str, Any]]]) -> None:
    for kind, each in results.items():
        if each:
            last = each[-1]
            outcome.notes.append(
                f"{kind.value}: a request took {last['p50_ms']:.2f} ms (p50), {last['p99_ms']:.2f} ms (p99), "
                f"{last['max_ms']:.1f} ms at most"
            )
