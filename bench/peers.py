"""Rows beside Apache Kafka: the same sizes, the same durability, the same machine in turn.

Kafka's side is loaded by Kafka's own generator, a Java program that costs more of the machine than ours does: the
CPU time of a message in the brokers is the fairer of the figures. Its latencies are those of a queue in its
producer, and aren't shown.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.arena import (
    BATCH,
    JAVA_OPTIONS,
    REWARM_SECONDS,
    SINGLE,
    Arena,
    Costs,
    LoadOptions,
    RowFailed,
    check_answers,
    servers,
    settle,
)
from bench.figures import Outcome, Values, absolute_figure, ratio_figure
from testbed import kafkapair
from testbed.brokergroup import JAVA as KAFKA
from testbed.brokergroup import OURS, BrokerGroup, Kind
from testbed.kafkapair import KafkaPair
from testbed.processes import Setting

BODY = 1024
BATCH_BYTES = 52_000
"""Room for 50 messages as Kafka writes them, and for no more."""
ACKS = {"SYNC_MASTER": "all", "ASYNC_MASTER": "1"}
COLD_RECORDS = 10_000
"""Enough to find out how many take a second."""
KAFKA_WARM = (3, 10, 10)
"""Seconds that its runs before the measured ones take, each at the rate of the one before."""


@dataclass(frozen=True)
class Way:
    """How messages are sent: to ours, and by Kafka's producer."""

    label: str
    ours: LoadOptions
    kafka: dict[str, Setting]


SINGLY = Way(
    "one message a request, 256 in flight",
    SINGLE,
    {"batch.size": 0, "max.in.flight.requests.per.connection": 256},
)
BATCHED = Way(
    "50 messages a request, 32 in flight",
    BATCH,
    {"batch.size": BATCH_BYTES, "linger.ms": 1, "max.in.flight.requests.per.connection": 32},
)


def kafka_sync(arena: Arena) -> Outcome:
    """SYNC_MASTER with a slave, and Kafka with acks=all and two replicas in sync."""
    return _beside_kafka(arena, "SYNC_MASTER", (SINGLY, BATCHED))


def kafka_async(arena: Arena) -> Outcome:
    """ASYNC_MASTER with a slave, and Kafka with acks=1 and two replicas."""
    return _beside_kafka(arena, "ASYNC_MASTER", (SINGLY, BATCHED))


def _beside_kafka(arena: Arena, role: str, ways: Sequence[Way]) -> Outcome:
    missing = kafkapair.available()
    if missing is not None:
        raise RowFailed(missing)
    outcome = Outcome()
    with arena.pair(OURS, role) as group, kafka_pair(arena) as kafka:
        group.start()
        kafka.start()
        for way in ways:
            _contest(arena, outcome, group, kafka, way)
    return outcome


@contextmanager
def kafka_pair(arena: Arena) -> Iterator[KafkaPair]:
    """Not started yet; what it keeps is removed afterwards."""
    folder = arena.folder / "kafka"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with KafkaPair(folder, JAVA_OPTIONS) as pair:
            yield pair
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _contest(arena: Arena, outcome: Outcome, group: BrokerGroup, kafka: KafkaPair, way: Way) -> None:
    """Warm both, then measure in turn. Idle, neither of them costs the other much."""
    acks = ACKS[group.role]
    properties: dict[str, Setting] = {"acks": acks, "enable.idempotence": False, **way.kafka}
    arena.say(f"warming both: {way.label}, {group.role} and acks={acks}")
    arena.load(group.master_port, way.ours, warm=arena.warm_seconds(OURS), quiet=True)
    rate = kafka.produce(COLD_RECORDS, BODY, properties).rate
    for seconds in KAFKA_WARM[:1] if arena.quick else KAFKA_WARM:
        rate = kafka.produce(int(rate * seconds), BODY, properties).rate
    records = int(rate * arena.measure_seconds)
    rates: Values = {OURS: [], KAFKA: []}
    first: Values = {OURS: [], KAFKA: []}
    second: Values = {OURS: [], KAFKA: []}
    for number in range(arena.repeats):
        settle()
        arena.warm_memory()
        costs = Costs(*servers(group))
        result = arena.load(
            group.master_port, way.ours, warm=(REWARM_SECONDS, 0), seconds=arena.measure_seconds, quiet=True
        )
        check_answers(result)
        # The rates are those of each second, the ones before the measurement with them.
        _note(first, second, OURS, costs.each(sum(result["rates"])))
        rates[OURS].append(float(result["rate"]))
        arena.warm_memory()
        costs = Costs(kafka.leader, kafka.follower)
        rates[KAFKA].append(kafka.produce(records, BODY, properties).rate)
        _note(first, second, KAFKA, costs.each(records))
        arena.say(f"{number + 1}: ours {rates[OURS][-1]:,.0f}, Kafka {rates[KAFKA][-1]:,.0f} msgs/s")
    label = f"send, {group.role} / acks={acks}, {way.label}"
    outcome.figures.append(ratio_figure(label, "msgs/s", rates, at_least=1.0, other="Kafka"))
    for who, each in (("master / leader", first), ("slave / follower", second)):
        label = f"the same: CPU time of the {who} for a message"
        outcome.figures.append(absolute_figure(label, "µs", each, "–", digits=1))


def _note(first: Values, second: Values, kind: Kind, costs: Sequence[float]) -> None:
    for values, cost in zip((first, second), costs, strict=True):
        values[kind].append(cost)
