"""Windows of what topics and groups have moved: 315."""

import json

from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from hatwisted.broker.admin import brokerstats as statsview
from hatwisted.broker.admin.brokerstats import BrokerStats
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.store.stats import StoreStats
from tests.unit.broker.rig import HOST, BrokerRig


class TestWindows(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.store = StoreStats(self.clock)
        self.deleted = set()
        self.stats = BrokerStats(self.clock, self.store, "C", lambda topic: topic not in self.deleted)
        self.stats.start()
        self.addCleanup(self.stats.stop)

    def puts(self, *topics, messages=1, size=100):
        puts = []
        for topic in topics:
            put = Put(topic, 0, (), HOST, 0)
            put.status, put.offset, put.end = PutStatus.PUT_OK, 0, size
            put.record_offsets = [0] * messages
            puts.append(put)
        self.store.count_puts(puts)

    def view(self, name, key):
        """(sum, tps, avgpt) of minute, hour and day."""
        data = self.stats.view(name, key)
        windows = (data.stats_minute, data.stats_hour, data.stats_day)
        return [(window.sum, window.tps, window.avgpt) for window in windows]

    def test_puts_of_a_batch_are_counted_by_topic(self):
        failed = Put("T", 0, (), HOST, 0)
        failed.status = PutStatus.MESSAGE_ILLEGAL
        self.store.count_puts([failed])
        self.puts("T", "T", "U", "T", messages=2)
        self.assertEqual(
            {topic: [*counts] for topic, counts in self.store.topic_puts.items()},
            {"T": [6, 300, 3], "U": [2, 100, 1]},
        )
        self.assertEqual(
            (self.store.put_total, self.store.put_size_total, self.store.put_failed), (8, 400, 1)
        )

    def test_what_is_stored_but_on_no_slave_has_failed_and_counts_as_stored(self):
        self.puts("T")
        for status in (PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.SLAVE_NOT_AVAILABLE):
            put = Put("T", 0, (), HOST, 0, offset=0, end=100, record_offsets=[0])
            put.status = status
            self.store.count_puts([put])
        self.assertEqual((self.store.put_total, self.store.put_failed), (3, 2))
        self.assertEqual(
            {topic: [*counts] for topic, counts in self.store.topic_puts.items()}, {"T": [3, 300, 3]}
        )

    def test_first_sample_counts_from_nothing(self):
        self.puts("T", "T", messages=5, size=1000)
        self.assertEqual(self.view("TOPIC_PUT_NUMS", "T"), [(0, 0.0, 0.0)] * 3)
        self.clock.advance(10)
        self.assertEqual(
            self.view("TOPIC_PUT_NUMS", "T"), [(10, 1.0, 5.0), (10, 10 / 600, 5.0), (10, 10 / 3600, 5.0)]
        )
        self.assertEqual(self.view("TOPIC_PUT_SIZE", "T")[0], (2000, 200.0, 1000.0))
        self.assertEqual(self.view("BROKER_PUT_NUMS", "C")[0], (10, 1.0, 0.0))

    def test_minute_forgets_what_is_older(self):
        self.puts("T")
        self.clock.pump([10] * 6)
        self.assertEqual(self.view("TOPIC_PUT_NUMS", "T")[0], (1, 1 / 60, 1.0))
        self.clock.advance(10)
        self.assertEqual(self.view("TOPIC_PUT_NUMS", "T")[0], (0, 0.0, 0.0))
        self.assertEqual(self.view("TOPIC_PUT_NUMS", "T")[1][0], 1)

    def test_hour_and_day_are_sampled_less_often(self):
        self.puts("T")
        for _ in range(6 * 60):
            self.clock.advance(10)
            self.puts("T")
        minute, hour, day = self.view("TOPIC_PUT_NUMS", "T")
        self.assertEqual((minute[0], hour[0], day[0]), (6, 359, 360))  # the hour's first sample is at 10 s
        for _ in range(6 * 60 * 25):
            self.clock.advance(10)
            self.puts("T")
        minute, hour, day = self.view("TOPIC_PUT_NUMS", "T")
        self.assertEqual((minute[0], hour[0], day[0]), (6, 360, 360 * 24))
        self.assertAlmostEqual(day[1], 0.1)

    def test_gets_and_messages_sent_back(self):
        self.stats.count_get("g", "T", 32, 3200)
        self.stats.count_get("g", "T", 8, 800)
        self.stats.count_sent_back("g", "T")
        self.clock.advance(10)
        self.assertEqual(self.view("GROUP_GET_NUMS", "T@g")[0], (40, 4.0, 20.0))
        self.assertEqual(self.view("GROUP_GET_SIZE", "T@g")[0], (4000, 400.0, 2000.0))
        self.assertEqual(self.view("SNDBCK_PUT_NUMS", "T@g")[0], (1, 0.1, 1.0))
        self.assertEqual((self.stats.consume_tps("g", "T"), self.stats.consume_tps("h", "T")), (4.0, 0.0))

    def test_deleted_topics_and_groups_are_forgotten(self):
        self.puts("T", "U")
        for topic in ("T", "U"):
            for group in ("g", "h"):
                self.stats.count_get(group, topic, 1, 1)
        self.clock.advance(10)
        self.deleted.add("T")
        self.stats.forget_group("g")
        self.clock.advance(10)
        self.assertIsNone(self.stats.view("TOPIC_PUT_NUMS", "T"))
        for key in ("T@g", "T@h", "U@g"):
            self.assertIsNone(self.stats.view("GROUP_GET_NUMS", key))
        self.assertEqual(self.view("GROUP_GET_NUMS", "U@h")[0][0], 1)
        self.assertEqual(self.view("TOPIC_PUT_NUMS", "U")[0][0], 1)

    def test_thousands_of_topics_are_sampled_in_steps(self):
        self.patch(statsview, "SERIES_PER_STEP", 10)
        self.puts(*(f"T{number}" for number in range(300)))
        turns = []

        def exists(_topic):
            self.clock.rightNow += 0.0005
            return True

        later = self.clock.callLater
        self.stats._topic_exists = exists
        self.patch(self.clock, "callLater", lambda delay, *call: turns.append(delay) or later(delay, *call))
        self.clock.advance(10)
        self.assertGreaterEqual(turns.count(0), 300 // 10 - 1)
        self.assertEqual(self.view("TOPIC_PUT_NUMS", "T299")[0][0], 1)
        self.assertEqual(self.view("BROKER_PUT_NUMS", "C")[0][0], 300)

    def test_a_walk_under_way_forgets_topics_that_are_gone_and_ends_with_the_stop(self):
        self.patch(statsview, "SERIES_PER_STEP", 10)
        self.puts(*(f"T{number}" for number in range(25)))
        self.clock.advance(10)
        self.deleted |= {"T3", "T24"}
        self.clock.advance(10)
        self.clock.advance(0)
        self.assertEqual(set(self.store.topic_puts), {f"T{number}" for number in range(25)} - self.deleted)
        self.clock.advance(10)
        self.stats.stop()
        self.clock.advance(60)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_what_is_sampled_is_bounded(self):
        self.patch(statsview, "MAX_SERIES", 3)
        for number in range(5):
            self.stats.count_get("g", f"T{number}", 1, 1)
        self.clock.advance(10)
        self.assertEqual(len(self.stats._series), 3)
        self.assertIsNone(self.stats.view("GROUP_GET_NUMS", "T4@g"))


class TestRequests(TestCase):
    @inlineCallbacks
    def test_answer_as_tools_read_it(self):
        rig = BrokerRig(self)
        rig.put(count=10)
        yield rig.pull(code=361)
        rig.clock.advance(10)
        answer = yield rig.ask(315, statsName="TOPIC_PUT_NUMS", statsKey="T")
        minute = {"avgpt": 1.0, "sum": 10, "tps": 1.0}
        content = json.loads(answer.body)
        self.assertEqual((answer.code, content["statsMinute"]), (0, minute))
        self.assertEqual(set(content), {"statsMinute", "statsHour", "statsDay"})
        answer = yield rig.ask(315, statsName="GROUP_GET_NUMS", statsKey="T@g")
        self.assertEqual(json.loads(answer.body)["statsHour"]["sum"], 10)
        answer = yield rig.ask(315, statsName="BROKER_GET_NUMS", statsKey="DefaultCluster")
        self.assertEqual(json.loads(answer.body)["statsMinute"]["sum"], 10)

    @inlineCallbacks
    def test_unknown_names(self):
        rig = BrokerRig(self)
        for name, key in (("TOPIC_PUT_NUMS", "U"), ("NO_SUCH", "T"), ("", "")):
            answer = yield rig.ask(315, statsName=name, statsKey=key)
            self.assertEqual((answer.code, answer.remark), (1, f"The stats <{name}> <{key}> not exist"))
        answer = yield rig.ask(315, statsName="TOPIC_PUT_NUMS")
        self.assertEqual((answer.code, answer.remark), (1, "request field statsKey is missing"))
