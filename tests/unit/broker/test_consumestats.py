"""How far groups are behind: 208, 317, 303, 308."""

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.admin import consumestats
from hatwisted.broker.consumer.subscriptiongroup import GroupConfig
from hatwisted.wire import fastjson
from hatwisted.wire.registration import TopicConfig
from tests.unit.broker.rig import NOW, BrokerRig, GroupMember

BEGIN = int(NOW * 1000)


def key(queue_id, topic="T"):
    return f'{{"brokerName":"broker-a","queueId":{queue_id},"topic":"{topic}"}}'


class StatsCase(TestCase):
    def setUp(self):
        """Topic T: 4 queues; queue 0 has 5 messages, one a second, of which group g has consumed 3."""
        rig = self.rig = BrokerRig(self)
        for second in range(5):
            rig.put()
            rig.clock.advance(BEGIN / 1000 + second + 1 - rig.clock.seconds())
        rig.tables.offsets.commit("g", "T", 0, 3)
        rig.tables.groups.put(GroupConfig(group_name="g"))

    @inlineCallbacks
    def ask(self, code, **more):
        answer = yield self.rig.ask(code, **more)
        self.assertEqual(answer.code, 0, answer.remark)
        return fastjson.loads(answer.body)


class TestProgress(StatsCase):
    @inlineCallbacks
    def test_every_queue_of_the_group_s_topics(self):
        wanted = {"brokerOffset": 5, "consumerOffset": 3, "lastTimestamp": BEGIN + 2000}
        nothing = {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0}
        for more in ({}, {"topic": "T"}, {"topic": ""}):
            stats = yield self.ask(208, consumerGroup="g", **more)
            self.assertEqual(stats["consumeTps"], 0.0)
            self.assertEqual(
                stats["offsetTable"], {key(0): wanted} | {key(each): nothing for each in (1, 2, 3)}
            )

    @inlineCallbacks
    def test_5x_tools_get_the_pull_offset_too(self):
        stats = yield self.ask(208, consumerGroup="g", version=479)
        self.assertEqual(stats["offsetTable"][key(0)]["pullOffset"], 3)

    @inlineCallbacks
    def test_rate_of_the_last_minute(self):
        yield self.rig.pull()
        self.rig.clock.advance(10)
        stats = yield self.ask(208, consumerGroup="g")
        self.assertEqual(stats["consumeTps"], 0.5)

    @inlineCallbacks
    def test_topics_unknown_or_unsubscribed_are_left_out(self):
        self.rig.tables.offsets.commit("g", "GONE", 0, 3)
        client = yield GroupMember.connected(self.rig)
        yield client.beat(topics=("U",))
        stats = yield self.ask(208, consumerGroup="g")
        self.assertEqual(stats["offsetTable"], {})
        yield client.beat(topics=("T",))
        stats = yield self.ask(208, consumerGroup="g")
        self.assertEqual(len(stats["offsetTable"]), 4)

    @inlineCallbacks
    def test_all_groups_of_the_broker(self):
        stats = yield self.ask(317, isOrder="false")
        self.assertEqual(stats["brokerAddr"], "127.0.0.1:10911")
        self.assertEqual((stats["totalDiff"], stats["totalInflightDiff"]), (2, 0))
        groups = {group: found for each in stats["consumeStatsList"] for group, found in each.items()}
        self.assertEqual(groups["TOOLS_CONSUMER"], [])
        self.assertEqual(groups["g"][0]["offsetTable"][key(0)]["lastTimestamp"], BEGIN + 2000)
        stats = yield self.ask(317, isOrder="true")
        self.assertEqual(stats["totalDiff"], 0)

    @inlineCallbacks
    def test_answers_are_bounded(self):
        self.patch(consumestats, "MAX_QUEUES", 3)
        for code, ext in ((208, {"consumerGroup": "g"}), (317, {"isOrder": "false"})):
            answer = yield self.rig.ask(code, **ext)
            self.assertEqual(answer.code, 1)
            self.assertIn("ask for less", answer.remark)

    @inlineCallbacks
    def test_missing_fields(self):
        for code, name in ((208, "consumerGroup"), (317, "isOrder"), (303, "topic"), (308, "topic")):
            answer = yield self.rig.ask(code)
            self.assertEqual((answer.code, answer.remark), (1, f"request field {name} is missing"))


class TestSteps(StatsCase):
    """A topic may have 65,536 queues, and each costs a read of the log: others have their turn in between."""

    @inlineCallbacks
    def test_nobody_waits_for_a_whole_walk(self):
        rig, queues = self.rig, 1000
        rig.tables.topics.put(TopicConfig(topic_name="Big", read_queue_nums=queues, write_queue_nums=queues))
        rig.tables.offsets.commit("g", "Big", 0, 0)
        for queue_id in range(queues):
            rig.tables.offsets.commit("h", "Big", queue_id, 0)
        asked = []

        def counted(real):
            return lambda *where: asked.append(where) or real(*where)

        for name in ("queue_end", "queue_offsets", "offset_by_time"):
            self.patch(rig.store, name, counted(getattr(rig.store, name)))
        for code, group in ((208, "g"), (317, "g"), (303, "g"), (202, "g"), (222, "h"), (308, "h")):
            asked.clear()
            fields = {
                "consumerGroup": group,
                "group": group,
                "compareGroup": group,
                "topic": "Big",
                "timestamp": 1,
                "isOrder": "false",
            }
            answering = rig.ask(code, isForce="true", **fields)
            yield rig.until(lambda asked=asked: asked)
            self.assertLess(len(set(asked)), 50)
            self.assertFalse(answering.called, code)
            yield rig.until(lambda answering=answering: rig.turn() or answering.called)
            answer = yield answering
            self.assertIn(answer.code, (0, 206), answer.remark)
            self.assertGreaterEqual(len(set(asked)), queues)


class TestTimes(StatsCase):
    @inlineCallbacks
    def test_times_of_every_queue(self):
        spans = (yield self.ask(303, topic="T", group="g"))["consumeTimeSpanSet"]
        wanted = {
            "consumeTimeStamp": BEGIN + 2000,
            "delayTime": 2000,
            "maxTimeStamp": BEGIN + 4000,
            "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "T"},
            "minTimeStamp": BEGIN,
        }
        self.assertEqual((len(spans), spans[0]), (4, wanted))
        self.assertEqual((spans[1]["minTimeStamp"], spans[1]["delayTime"]), (-1, 0))
        spans = (yield self.ask(303, topic="T", group="h"))["consumeTimeSpanSet"]
        self.assertEqual((spans[0]["consumeTimeStamp"], spans[0]["delayTime"]), (BEGIN, 5000))

    @inlineCallbacks
    def test_unknown_topic(self):
        answer = yield self.rig.ask(303, topic="U", group="g")
        self.assertEqual((answer.code, answer.remark), (17, "topic[U] not exist"))


class TestCorrection(StatsCase):
    @inlineCallbacks
    def test_lowest_progress_of_all_groups(self):
        offsets = self.rig.tables.offsets
        offsets.commit("h", "T", 0, 2)
        offsets.commit("h", "T", 1, 4)
        offsets.commit("i", "T", 0, 1)
        found = yield self.ask(308, topic="T", compareGroup="g", filterGroups="i")
        self.assertEqual(found, {"correctionOffsets": {"0": 2, "1": 4}})
        found = yield self.ask(308, topic="T", compareGroup="i", filterGroups="i,x")
        self.assertEqual(found, {"correctionOffsets": {"0": (1 << 63) - 1, "1": 4}})
