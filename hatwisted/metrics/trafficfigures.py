"""What passes through topics and groups, under the names of RocketMQ 5 and of rocketmq-exporter.

Topics have series of their own only if the operator wants it, and as many as he says; the rest is shown as OTHERS,
a `Tally`, so that sums stay right. Which ones they are doesn't change while they exist: a counter that jumped
between topics would look like a restart. Of groups the lag is shown, of those furthest behind.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from hatwisted.broker.admin.brokerstats import BrokerStats
from hatwisted.broker.consumer.clienttable import ClientTable, ConsumerGroup
from hatwisted.broker.consumer.consumeroffset import SEPARATOR
from hatwisted.broker.tables import BrokerTables
from hatwisted.metrics.families import Figures, labelled
from hatwisted.metrics.tally import Tally
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.consumerdata import BROADCASTING
from hatwisted.wire.topics import DLQ_PREFIX, RETRY_PREFIX

OTHERS: Final = "(others)"
"""Stands for topics that aren't shown by themselves."""

QUEUES_PER_STEP: Final = 64
"""Of the walk over groups, some 5 us each."""

SAMPLES_PER_STEP: Final = 250
"""Put into a family, some 2 us each."""

MAX_WALKED: Final = 20_000
"""Topics of groups whose lag is computed for one scrape, as many as an answer about progress has queues."""


class Labels(NamedTuple):
    """RocketMQ's, that all its series have."""

    cluster: str
    node_type: str
    node_id: str


class Lag(NamedTuple):
    """A topic of a group. behind: messages; queue_id, offset: the queue furthest behind, and what it waits for."""

    behind: int
    group: str
    topic: str
    queue_id: int
    offset: int


class TrafficParts(NamedTuple):
    """What the figures are taken from. now: the clock's; topics, groups: how many are shown."""

    labels: Labels
    store: MessageStore
    tables: BrokerTables
    clients: ClientTable
    stats: BrokerStats
    now: Callable[[], float]
    topics: int
    groups: int


