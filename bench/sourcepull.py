"""The row of Spark's source `rocketmq`: a plain pull of a whole topic, beside our own clients that pull the same.

One master, with the name server that Spark asks for it, holds the topic in its page cache. It runs on the same
cores as its readers, and costs all of them the same. They take turns, each round with a Spark of its own, whose
first queries aren't counted; a share is that of one round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from bench.arena import MESSAGE_BYTES, Arena, RowFailed
from bench.figures import Outcome, absolute_figure
from bench.sparking import check_rows, need_room, run_jobs
from testbed.brokergroup import OURS, BrokerGroup, wait_dispatched

MESSAGES = 400_000
SETTLED_SECONDS = 60.0
TOPIC, QUEUES = "bench", 4
CORES = 2
READER, CONSUMER, ALL, BODY = "reader", "consumer", "all columns", "body alone"
LABELS = {
    READER: "our reader in one process, records as they come",
    CONSUMER: "our consumer in one process, each message an object",
    ALL: f"Spark local[{CORES}], source rocketmq, all columns",
    BODY: f"Spark local[{CORES}], source rocketmq, body alone",
}
SHARE = 0.7
"""Of the reader's rate, that the source is to have."""

Job = dict[str, Any]
Round = Mapping[str, Mapping[str, float]]
"""What one run of each was: rows, seconds, and CPU time of its processes and of the master."""


def source_pull(arena: Arena) -> Outcome:
    """A plain pull by Spark's source rocketmq, compared with our own reader."""
    outcome = Outcome()
    size = MESSAGES * MESSAGE_BYTES // (10 if arena.quick else 1)
    if OURS not in arena.kinds:
        return outcome
    need_room(arena, size)
    with arena.pair(OURS, "ASYNC_MASTER", namesrv=True) as group:
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        group.wait_registered(group.master_port)
        arena.fill(group, size)
        records = _records(group)
        rounds = []
        for number in range(arena.repeats):
            rounds.append(_round(arena, group, records))
            told = ", ".join(f"{what} {_rate(each):,.0f}" for what, each in rounds[-1].items())
            arena.say(f"round {number + 1}, msgs/s: {told}")
    tell(outcome, rounds)
    return outcome


def _records(group: BrokerGroup) -> int:
    """How many the topic has, once all of them are in their queues."""
    with group.master_client() as client:
        wait_dispatched(client, SETTLED_SECONDS)
        return sum(client.max_queue_offset(TOPIC, queue) for queue in range(QUEUES))


def _round(arena: Arena, group: BrokerGroup, records: int) -> Round:
    """All of them once, by turns, over the same messages."""
    address = f"127.0.0.1:{group.namesrv_port}"
    given: Job = {"namesrv": address, "topic": TOPIC, "broker": group.master.pid, "repeats": 1}
    source: Job = given | {"job": "source", "cores": CORES}
    processes: list[dict[str, Job]] = [
        {READER: given | {"job": "pull"}},
        {CONSUMER: given | {"job": "consume", "records": records}},
        {ALL: source | {"columns": None}, BODY: source | {"columns": ["body"]}},
    ]
    found: dict[str, Mapping[str, float]] = {}
    for jobs in processes:
        for what, results in zip(jobs, run_jobs(arena, list(jobs.values())), strict=True):
            check_rows(results, records)
            found[what] = results[-1]
    return found


def tell(outcome: Outcome, rounds: Sequence[Round]) -> None:
    """Figures of what each round was."""
    if not rounds:
        raise RowFailed("no round was measured")
    for what, label in LABELS.items():
        rates = {OURS: [_rate(each[what]) for each in rounds]}
        outcome.figures.append(absolute_figure(f"{label}: pull of a topic", "msgs/s", rates, "–"))
    for what in (ALL, BODY):
        shares = {OURS: [_rate(each[what]) / _rate(each[READER]) for each in rounds]}
        label = f"{LABELS[what]}: rate compared with our reader's of the topic"
        outcome.figures.append(absolute_figure(label, "x", shares, f"≥ {SHARE:g}x", at_least=SHARE, digits=2))
    records = rounds[0][READER]["rows"]
    outcome.notes.append(
        f"{records:,.0f} messages in {QUEUES} queues; a consumer's start and stop are in its time"
    )
    for what, label in LABELS.items():
        costs = {OURS: [_cost(each[what], "cpu") for each in rounds]}
        outcome.figures.append(absolute_figure(f"{label}: CPU time", "µs a message", costs, "–", digits=2))
        broker = median(_cost(each[what], "broker") for each in rounds)
        outcome.notes.append(f"{label}: the master took {broker:.2f} µs of CPU time a message besides")


def _rate(run: Mapping[str, float]) -> float:
    return run["rows"] / run["seconds"]


def _cost(run: Mapping[str, float], whose: str) -> float:
    return 1e6 * run[whose] / run["rows"]
