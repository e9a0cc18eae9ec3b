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
    WARM_BYTES,
    Arena,
    LoadOptions,
    RowFailed,
    check_answers,
    settle,
)
from bench.figures import Outcome, Values, absolute_figure, ratio_figure
from bench.warmth import touch
from testbed import kafkapair
from testbed.brokergroup import JAVA as KAFKA
from testbed.brokergroup import OURS, BrokerGroup
from testbed.kafkapair import KafkaPair
from testbed.processes import ServerProcess, Setting

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
    with arena.pair(OURS, role) as group, _kafka(arena) as kafka:
        group.start()
        kafka.start()
        for way in ways:
            _contest(arena, outcome, group, kafka, way)
    return outcome


@contextmanager
def _kafka(arena: Arena) -> Iterator[KafkaPair]:
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
    ours, theirs = _Costs(group.master, group.slave), _Costs(kafka.leader, kafka.follower)
    for number in range(arena.repeats):
        settle()
        touch(WARM_BYTES // 8 if arena.quick else WARM_BYTES)
        ours.begin()
        result = arena.load(
            group.master_port, way.ours, warm=(REWARM_SECONDS, 0), seconds=arena.measure_seconds, quiet=True
        )
        check_answers(result)
        # The rates are those of each second, the ones before the measurement with them.
        ours.end(sum(result["rates"]))
        rates[OURS].append(float(result["rate"]))
        touch(WARM_BYTES // 8 if arena.quick else WARM_BYTES)
        theirs.begin()
        rates[KAFKA].append(kafka.produce(records, BODY, properties).rate)
        theirs.end(records)
        arena.say(f"{number + 1}: ours {rates[OURS][-1]:,.0f}, Kafka {rates[KAFKA][-1]:,.0f} msgs/s")
    label = f"send, {group.role} / acks={acks}, {way.label}"
    outcome.figures.append(ratio_figure(label, "msgs/s", rates, at_least=1.0, other="Kafka"))
    costs: dict[str, Values] = {
        "master / leader": {OURS: ours.first, KAFKA: theirs.first},
        "slave / follower": {OURS: ours.second, KAFKA: theirs.second},
    }
    for who, each in costs.items():
        label = f"the same: CPU time of the {who} for a message"
        outcome.figures.append(absolute_figure(label, "µs", each, "–", digits=1))


class _Costs:
    """CPU time that a message has taken of both brokers of a pair, in µs, run by run."""

    def __init__(self, first: ServerProcess, second: ServerProcess) -> None:
        self.first: list[float] = []
        self.second: list[float] = []
        self._servers = (first, second)
        self._before: list[float] = []

    def begin(self) -> None:
        self._before = [server.cpu_seconds() for server in self._servers]

    def end(self, messages: int) -> None:
        for costs, server, begun in zip((self.first, self.second), self._servers, self._before, strict=True):
            costs.append(1e6 * (server.cpu_seconds() - begun) / max(1, messages))
