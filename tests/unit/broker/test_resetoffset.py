"""Resets of groups: 222 from a tool, 220 to the members, 15 from them; and 314."""

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.admin import resetoffset
from hatwisted.wire import fastjson
from hatwisted.wire.messagequeue import parse_queue_table
from tests.unit.broker.rig import NOW, BrokerRig, GroupMember

BEGIN = int(NOW * 1000)


class ResetCase(TestCase):
    def setUp(self):
        """Topic T: 4 queues; queues 0 and 1 have 10 messages, one a second; group g stands at 5 in all."""
        rig = self.rig = BrokerRig(self)
        for _ in range(10):
            rig.put(queue_id=0)
            rig.put(queue_id=1)
            rig.clock.advance(1)
        for queue_id in range(4):
            rig.tables.offsets.commit("g", "T", queue_id, 5 if queue_id < 2 else 0)

    def reset(self, **more):
        return self.rig.ask(222, **{"topic": "T", "group": "g", "timestamp": -1, "isForce": "true"} | more)

    def table(self, body):
        """Queue id -> offset, of a body keyed by queues."""
        table = parse_queue_table(fastjson.loads(body)["offsetTable"])
        self.assertEqual({(queue.broker_name, queue.topic) for queue in table}, {("broker-a", "T")})
        return {queue.queue_id: offset for queue, offset in table.items()}

    @inlineCallbacks
    def member(self, **more):
        client = yield GroupMember.connected(self.rig)
        yield client.beat(**more)
        return client

    def stands(self):
        return self.rig.tables.offsets.queues("g", "T")


