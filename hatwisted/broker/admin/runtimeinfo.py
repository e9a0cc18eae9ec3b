"""GET_BROKER_RUNTIME_INFO (28): the broker's figures, as RocketMQ's tools print and parse them.

A flat table, every value text. `mqadmin clusterList` reads the rates (up to three numbers, space-separated,
the first one counts), queue sizes and waits, the morning totals and `brokerActive`; people read the rest.
Figures of things this broker doesn't have (thread pools, a page cache lock) are shown as idle, because tools
expect them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.interfaces import IReactorTime

from hatwisted import __version__
from hatwisted.store.interfaces import LocalTime
from hatwisted.store.log.put import PutStatus
from hatwisted.store.messagestore import MessageStore
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire import fastjson
from hatwisted.wire.codes import V4_9_7

DAY_CHECK_INTERVAL = 60.0
"""Seconds between looks whether a new day has begun: how late the morning totals may be taken."""

_POOLS = {"send": 10_000, "pull": 100_000, "query": 20_000}
"""RocketMQ's thread pools and the lengths of their queues."""


class DayTotals:
    """What a rising total was this morning and the morning before.

    - clock: seconds since the epoch
    - total: the present one
    - local_time: the one that days are counted by
    """

    def __init__(self, clock: IReactorTime, total: Callable[[], int], local_time: LocalTime) -> None:
        self._clock = clock
        self._total = total
        self._local_time = local_time
        self._day = self._today()
        self.this_morning = 0
        self.yesterday_morning = 0

    def check(self) -> None:
        """Take the morning's total if a new day has begun."""
        today = self._today()
        if today != self._day:
            self._day = today
            self.yesterday_morning, self.this_morning = self.this_morning, self._total()

    def figures(self, name: str) -> dict[str, str]:
        """The three entries of the table; `name` is "msgPutTotal" or "msgGetTotal"."""
        return {
            f"{name}YesterdayMorning": str(self.yesterday_morning),
            f"{name}TodayMorning": str(self.this_morning),
            f"{name}TodayNow": str(self._total()),
        }

    def _today(self) -> int:
        return self._local_time(self._clock.seconds()).toordinal()


