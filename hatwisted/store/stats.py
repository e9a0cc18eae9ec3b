"""Counters of a store and the rates that operators read off them (RocketMQ's StoreStatsService).

Counting is adding to plain ints, once per batch; a loop samples the totals each second, and a rate is
the difference of two samples over the time between them.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence

from twisted.internet.interfaces import IReactorTime

from hatwisted.kernel import SettledPuts, count_put
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.timing.periodic import PeriodicCall

SAMPLES = 601
"""One-second samples kept: what a ten-minute rate needs."""

RATE_WINDOWS = (10, 60, 600)
"""Seconds over which RocketMQ measures a rate."""


class StoreStats:
    """Totals since start; sizes in bytes, times in ms."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self.start_time = clock.seconds()
        self._settled = SettledPuts(Put, PutStatus.PUT_OK)
        self.put_total = 0
        self.put_size_total = 0
        self.put_failed = 0
        """Puts answered otherwise than PUT_OK, those that are stored all the same included."""
        self.put_statuses: dict[PutStatus, int] = dict.fromkeys(PutStatus, 0)
        self.topic_puts: dict[str, array[int]] = {}
        """Topic -> messages, bytes, puts. As many as there are topics that are sent to."""
        self.put_entire_time_max = 0
        self.get_found_total = 0
        self.get_miss_total = 0
        self.get_total = 0
        """Messages handed to consumers."""
        self.get_entire_time_max = 0
        self._samples: deque[tuple[float, int, int, int, int]] = deque(maxlen=SAMPLES)
        self._loop = PeriodicCall(clock, "sampling the store's statistics", self.sample)

    def start(self) -> None:
        """Start sampling."""
        self._loop.start(1.0, now=True)

    def stop(self) -> None:
        """Stop sampling."""
        self._loop.stop()

    def count_puts(self, puts: Sequence[Put]) -> None:
        """The settled puts of one batch."""
        index = 0
        while index < len(puts):
            messages, size, after = self._settled.count(puts, index, self.topic_puts)
            self.put_statuses[PutStatus.PUT_OK] += after - index
            self._add(messages, size)
            if after < len(puts):
                self._count_other(puts[after])
                after += 1
            index = after

    def _count_other(self, put: Put) -> None:
        assert put.status is not None
        self.put_statuses[put.status] += 1
        self.put_failed += 1
        if put.end >= 0:
            self._add(*count_put(self.topic_puts, put))

    def _add(self, messages: int, size: int) -> None:
        self.put_total += messages
        self.put_size_total += size

    def count_get(self, messages: int, took: int) -> None:
        """A read that found this many messages (0: none) and took this many milliseconds."""
        self.get_entire_time_max = max(self.get_entire_time_max, took)
        if messages:
            self.get_found_total += 1
            self.get_total += messages
        else:
            self.get_miss_total += 1

    def sample(self) -> None:
        """Remember the totals."""
        self._samples.append(
            (self._clock.seconds(), self.put_total, self.get_found_total, self.get_miss_total, self.get_total)
        )

    def put_tps(self) -> list[float]:
        """Messages put per second over the last 10, 60 and 600 s, as far as sampled."""
        return self._rates(1)

    def get_found_tps(self) -> list[float]:
        """Reads that found something, likewise."""
        return self._rates(2)

    def get_miss_tps(self) -> list[float]:
        """Reads that found nothing, likewise."""
        return self._rates(3)

    def get_transferred_tps(self) -> list[float]:
        """Messages handed out, likewise."""
        return self._rates(4)

    def _rates(self, column: int) -> list[float]:
        samples = self._samples
        if len(samples) < 2:
            return [0.0] * len(RATE_WINDOWS)
        rates = []
        for window in RATE_WINDOWS:
            first, last = samples[max(0, len(samples) - 1 - window)], samples[-1]
            seconds = last[0] - first[0]
            rates.append((last[column] - first[column]) / seconds if seconds > 0 else 0.0)
        return rates
