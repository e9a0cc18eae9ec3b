"""Rows about width instead of depth: connections that do nothing, and topics by the hundred."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from bench.arena import REWARM_SECONDS, SINGLE, Arena, Costs, LoadOptions, attempt, check_answers
from bench.figures import Outcome, Values, absolute_figure, ratio_figure
from bench.frames import topic_name
from hatwisted.wire.topics import AUTO_CREATE_TOPIC
from testbed.brokergroup import BrokerGroup
from testbed.processes import wait_until
from testbed.remotingclient import RemotingClient

IDLE = 1000
IDLE_MEMORY, IDLE_CPU = 50.0, 1.0  # MB, percent of a core
TOPICS, MORE_TOPICS, QUEUES = (10, 100, 500), (5000,), 8
STOP_LIMIT = 300.0  # seconds; RocketMQ syncs each queue's file by itself
KNOWN_LIMIT = 90.0  # seconds until a row gives a side up
LOSS_LIMIT, MORE_LOSS_LIMIT = 10.0, 20.0  # percent
STARTS = 3
START_SHARE = 0.5  # of RocketMQ's seconds
NAMESRV_LIMIT = 10.0  # s
SLAVE_LIMIT = 11.0  # s: RocketMQ's slave asks every 10 s
HEART_BEAT, UPDATE_AND_CREATE_TOPIC, GET_ALL_TOPIC_CONFIG, GET_ALL_TOPIC_LIST = 34, 17, 21, 206
PREFIX = "width"


def idle_connections(arena: Arena) -> Outcome:
    """1,000 connections to the master that were silent after their heartbeat."""
    outcome = Outcome()
    memory: Values = {}
    busy: Values = {}
    seconds = 3 if arena.quick else 20
    for kind in arena.kinds:
        with attempt(arena, outcome, kind), arena.pair(kind, "ASYNC_MASTER") as group, ExitStack() as stack:
            group.start()
            arena.load(group.master_port, SINGLE, seconds=3 if arena.quick else 15, quiet=True)
            time.sleep(2)
            before, idle_before = group.master.memory(), _busy(group, seconds)
            for number in range(IDLE):
                client = stack.enter_context(group.master_client())
                beat = b'{"clientID":"10.0.0.1@%d","producerDataSet":[{"groupName":"g%d"}]}' % (
                    number,
                    number,
                )
                client.call(HEART_BEAT, {}, beat).expect(0)
            time.sleep(1)
            busy[kind] = [_busy(group, seconds)]
            memory[kind] = [(group.master.memory() - before) / 1e6]
            outcome.notes.append(f"{kind.value}: {idle_before:.2f} % of a core without them")
    label = f"{IDLE:,} idle connections"
    text = f"< {IDLE_MEMORY:g} MB"
    outcome.figures.append(
        absolute_figure(f"{label}: memory", "MB more", memory, text, at_most=IDLE_MEMORY, digits=1)
    )
    text = f"< {IDLE_CPU:g} %"
    outcome.figures.append(
        absolute_figure(f"{label}: processor", "% of a core", busy, text, at_most=IDLE_CPU, digits=2)
    )
    return outcome


def _busy(group: BrokerGroup, seconds: float) -> float:
    begun = group.master.cpu_seconds()
    time.sleep(seconds)
    return (group.master.cpu_seconds() - begun) / seconds * 100


def topics(arena: Arena) -> Outcome:
    """Up to 500 topics x 8 queues: created and known to name server and slave, a start with them, sends to all."""
    return _wide(arena, TOPICS, LOSS_LIMIT)


def more_topics(arena: Arena) -> Outcome:
    """The same with 5,000 topics x 8 queues."""
    return _wide(arena, MORE_TOPICS, MORE_LOSS_LIMIT)


def _wide(arena: Arena, counts: Sequence[int], loss_limit: float) -> Outcome:
    outcome = Outcome()
    known: dict[str, list[dict[str, float]]] = {}
    starts: Values = {}
    losses: Values = {}
    costs: Values = {}
    for kind in arena.kinds:
        with attempt(arena, outcome, kind), arena.pair(kind, "ASYNC_MASTER", namesrv=True) as group:
            group.start()
            known[kind.value] = [_make_known(arena, group, count) for count in counts]
            losses[kind], costs[kind] = _losses(arena, group, counts[-1])
            starts[kind], stops = _starts(arena, group)
            outcome.notes.append(
                f"{kind.value}: an orderly stop took {stops[0]:.1f} s, and later {stops[-1]:.1f} s"
            )
    outcome.series["known" if counts is TOPICS else "known of more"] = known
    every = f"{counts[-1]:,} topics x {QUEUES}"
    for which, most in (("name server", NAMESRV_LIMIT), ("slave", SLAVE_LIMIT)):
        values: Values = {kind: [known[kind.value][-1][which]] for kind in starts}
        label = f"{every} queues created: all known to the {which}"
        text = f"seconds (≤ {most:g})"
        outcome.figures.append(absolute_figure(label, "s", values, text, at_most=most, digits=2))
    label = f"start of a master with {every} queues"
    outcome.figures.append(ratio_figure(label, "s", starts, at_most=START_SHARE, digits=2))
    label, text = f"sends to {every}, compared with one topic", f"≤ {loss_limit:g} % below"
    outcome.figures.append(absolute_figure(label, "% below", losses, text, at_most=loss_limit, digits=1))
    label = "the same: CPU time of the master for a message"
    outcome.figures.append(absolute_figure(label, "µs more", costs, "–", digits=1))
    for name, curve in known.items():
        points = (f"{p['topics']:.0f}: {p['name server']:.2f} and {p['slave']:.2f} s" for p in curve)
        outcome.notes.append(f"{name}: topics until name server and slave know them: {', '.join(points)}")
    return outcome


def _starts(arena: Arena, group: BrokerGroup) -> tuple[list[float], list[float]]:
    """Seconds of the master's starts, each after an orderly stop, and of the stops. The first may find the end of
    the log on the disk alone; the others find it in memory."""
    starts, stops = [], []
    for _ in range(1 if arena.quick else STARTS):
        begun = time.perf_counter()
        group.master.stop(STOP_LIMIT)
        stops.append(time.perf_counter() - begun)
        arena.warm_memory()
        starts.append(group.master.start())
    arena.say(f"{group.master_kind.value}: starts of {', '.join(f'{each:.2f}' for each in starts)} s")
    return starts, stops


def _make_known(arena: Arena, group: BrokerGroup, count: int) -> dict[str, float]:
    """Make topics until there are `count`; seconds until all are known."""
    begun = time.perf_counter()
    names = make_topics(group, count)
    made = time.perf_counter() - begun
    with RemotingClient("127.0.0.1", group.namesrv_port, 30) as client:
        _wait_known(client, GET_ALL_TOPIC_LIST, names)
    registered = time.perf_counter() - begun
    with group.slave_client(30) as client:
        _wait_known(client, GET_ALL_TOPIC_CONFIG, names)
    synced = time.perf_counter() - begun
    arena.say(
        f"{group.master_kind.value}: {count} topics made in {made:.2f} s, known to the name server after "
        f"{registered:.2f} s, to the slave after {synced:.2f} s"
    )
    return {"topics": count, "made": made, "name server": registered, "slave": synced}


def make_topics(group: BrokerGroup, count: int) -> list[str]:
    """Have the master make so many; their names, which begin with PREFIX."""
    names = [topic_name(PREFIX, number) for number in range(count)]
    with group.master_client(60) as client:
        posted = [client.post(UPDATE_AND_CREATE_TOPIC, _topic_fields(name)) for name in names]
        for each in posted:
            client.answer(each).expect(0)
    return names


def sends_to(count: int) -> LoadOptions:
    """Single sends to all of so many topics."""
    return {**SINGLE, "topic": PREFIX, "queues": QUEUES, "topics": count}


def _topic_fields(name: str) -> dict[str, str]:
    queues = str(QUEUES)
    fields = {
        "topic": name,
        "defaultTopic": AUTO_CREATE_TOPIC,
        "readQueueNums": queues,
        "writeQueueNums": queues,
    }
    return fields | {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}


def _wait_known(client: RemotingClient, code: int, names: list[str]) -> None:
    def all_there() -> bool:
        body = client.call(code).expect(0).body
        return all(b'"%b"' % name.encode() in body for name in names)

    wait_until(all_there, KNOWN_LIMIT, f"{len(names)} topics are known")


def _losses(arena: Arena, group: BrokerGroup, count: int) -> tuple[list[float], list[float]]:
    """How much worse sends to so many topics are than sends to one, for each repetition: percent of the rate, and
    µs of the master's CPU time for a message."""
    one: LoadOptions = {**SINGLE, "topic": f"{PREFIX}0000", "queues": QUEUES}
    many = sends_to(count)
    warm = arena.warm_seconds(group.master_kind)
    for options in (one, many):
        arena.load(group.master_port, options, warm=warm, quiet=True)
    losses, costs = [], []
    for number in range(arena.repeats):
        (single, cheap), (wide, dear) = (_rate(arena, group, options) for options in (one, many))
        arena.say(
            f"{group.master_kind.value} {number + 1}: {single:,.0f} to one, {wide:,.0f} msgs/s to all, "
            f"{cheap:.1f} and {dear:.1f} µs a message"
        )
        losses.append(100 * (1 - wide / single))
        costs.append(dear - cheap)
    return losses, costs


def _rate(arena: Arena, group: BrokerGroup, options: LoadOptions) -> tuple[float, float]:
    """Messages a second, and µs of the master's CPU time for each."""
    arena.warm_memory()
    weighed = Costs(group.master)
    result: dict[str, Any] = arena.load(
        group.master_port, options, warm=(REWARM_SECONDS, 0), seconds=arena.measure_seconds, quiet=True
    )
    check_answers(result)
    (cost,) = weighed.each(sum(result["rates"]))
    return float(result["rate"]), cost