class RuntimeInfo:
    """Gathers the figures of a store.

    - clock: tells since when
    - store: whose
    - local_time: the one that days are counted by
    """

    def __init__(self, clock: IReactorTime, store: MessageStore, local_time: LocalTime) -> None:
        self._sources: list[Callable[[], Mapping[str, str]]] = []
        self._clock = clock
        self._store = store
        self._started = clock.seconds()
        self._puts = DayTotals(clock, lambda: store.stats.put_total, local_time)
        self._gets = DayTotals(clock, lambda: store.stats.get_total, local_time)
        self._loop = PeriodicCall(clock, "recording the day's totals", self._check_day)

    def add_source(self, source: Callable[[], Mapping[str, str]]) -> None:
        """Have further entries (replication, say), asked for at every request."""
        self._sources.append(source)

    def remove_source(self, source: Callable[[], Mapping[str, str]]) -> None:
        """Undo `add_source`."""
        self._sources.remove(source)

    def start(self) -> None:
        """Start watching for midnight. This also counts as the broker's start time."""
        self._started = self._clock.seconds()
        self._loop.start(DAY_CHECK_INTERVAL)

    def stop(self) -> None:
        """Stop watching."""
        self._loop.stop()

    def _check_day(self) -> None:
        self._puts.check()
        self._gets.check()

    def encode(self) -> bytes:
        """The answer's body."""
        return fastjson.dumps_compact({"table": self.table()})

    def table(self) -> dict[str, str]:
        """All entries, text to text."""
        self._check_day()
        table = self._broker() | self._log() | self._puts_and_gets() | _idle_pools()
        table |= self._puts.figures("msgPutTotal") | self._gets.figures("msgGetTotal")
        for source in self._sources:
            table |= source()
        return table

    def _broker(self) -> dict[str, str]:
        return {
            "brokerVersion": str(V4_9_7),
            "brokerVersionDesc": "V4_9_7",
            "brokerActive": "true",
            "hatwistedVersion": __version__,
            "bootTimestamp": str(int(self._started * 1000)),
            "runtime": _duration(self._clock.seconds() - self._started),
        }

    def _log(self) -> dict[str, str]:
        store = self._store
        ratio = f"{store.disk_usage_ratio:.2f}"
        total, free = min(store.watermark.sizes.values(), key=lambda sizes: sizes[1])
        return {
            "commitLogDirCapacity": f"Total : {_size(total)}, Free : {_size(free)}.",
            "commitLogMinOffset": str(store.log.min_offset),
            "commitLogMaxOffset": str(store.log.max_offset),
            "commitLogDiskRatio": ratio,
            "consumeQueueDiskRatio": ratio,
            "dispatchBehindBytes": str(store.dispatch_behind_bytes),
            "remainHowManyDataToFlush": _size(store.log.max_offset - store.log.flushed_offset),
            "earliestMessageTimeStamp": str(store.earliest_message_time()),
        }

    def _puts_and_gets(self) -> dict[str, str]:
        stats = self._store.stats
        found, miss, transferred = (
            stats.get_found_tps(),
            stats.get_miss_tps(),
            _rates(stats.get_transferred_tps()),
        )
        average = stats.put_size_total / stats.put_total if stats.put_total else 0.0
        return {
            "putMessageTimesTotal": str(stats.put_total),
            "putMessageFailedTimes": str(stats.put_failed),
            "putMessageFlushDiskTimeoutTimes": str(stats.put_statuses[PutStatus.FLUSH_DISK_TIMEOUT]),
            "putMessageFlushSlaveTimeoutTimes": str(stats.put_statuses[PutStatus.FLUSH_SLAVE_TIMEOUT]),
            "putMessageSlaveNotAvailableTimes": str(stats.put_statuses[PutStatus.SLAVE_NOT_AVAILABLE]),
            "putMessageSizeTotal": str(stats.put_size_total),
            "putMessageAverageSize": str(average),
            "putMessageEntireTimeMax": str(stats.put_entire_time_max),
            "getMessageEntireTimeMax": str(stats.get_entire_time_max),
            "putTps": _rates(stats.put_tps()),
            "getFoundTps": _rates(found),
            "getMissTps": _rates(miss),
            "getTotalTps": _rates([hit + none for hit, none in zip(found, miss, strict=True)]),
            "getTransferedTps": transferred,  # RocketMQ 4.x spells it so, 5.x asks for the other
            "getTransferredTps": transferred,
        }


def _idle_pools() -> dict[str, str]:
    table = {
        "pageCacheLockTimeMills": "0",
        "dispatchMaxBuffer": "0",
        # rocketmq-exporter reads no figure at all without the next two: what RocketMQ says when it has none.
        "putMessageDistributeTime": "null",
        "remainTransientStoreBufferNumbs": str((1 << 31) - 1),
        "startAcceptSendRequestTimeStamp": "0",
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": "100000",
    }
    for pool, capacity in _POOLS.items():
        table[f"{pool}ThreadPoolQueueSize"] = "0"
        table[f"{pool}ThreadPoolQueueCapacity"] = str(capacity)
        table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return table


_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def _rates(rates: list[float]) -> str:
    return " ".join(f"{rate:.2f}" for rate in rates)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {rest} seconds ]"


def _size(count: int) -> str:
    """Bytes the way RocketMQ writes them for people: "512 B", "1.5 KiB"."""
    if count < 1024:
        return f"{count} B"
    exponent = min((count.bit_length() - 1) // 10, len(_UNITS))
    return f"{count / 1024**exponent:.1f} {_UNITS[exponent - 1]}"