class TrafficFigures:
    """A source."""

    def __init__(self, parts: TrafficParts) -> None:
        self._parts = parts
        self._labels = list(parts.labels._fields)
        self._values = list(parts.labels)
        self._other_puts, self._other_gets, self._dead_letters = Tally(), Tally(), Tally()

    def __call__(self) -> Figures:
        """See families.Source."""
        yield from self._in()
        yield None
        yield from self._out()
        yield None
        yield from self._clients()
        yield from self._lags()

    def _family(
        self, name: str, help_text: str, more: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
    ) -> Figures:
        """One family, made in steps."""
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        family = kind(f"rocketmq_{name}", help_text, labels=[*self._labels, *more])
        for number, (values, figure) in enumerate(samples, 1):
            family.add_metric([*self._values, *values], figure)
            if number % SAMPLES_PER_STEP == 0:
                yield None
        yield family

    # -- messages --------------------------------------------------------------------------------------------

    def _in(self) -> Figures:
        puts = self._parts.store.stats.topic_puts
        shown = _first(puts, self._parts.topics)
        yield from self._other_puts.take(puts, shown)
        for column, name, what in (
            (0, "messages_in_total", "Messages stored."),
            (1, "throughput_in_total", "Bytes stored, as records of the log."),
        ):
            samples = [([topic], counts[column]) for topic, counts in shown.items()]
            rest = self._other_puts.totals[column]
            yield from self._family(name, what, ["topic"], [*samples, ([OTHERS], rest)])
        dead = {topic: counts for topic, counts in puts.items() if topic.startswith(DLQ_PREFIX)}
        yield from self._dead_letters.take(dead, ())
        samples = [([], self._dead_letters.totals[0])]
        yield from self._family(
            "send_to_dlq_messages_total", "Messages given up after many tries.", [], samples
        )

    def _out(self) -> Figures:
        gets = self._parts.stats.gets
        shown = _first(gets, self._parts.topics)
        yield from self._other_gets.take(gets, shown)
        for column, name, what in (
            (0, "messages_out_total", "Messages handed to consumers."),
            (1, "throughput_out_total", "Bytes handed to consumers."),
        ):
            samples: list[tuple[Sequence[str], float]] = []
            for key, counts in shown.items():
                topic, _, group = key.partition(SEPARATOR)
                samples.append(([topic, group], counts[column]))
            rest = self._other_gets.totals[column]
            yield from self._family(
                name, what, ["topic", "consumer_group"], [*samples, ([OTHERS, OTHERS], rest)]
            )

    # -- clients ---------------------------------------------------------------------------------------------

    def _clients(self) -> Figures:
        clients, tables = self._parts.clients, self._parts.tables
        producers = {key for members in list(clients.producers.values()) for key in members}
        yield None
        consumers = {key for group in list(clients.consumers.values()) for key in group.members}
        yield None
        yield from self._family("producer_connections", "Producers connected.", [], [([], len(producers))])
        yield from self._family("consumer_connections", "Consumers connected.", [], [([], len(consumers))])
        yield from self._family("topic_number", "Topics.", [], [([], len(tables.topics.names()))])
        yield from self._family(
            "consumer_group_number", "Consumer groups.", [], [([], sum(1 for _ in tables.groups.made()))]
        )

    # -- lag -------------------------------------------------------------------------------------------------

    def _lags(self) -> Figures:
        parts = self._parts
        lags: list[Lag] = []
        keys = list(parts.tables.offsets.progress().offset_table)
        left_out = max(0, len(keys) - MAX_WALKED)
        queues = 0
        for key in keys[:MAX_WALKED]:
            topic, _, group = key.partition(SEPARATOR)
            if parts.tables.topics.get(topic) is None or not parts.clients.subscribes(group, topic):
                continue
            lag, count = self._lag(group, topic)
            lags.append(lag)
            queues += count
            if queues >= QUEUES_PER_STEP:
                queues = 0
                yield None
        total = sum(lag.behind for lag in lags)
        worst = heapq.nlargest(parts.groups, lags)
        yield None
        yield from self._of_lags(worst)
        for name, what, figure in (
            ("consumer_lag_all_messages", "Messages that groups are behind, all together.", total),
            (
                "consumer_lag_left_out",
                "Topics of groups without a figure.",
                left_out + len(lags) - len(worst),
            ),
        ):
            yield labelled(GaugeMetricFamily, f"hatwisted_{name}", what, [], [([], figure)])

    def _lag(self, group: str, topic: str) -> tuple[Lag, int]:
        """Of one topic, and the queues that were looked at: those where the group has progress."""
        store = self._parts.store
        behind, worst, at = 0, (-1, 0), 0
        queues = self._parts.tables.offsets.queues(group, topic)
        for queue_id, offset in queues.items():
            first, end = store.queue_offsets(topic, queue_id)
            lag = max(0, end - max(offset, first))
            behind += lag
            if (lag, queue_id) > worst:
                worst, at = (lag, queue_id), max(offset, first)
        return Lag(behind, group, topic, worst[1], at), len(queues)

    def _of_lags(self, lags: Sequence[Lag]) -> Figures:
        topics = self._parts.tables.topics
        kinds = [
            (lag, _truth(lag.topic.startswith(RETRY_PREFIX)), _truth(topics.is_system(lag.topic)))
            for lag in lags
        ]
        labels = ["consumer_group", "topic", "is_retry", "is_system"]
        yield from self._family(
            "consumer_lag_messages",
            "Messages that a group hasn't consumed yet.",
            labels,
            [([lag.group, lag.topic, *kind], lag.behind) for lag, *kind in kinds],
        )
        latencies = []
        for lag, *kind in kinds:
            latencies.append(([lag.group, lag.topic, *kind], self._waited(lag)))
            if len(latencies) % 32 == 0:
                yield None
        yield from self._family(
            "consumer_lag_latency",
            "Milliseconds that the next message waits, in the queue furthest behind.",
            labels,
            latencies,
        )
        yield from self._as_the_exporter(lags)

    def _waited(self, lag: Lag) -> float:
        if not lag.behind:
            return 0
        stored = self._parts.store.message_time(lag.topic, lag.queue_id, lag.offset)
        return max(0, int(self._parts.now() * 1000) - stored) if stored >= 0 else 0

    def _as_the_exporter(self, lags: Sequence[Lag]) -> Figures:
        """rocketmq-exporter has retries and dead letters under names of their own."""
        found: dict[str, list[tuple[Sequence[str], float]]] = {"diff": [], "retrydiff": [], "dlqdiff": []}
        for number, lag in enumerate(lags, 1):
            if number % SAMPLES_PER_STEP == 0:
                yield None
            kind = "diff"
            if lag.topic.startswith(RETRY_PREFIX):
                kind = "retrydiff"
            elif lag.topic.startswith(DLQ_PREFIX):
                kind = "dlqdiff"
            online = self._parts.clients.consumers.get(lag.group)
            found[kind].append(([lag.group, lag.topic, *_members(online)], lag.behind))
        labels = ["group", "topic", "countOfOnlineConsumers", "msgModel"]
        for kind, samples in found.items():
            text = "Messages that a group is behind, as rocketmq-exporter shows them."
            family = GaugeMetricFamily(f"rocketmq_group_{kind}", text, labels=labels)
            for number, (values, figure) in enumerate(samples, 1):
                family.add_metric(values, figure)
                if number % SAMPLES_PER_STEP == 0:
                    yield None
            yield family


def _members(group: ConsumerGroup | None) -> list[str]:
    """How many are online, and the exporter's number of the message model: 0 is broadcasting, 1 clustering."""
    if group is None:
        return ["0", "1"]
    return [str(len(group.members)), "0" if group.data.message_model == BROADCASTING else "1"]


def _truth(value: bool) -> str:
    return str(value).lower()


def _first(table: Mapping[str, Sequence[int]], count: int) -> Mapping[str, Sequence[int]]:
    """The `count` oldest entries."""
    return dict(islice(table.items(), count))
