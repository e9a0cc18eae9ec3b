"""VIEW_BROKER_STATS_DATA (315): what each topic and group has moved in the last minute, hour and day.

Nothing is done per message: puts are counted by the store in runs of one topic, gets once per answered pull,
both as rising totals. A loop samples the totals every 10 s, and a window is the difference between its
first and its last sample, as in RocketMQ's StatsItem: minutes of 10 s samples, hours of 10 min ones, days of
hourly ones. One series of samples serves the count and the size of the same thing.

RocketMQ keeps some thirty statistics; here are those that its tools ask for. The rest (latencies, reads from
disk, commercial counters) are answered like a name that doesn't exist.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.consumer.consumeroffset import SEPARATOR
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.stats import StoreStats
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.steps import Steps
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import encode_body
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import text_field

SAMPLE_INTERVAL = 10.0
"""Seconds between samples."""

_WINDOWS = ((1, 7), (60, 7), (360, 25))
"""Minute, hour, day: intervals between two samples of the window, and samples it has."""

MAX_SERIES = 10_000
"""Topics, and groups times topics, that are sampled, some 8 KiB each after a day. Further ones aren't."""

SERIES_PER_STEP = 500
"""Sampled in one go: a millisecond."""

Totals = tuple[int, int, int]
"""Messages, bytes, and how many times something was added."""

_NOTHING: Totals = (0, 0, 0)
_MESSAGES, _BYTES = 0, 1

_PUTS, _GETS, _SENT_BACK, _ALL_PUTS, _ALL_GETS = "puts", "gets", "sent back", "all puts", "all gets"

_STATS = {
    "TOPIC_PUT_NUMS": (_PUTS, _MESSAGES),
    "TOPIC_PUT_SIZE": (_PUTS, _BYTES),
    "GROUP_GET_NUMS": (_GETS, _MESSAGES),
    "GROUP_GET_SIZE": (_GETS, _BYTES),
    "SNDBCK_PUT_NUMS": (_SENT_BACK, _MESSAGES),
    "BROKER_PUT_NUMS": (_ALL_PUTS, _MESSAGES),
    "BROKER_GET_NUMS": (_ALL_GETS, _MESSAGES),
}
"""RocketMQ's name -> kind and column. Keys are topics, topic@group, topic@group, and the cluster's name."""


class BrokerStatsItem(msgspec.Struct, frozen=True, kw_only=True):
    """One window. sum: what was added; tps: that per second; avgpt: that per time something was added."""

    avgpt: float = 0.0
    sum: int = 0
    tps: float = 0.0


class BrokerStatsData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer's body."""

    stats_day: BrokerStatsItem
    stats_hour: BrokerStatsItem
    stats_minute: BrokerStatsItem


class Series:
    """Samples of one thing's totals: (the clock's seconds, totals), a deque for each window."""

    __slots__ = ("windows",)

    def __init__(self, now: float) -> None:
        self.windows = [
            deque([(now - step * SAMPLE_INTERVAL, _NOTHING)], maxlen=length) for step, length in _WINDOWS
        ]

    def sample(self, now: float, due: Iterable[bool], totals: Totals) -> None:
        """Add a sample to the windows that are due.

        - now: seconds
        - due: which windows, in their order
        - totals: counted so far
        """
        for window, wanted in zip(self.windows, due, strict=True):
            if wanted or len(window) == 1:
                window.append((now, totals))

    def item(self, window: int, column: int) -> BrokerStatsItem:
        """The last minute (0), hour (1) or day (2)."""
        samples = self.windows[window]
        (began, first), (ended, last) = samples[0], samples[-1]
        added, times = last[column] - first[column], last[2] - first[2]
        return BrokerStatsItem(
            sum=added,
            tps=added / (ended - began) if ended > began else 0.0,
            avgpt=added / times if times > 0 else 0.0,
        )


