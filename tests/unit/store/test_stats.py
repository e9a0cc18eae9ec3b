"""What a store counts, and the rates that are read off it."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.log.put import Put, PutStatus
from hatwisted.store.stats import SAMPLES, StoreStats

OK, TIMEOUT, REFUSED = PutStatus.PUT_OK, PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.MESSAGE_ILLEGAL


def settled(topic: str, status: PutStatus, messages: int = 1, size: int = 100) -> Put:
    put = Put(topic, 0, (), b"", 0)
    put.status = status
    if status is not REFUSED:
        put.offset, put.end, put.record_offsets = 1000, 1000 + size, range(messages)
    return put


class CountTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1000)
        self.stats = StoreStats(self.clock)

    def test_everything_begins_at_nothing(self) -> None:
        stats = self.stats
        self.assertEqual((stats.start_time, stats.put_statuses), (1000, dict.fromkeys(PutStatus, 0)))
        counts = (stats.put_total, stats.put_size_total, stats.put_failed, stats.put_entire_time_max)
        self.assertEqual((counts, stats.topic_puts), ((0,) * 4, {}))
        gets = (stats.get_found_total, stats.get_miss_total, stats.get_total, stats.get_entire_time_max)
        self.assertEqual(gets, (0,) * 4)

    def test_puts_by_topic_and_by_outcome(self) -> None:
        self.stats.count_puts([])
        self.stats.count_puts(
            [
                settled("T", OK),
                settled("T", TIMEOUT, messages=3, size=300),
                settled("T", REFUSED),
                settled("T", OK, size=50),
                settled("U", OK, messages=2, size=7),
                settled("T", OK, size=1),
            ]
        )
        self.stats.count_puts([settled("U", REFUSED), settled("U", OK, size=5)])
        self.assertEqual(
            {topic: [*counts] for topic, counts in self.stats.topic_puts.items()},
            {"T": [6, 451, 4], "U": [3, 12, 2]},
        )
        self.assertEqual(
            (self.stats.put_total, self.stats.put_size_total, self.stats.put_failed), (9, 463, 3)
        )
        counted = {status: count for status, count in self.stats.put_statuses.items() if count}
        self.assertEqual(counted, {OK: 5, TIMEOUT: 1, REFUSED: 2})

    def test_reads_that_found_something_and_those_that_didnt(self) -> None:
        for messages, took in ((3, 5), (0, 9), (2, 7), (1, 1), (0, 2)):
            self.stats.count_get(messages, took)
        totals = (self.stats.get_found_total, self.stats.get_miss_total, self.stats.get_total)
        self.assertEqual((totals, self.stats.get_entire_time_max), ((3, 2, 6), 9))


class RateTests(CountTests):
    def second(self, puts: int, found: int, missed: int, read: int) -> None:
        self.stats.put_total += puts
        self.stats.get_found_total += found
        self.stats.get_miss_total += missed
        self.stats.get_total += read
        self.clock.advance(1)

    def rates(self) -> list[list[float]]:
        stats = self.stats
        found = stats.put_tps(), stats.get_found_tps(), stats.get_miss_tps(), stats.get_transferred_tps()
        return [list(each) for each in found]

    def test_of_10_60_and_600_seconds(self) -> None:
        self.assertEqual(self.rates(), [[0.0] * 3] * 4)
        self.stats.start()
        self.assertEqual(self.rates(), [[0.0] * 3] * 4)
        for _ in range(5):
            self.second(2, 4, 6, 8)
        self.assertEqual(self.rates(), [[2.0] * 3, [4.0] * 3, [6.0] * 3, [8.0] * 3], "as far as sampled")
        for _ in range(SAMPLES):
            self.second(0, 0, 0, 0)
        for _ in range(10):
            self.second(60, 120, 180, 240)
        rates = [[60.0 * n, 10.0 * n, 1.0 * n] for n in (1, 2, 3, 4)]
        self.assertEqual(self.rates(), rates)
        self.second(0, 0, 0, 0)
        self.assertEqual(self.rates()[0], [54.0, 10.0, 1.0])
        self.stats.stop()
        self.second(60, 0, 0, 0)
        self.assertEqual(self.rates()[0], [54.0, 10.0, 1.0])

    def test_of_a_clock_that_stood_still(self) -> None:
        self.stats.sample()
        self.stats.put_total = 5
        self.stats.sample()
        self.assertEqual(self.stats.put_tps(), [0.0] * 3)