class TestReset(ResetCase):
    @inlineCallbacks
    def test_every_member_is_told_and_the_tool_answered(self):
        one = yield self.member()
        two = yield self.member(client_id="c2")
        yield one.asked()
        one.requests.clear()
        answer = yield self.reset()
        self.assertEqual(answer.code, 0)
        self.assertEqual(self.table(answer.body), {0: 10, 1: 10, 2: 0, 3: 0})
        for member in (one, two):
            (order,) = yield member.asked()
            self.assertEqual((order.code, order.flag), (220, 2))
            self.assertEqual(order.ext, {"topic": "T", "group": "g", "timestamp": "-1", "isForce": "true"})
            self.assertEqual(order.body, answer.body)
        self.assertEqual(self.stands()[0], 5)

    @inlineCallbacks
    def test_cpp_members_get_a_list(self):
        member = yield self.member(language="CPP")
        yield self.reset()
        (order,) = yield member.asked()
        offsets = fastjson.loads(order.body)["offsetTable"]
        self.assertEqual(offsets[0], {"brokerName": "broker-a", "offset": 10, "queueId": 0, "topic": "T"})
        self.assertEqual([each["queueId"] for each in offsets], [0, 1, 2, 3])

    @inlineCallbacks
    def test_what_many_queues_need_is_written_in_steps(self):
        """Others have their turns in between."""
        self.patch(resetoffset, "PAIRS_PER_STEP", 2)
        self.patch(resetoffset, "QUEUES_PER_STEP", 1000)
        member = yield self.member()
        asked = self.reset()
        yield self.rig.ask(28)
        self.assertNoResult(asked)
        self.rig.clock.advance(0)
        answer = yield asked
        self.assertEqual(self.table(answer.body), {0: 10, 1: 10, 2: 0, 3: 0})
        (order,) = yield member.asked()
        self.assertEqual(order.body, answer.body)

    @inlineCallbacks
    def test_time_is_the_first_message_at_or_after_it_and_without_force_nobody_goes_forward(self):
        yield self.member()
        answer = yield self.reset(timestamp=BEGIN + 2500)
        self.assertEqual(self.table(answer.body)[0], 3)
        answer = yield self.reset(timestamp=BEGIN + 7500)
        self.assertEqual(self.table(answer.body)[0], 8)
        answer = yield self.reset(timestamp=BEGIN + 7500, isForce="false")
        self.assertEqual(self.table(answer.body)[0], 5)

    @inlineCallbacks
    def test_members_carry_it_out_although_they_go_back(self):
        one = yield self.member()
        two = yield self.member(client_id="c2")
        commit = {"consumerGroup": "g", "topic": "T", "queueId": 0}
        yield one.ask(15, **commit, commitOffset=8)
        yield two.ask(15, **commit, commitOffset=2)
        self.assertEqual(self.stands()[0], 8)
        yield self.reset(timestamp=BEGIN)
        self.rig.clock.advance(10)
        yield two.ask(15, **commit, commitOffset=0)
        self.assertEqual(self.stands()[0], 0)

    @inlineCallbacks
    def test_offline_group_is_reported_by_206_and_the_tool_commits(self):
        answer = yield self.reset()
        self.assertEqual(answer.code, 206)
        self.assertIn("Consumer not online", answer.remark)
        answer = yield self.rig.ask(15, consumerGroup="g", topic="T", queueId=0, commitOffset=1)
        self.assertEqual((answer.code, self.stands()[0]), (0, 1))

    @inlineCallbacks
    def test_group_without_progress_and_unknown_topic(self):
        answer = yield self.reset(group="h")
        self.assertEqual((answer.code, answer.remark), (1, "THe consumer group <h> not exist"))
        answer = yield self.reset(topic="U")
        self.assertEqual(answer.code, 1)
        self.assertIn("no topic in this broker. topic=U", answer.remark)

    @inlineCallbacks
    def test_one_queue_as_5x_tools_name_it(self):
        answer = yield self.reset(queueId=1, offset=7, timestamp=0)
        self.assertEqual((answer.code, self.table(answer.body)), (0, {1: 7}))
        self.assertEqual(self.stands()[1], 7)
        member = yield self.member()
        answer = yield self.reset(queueId=1, offset=-1)
        self.assertEqual(self.table(answer.body), {1: 10})
        (order,) = yield member.asked()
        self.assertEqual(self.table(order.body), {1: 10})
        answer = yield self.reset(queueId=-1, offset=-1)
        self.assertEqual(len(self.table(answer.body)), 4)

    @inlineCallbacks
    def test_bad_fields_are_named(self):
        for field, value in (
            ("timestamp", "soon"),
            ("queueId", "x"),
            ("queueId", 4),
            ("queueId", -2),
            ("offset", "x"),
        ):
            more = {"queueId": 1} if field == "offset" else {}
            answer = yield self.reset(**more | {field: value})
            self.assertEqual(
                (answer.code, answer.remark), (1, f"request field {field} has the value '{value}'")
            )
        answer = yield self.reset(queueId=1, offset=11)
        self.assertEqual(
            (answer.code, answer.remark), (1, "Target offset 11 not in consume queue range [0-10]")
        )
        answer = yield self.rig.ask(222, topic="T", group="g", timestamp=0)
        self.assertEqual((answer.code, answer.remark), (1, "request field isForce is missing"))

    @inlineCallbacks
    def test_member_too_old_to_be_reset(self):
        yield self.member(version=27)
        answer = yield self.reset()
        self.assertEqual(answer.code, 1)
        self.assertIn("does not support this feature", answer.remark)


class TestClone(ResetCase):
    @inlineCallbacks
    def test_one_group_where_another_one_is(self):
        answer = yield self.rig.ask(314, srcGroup="g", destGroup="h", topic="T", offline="true")
        self.assertEqual(answer.code, 0)
        self.assertEqual(self.rig.tables.offsets.queues("h", "T"), self.stands())
        yield self.rig.ask(314, srcGroup="g", destGroup="i", offline="false")
        self.assertEqual(self.rig.tables.offsets.queues("i", "T"), self.stands())

    @inlineCallbacks
    def test_online_group_s_former_topics_are_left_out(self):
        yield self.member(topics=("U",))
        yield self.rig.ask(314, srcGroup="g", destGroup="h", offline="false")
        self.assertEqual(self.rig.tables.offsets.queues("h", "T"), {})
        answer = yield self.rig.ask(314, srcGroup="g")
        self.assertEqual((answer.code, answer.remark), (1, "request field destGroup is missing"))


class TestCommits(ResetCase):
    @inlineCallbacks
    def test_absurd_commits_are_refused_by_name(self):
        for field, value in (
            ("queueId", -1),
            ("queueId", 70_000),
            ("commitOffset", -5),
            ("commitOffset", "x"),
        ):
            ext = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 3, field: value}
            answer = yield self.rig.ask(15, **ext)
            self.assertEqual(
                (answer.code, answer.remark), (1, f"request field {field} has the value '{value}'")
            )
        self.assertEqual(self.stands()[0], 5)