class BrokerStats:
    """Counts what consumers get, samples it and what the store counts, and answers for the windows.

    - clock: times the samples
    - store: counts what is put
    - cluster: key of the broker's own totals
    - topic_exists: a topic that doesn't any more is forgotten with the next sample
    """

    def __init__(
        self,
        clock: IReactorTime,
        store: StoreStats,
        cluster: str,
        topic_exists: Callable[[str], bool] = lambda topic: True,
    ) -> None:
        self._clock = clock
        self._store = store
        self._cluster = cluster
        self._topic_exists = topic_exists
        self._gets: dict[str, list[int]] = {}
        self._sent_back: dict[str, list[int]] = {}
        self._series: dict[tuple[str, str], Series] = {}
        self._ticks = 0
        self._steps = Steps(clock, "sampling the statistics")
        self._loop = PeriodicCall(clock, "sampling the statistics of topics and groups", self.sample)

    def start(self) -> None:
        """Start sampling."""
        self._loop.start(SAMPLE_INTERVAL)

    def stop(self) -> None:
        """Stop sampling."""
        self._loop.stop()
        self._steps.forget(self)

    # -- counting --------------------------------------------------------------------------------------------

    def count_get(self, group: str, topic: str, messages: int, size: int) -> None:
        """A pull was answered with messages.

        - group: that pulled
        - topic: of the messages
        - messages, size: how many, and their bytes
        """
        _add(self._gets, f"{topic}{SEPARATOR}{group}", messages, size)

    @property
    def gets(self) -> Mapping[str, Sequence[int]]:
        """topic@group -> messages, bytes and pulls answered with some, as many as there are up to MAX_SERIES."""
        return self._gets

    def count_sent_back(self, group: str, topic: str) -> None:
        """A consumer of `group` sent a message of `topic` back."""
        _add(self._sent_back, f"{topic}{SEPARATOR}{group}", 1, 0)

    def _forget_topics(self, deleted: Collection[str]) -> None:
        for topic in deleted:
            self._store.topic_puts.pop(topic, None)
        if deleted:
            self._forget(lambda key: key.partition(SEPARATOR)[0] in deleted)

    def forget_group(self, group: str) -> None:
        """The group is deleted, and what was counted with it."""
        self._forget(lambda key: key.partition(SEPARATOR)[2] == group)

    def _forget(self, gone: Callable[[str], bool]) -> None:
        for counts in (self._gets, self._sent_back):
            for key in [key for key in counts if gone(key)]:
                del counts[key]
        for kind, key in [pair for pair in self._series if pair[0] in (_PUTS, _GETS, _SENT_BACK)]:
            if gone(key):
                del self._series[kind, key]

    # -- sampling --------------------------------------------------------------------------------------------

    def sample(self) -> Deferred[None]:
        """Add a sample to every series; fires when all have it. Series of topics that are gone are forgotten."""
        return self._steps.run(self, self._sampling())

    def _sampling(self) -> Generator[None, None, None]:
        self._ticks += 1
        due = [self._ticks % step == 0 for step, _ in _WINDOWS]
        sources = self._sources()
        of_topics = sources.keys() - {_ALL_PUTS, _ALL_GETS}
        rows = [(kind, key, counts[key]) for kind, counts in sources.items() for key in counts]
        deleted = set()
        for number, (kind, key, totals) in enumerate(rows, 1):
            if number % SERIES_PER_STEP == 0:
                yield
            if kind in of_topics and not self._topic_exists(topic := key.partition(SEPARATOR)[0]):
                deleted.add(topic)
            else:
                self._sample(kind, key, totals, due)
        self._forget_topics({topic for topic in deleted if not self._topic_exists(topic)})

    def _sample(self, kind: str, key: str, totals: Iterable[int], due: Iterable[bool]) -> None:
        now, series = self._clock.seconds(), self._series.get((kind, key))
        if series is None:
            if len(self._series) >= MAX_SERIES:
                return
            series = self._series[kind, key] = Series(now)
        messages, size, times = totals
        series.sample(now, due, (messages, size, times))

    def _sources(self) -> Mapping[str, Mapping[str, Iterable[int]]]:
        store = self._store
        return {
            _PUTS: store.topic_puts,
            _GETS: self._gets,
            _SENT_BACK: self._sent_back,
            _ALL_PUTS: {self._cluster: (store.put_total, store.put_size_total, 0)},
            _ALL_GETS: {self._cluster: (store.get_total, 0, 0)},
        }

    # -- answering -------------------------------------------------------------------------------------------

    def consume_tps(self, group: str, topic: str) -> float:
        """Messages a second that the group got of the topic in the last minute."""
        series = self._series.get((_GETS, f"{topic}{SEPARATOR}{group}"))
        return series.item(0, _MESSAGES).tps if series is not None else 0.0

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """All windows of one statistic; None if there is no such thing."""
        kind, column = _STATS.get(name, ("", 0))
        series = self._series.get((kind, key))
        if series is None:
            if key not in self._sources().get(kind, ()):
                return None
            series = Series(self._clock.seconds())
        minute, hour, day = (series.item(window, column) for window in range(len(_WINDOWS)))
        return BrokerStatsData(stats_day=day, stats_hour=hour, stats_minute=minute)


def _add(counts: dict[str, list[int]], key: str, messages: int, size: int) -> None:
    totals = counts.get(key)
    if totals is None:
        if len(counts) >= MAX_SERIES:
            return
        totals = counts[key] = [0, 0, 0]
    totals[0] += messages
    totals[1] += size
    totals[2] += 1


class StatsProcessor:
    """Answers 315."""

    def __init__(self, stats: BrokerStats) -> None:
        self._stats = stats

    def register_on(self, table: ProcessorTable) -> None:
        table.register(RequestCode.VIEW_BROKER_STATS_DATA, answer_bad_requests(self.view))

    def view(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        name, key = text_field(request.ext, "statsName"), text_field(request.ext, "statsKey")
        data = self._stats.view(name, key)
        if data is None:
            return response(request, ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        return response(request, body=encode_body(data))
