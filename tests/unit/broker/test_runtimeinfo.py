"""The broker's figures."""

import json
from datetime import datetime

from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from hatwisted.broker.admin.runtimeinfo import DAY_CHECK_INTERVAL, DayTotals
from hatwisted.health.javatext import capacity
from tests.support import golden
from tests.unit.broker.rig import BrokerRig

NOT_OURS = {
    # Figures of parts that this broker doesn't have, or per path and level.
    "putLatency99",
    "putLatency999",
    "commitLogDiskRatio_/data/rocketmq/m/commitlog",
    "scheduleMessageOffset_1",
    "scheduleMessageOffset_2",
}


class TestRuntimeInfo(TestCase):
    def setUp(self):
        self.rig = BrokerRig(self)

    @inlineCallbacks
    def table(self):
        answer = yield self.rig.ask(28)
        self.assertEqual(answer.code, 0)
        return json.loads(answer.body)["table"]

    @inlineCallbacks
    def test_every_captured_entry_is_there_and_all_values_are_text(self):
        captured = json.loads(golden.answers()["GET_BROKER_RUNTIME_INFO"]["body"])["table"]
        table = yield self.table()
        self.assertEqual(set(captured) - set(table), NOT_OURS)
        self.assertEqual({type(value) for value in table.values()}, {str})
        self.assertEqual((table["brokerVersion"], table["brokerVersionDesc"]), ("407", "V4_9_7"))

    @inlineCallbacks
    def test_figures_of_the_log(self):
        self.rig.put(count=3)
        yield self.rig.pull(0)
        log = self.rig.store.log
        table = yield self.table()
        self.assertEqual(table["commitLogMaxOffset"], str(log.max_offset))
        self.assertEqual(table["commitLogMinOffset"], "0")
        self.assertEqual(table["dispatchBehindBytes"], "0")
        self.assertEqual(table["msgGetTotalTodayNow"], "3")
        self.assertGreater(int(table["earliestMessageTimeStamp"]), 0)
        self.assertTrue(0 <= float(table["commitLogDiskRatio"]) <= 1)

    @inlineCallbacks
    def test_the_disk_is_described_as_tools_parse_it(self):
        self.rig.store.watermark.sizes |= dict.fromkeys(self.rig.store.watermark.sizes, (270 << 30, 3 << 29))
        table = yield self.table()
        self.assertEqual(table["commitLogDirCapacity"], "Total : 270.0 GiB, Free : 1.5 GiB.")
        self.assertEqual(capacity(table["commitLogDirCapacity"]), (270 << 30, 3 << 29))

    @inlineCallbacks
    def test_rates_are_numbers_separated_by_spaces(self):
        table = yield self.table()
        for name in (
            "putTps",
            "getFoundTps",
            "getMissTps",
            "getTotalTps",
            "getTransferedTps",
            "getTransferredTps",
        ):
            self.assertEqual(len([float(rate) for rate in table[name].split(" ")]), 3, name)

    @inlineCallbacks
    def test_how_long_it_has_been_running(self):
        self.rig.clock.advance(93_784)
        table = yield self.table()
        self.assertEqual(table["runtime"], "[ 1 days, 2 hours, 3 minutes, 4 seconds ]")

    @inlineCallbacks
    def test_further_sources(self):
        self.rig.runtime.add_source(lambda: {"haState": "TRANSFER"})
        self.assertEqual((yield self.table())["haState"], "TRANSFER")


class TestDayTotals(SynchronousTestCase):
    def test_morning_totals_move_on_at_midnight(self):
        clock = Clock()
        clock.advance(datetime(2026, 11, 20, 23, 59, 30).timestamp())
        total = [100]
        day = DayTotals(clock, lambda: total[0], datetime.fromtimestamp)
        for wanted in ((0, 100), (100, 250), (250, 400)):
            clock.advance(DAY_CHECK_INTERVAL)
            day.check()
            figures = day.figures("msgPutTotal")
            self.assertEqual((day.yesterday_morning, day.this_morning), wanted)
            self.assertEqual(figures["msgPutTotalTodayNow"], str(total[0]))
            total[0] += 150
            clock.advance(86_400 - DAY_CHECK_INTERVAL)
