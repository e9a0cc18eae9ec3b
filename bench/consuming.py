"""Rows about consuming: pulls out of the page cache, and the way of a message from send to waiting consumer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

from bench.arena import REWARM_SECONDS, Arena, Costs, Duel, RowFailed, servers
from bench.figures import Outcome, Values, ratio_figure
from bench.sending import tell_costs, values
from testbed.brokergroup import BrokerGroup, Kind
from testbed.processes import REPOSITORY, wait_until
from testbed.remotingclient import (
    PULL_MESSAGE,
    SEND_MESSAGE_V2,
    RemotingClient,
    pull_fields,
    send_fields,
)

PULLED_BYTES = 300 << 20  # of log: well within the 40 % of memory that count as hot
PULL_WARM = {True: 3, False: 25}  # seconds; by whether the run is a quick one
ROUND_TRIPS = {True: 300, False: 6000}
WARM_SECONDS = 40.0
WARM_ROUNDS = {True: 200, False: 8000}
TOPIC, BODY = "latency", b"x" * 1024
HOLD_MILLIS, ANSWER_SECONDS = 15_000, 30.0
HELD_SECONDS = 0.0005  # after which a pull is held for certain, not answered at once


def pull(arena: Arena) -> Outcome:
    """4 consumers, 32 messages of 1 KiB a pull, one pull in flight each, from the page cache."""
    outcome = Outcome()
    results: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in arena.kinds}
    with Duel(arena, "ASYNC_MASTER", outcome).started() as duel:
        for kind in list(duel.groups):
            with duel.attempt(kind):
                arena.fill(duel.groups[kind], PULLED_BYTES // (10 if arena.quick else 1))
                pulls(duel.groups[kind], warm=PULL_WARM[arena.quick], seconds=1)
        for number, kind in duel.turns():
            with duel.attempt(kind), duel.alone(kind) as group:
                costs = Costs(*servers(group))
                result = pulls(group, warm=REWARM_SECONDS, seconds=arena.measure_seconds)
                messages = result["messages"] + result["warmed"]
                result["master_us"], result["slave_us"] = costs.each(messages)
                arena.say(f"{kind.value} {number + 1}: {result['rate']:,.0f} msgs/s pulled")
                results[kind].append(result)
    rates = values(results, "rate")
    label = "pull, 4 consumers, 32 messages a pull, page cache"
    outcome.figures.append(ratio_figure(label, "msgs/s", rates, at_least=1.0))
    tell_costs(outcome, label, results)
    for kind, each in results.items():
        if each:
            last = each[-1]
            outcome.notes.append(
                f"{kind.value}: {last['bytes'] / 1e6:,.0f} MB/s of records; a pull took "
                f"{last['p50_ms']:.2f} ms (p50), {last['p99_ms']:.2f} ms (p99)"
            )
    return outcome


def pulls(group: BrokerGroup, *, warm: float, seconds: float) -> dict[str, Any]:
    """What pulling showed; see `bench.pullgen`."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.pullgen", "127.0.0.1", str(group.master_port)]
        + ["--warm", str(warm), "--seconds", str(seconds)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=warm + seconds + 60,
    )
    if done.returncode:
        raise RowFailed(f"the pulls failed: {done.stderr.strip()[-300:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["result"]
    if set(result["codes"]) != {"0"}:
        raise RowFailed(f"pulls were answered {result['codes']}")
    return result


def end_to_end(arena: Arena) -> Outcome:
    """From a send to the answer of the long pull that waits for it, one message at a time, ASYNC_MASTER."""
    outcome = Outcome()
    times: dict[Kind, list[np.ndarray[Any, Any]]] = {kind: [] for kind in arena.kinds}
    spent: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in arena.kinds}
    with Duel(arena, "ASYNC_MASTER", outcome).started() as duel:
        for kind in list(duel.groups):
            with duel.attempt(kind):
                round_trips(duel.groups[kind], WARM_ROUNDS[arena.quick], WARM_SECONDS)
        for number, kind in duel.turns():
            with duel.attempt(kind), duel.alone(kind) as group:
                costs = Costs(*servers(group))
                took = round_trips(group, ROUND_TRIPS[arena.quick], arena.measure_seconds)
                spent[kind].append(dict(zip(("master_us", "slave_us"), costs.each(len(took)), strict=True)))
                p50, p99 = np.quantile(took, [0.5, 0.99])
                arena.say(f"{kind.value} {number + 1}: p50 {p50:.3f} ms, p99 {p99:.3f} ms of {len(took)}")
                times[kind].append(took)
    for name, quantile in (("p50", 0.5), ("p99", 0.99)):
        measured: Values = {
            kind: [float(np.quantile(each, quantile)) for each in runs] for kind, runs in times.items()
        }
        label = f"send to long-polling consumer, {name}"
        outcome.figures.append(ratio_figure(label, "ms", measured, at_most=1.0, digits=3))
    tell_costs(outcome, "send to long-polling consumer", spent)
    return outcome


def round_trips(group: BrokerGroup, count: int, seconds: float) -> np.ndarray[Any, Any]:
    """Milliseconds from each send until the consumer has its message; the consumer waits before each."""
    took: list[float] = []
    end = time.perf_counter() + seconds
    with group.master_client(ANSWER_SECONDS) as producer, group.master_client(ANSWER_SECONDS) as consumer:
        offset = producer.send(TOPIC, b"makes the topic").queue_offset + 1
        _wait_dispatched(consumer, offset)
        while len(took) < count and time.perf_counter() < end:
            asked = consumer.post(PULL_MESSAGE, pull_fields(TOPIC, 0, offset, 32, HOLD_MILLIS))
            time.sleep(HELD_SECONDS)
            begun = time.perf_counter()
            sent = producer.post(SEND_MESSAGE_V2, send_fields(TOPIC, 0, {}), BODY)
            answer = consumer.answer(asked)
            took.append((time.perf_counter() - begun) * 1e3)
            answer.expect(0)
            producer.answer(sent).expect(0)
            offset = int(answer.ext["nextBeginOffset"])
    return np.array(took)


def _wait_dispatched(client: RemotingClient, offset: int) -> None:
    wait_until(
        lambda: client.max_queue_offset(TOPIC, 0) >= offset, ANSWER_SECONDS, "the first message is there"
    )
