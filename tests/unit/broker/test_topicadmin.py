"""Topics made, changed, deleted and cleaned up: 17, 215, 306, 316, 329; looked at: 202, 300, 305, 321."""

import errno
import json
import os
import re

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.admin import topicstats
from hatwisted.broker.admin.topicadmin import NOT_ON_A_SLAVE, REGISTER_WAIT
from hatwisted.broker.node.masteraddress import KnownMaster
from hatwisted.broker.node.registration import Registration
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire import fastjson
from tests.unit.broker.rig import NOW, BrokerRig, GroupMember

UPDATE, DELETE, CLEAN_EXPIRED, CLEAN_UNUSED, DELETE_EXPIRED = 17, 215, 306, 316, 329
STATS, GROUPS, SYSTEM_TOPICS, ENTRIES = 202, 300, 305, 321
FIELDS = {
    "topic": "New",
    "defaultTopic": "TBW102",
    "readQueueNums": 6,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
}


class TestTopics(TestCase):
    def setUp(self):
        self.rig = BrokerRig(self)

    def topic(self, name="New"):
        return self.rig.tables.topics.get(name)

    @inlineCallbacks
    def test_made_and_changed(self):
        before = self.rig.tables.topics.version
        answer = yield self.rig.ask(UPDATE, **FIELDS, order="false")
        self.assertEqual((answer.code, answer.remark), (0, None))
        made = self.topic()
        self.assertEqual((made.read_queue_nums, made.write_queue_nums, made.perm), (6, 4, 6))
        self.assertEqual(self.rig.tables.topics.version.counter, before.counter + 1)
        yield self.rig.ask(UPDATE, **FIELDS | {"perm": 4, "topicSysFlag": 2, "topicFilterType": "MULTI_TAG"})
        made = self.topic()
        self.assertEqual((made.perm, made.topic_sys_flag, made.topic_filter_type), (4, 2, "MULTI_TAG"))

    @inlineCallbacks
    def test_answered_when_name_servers_know_it(self):
        told = Deferred()
        self.patch(Registration, "settled", lambda registration: told)
        self.rig = BrokerRig(self)
        answer = self.rig.ask(UPDATE, **FIELDS)
        yield self.rig.until(lambda: self.topic() is not None)
        self.assertFalse(answer.called)
        told.callback(None)
        self.assertEqual((yield answer).code, 0)
        self.rig.clock.advance(REGISTER_WAIT)

    @inlineCallbacks
    def test_a_name_server_that_is_silent_holds_the_answer_up_for_a_while_only(self):
        told = Deferred()
        self.patch(Registration, "settled", lambda registration: told)
        self.rig = BrokerRig(self)
        answer = self.rig.ask(UPDATE, **FIELDS)
        yield self.rig.until(lambda: self.topic() is not None)
        self.rig.clock.advance(REGISTER_WAIT)
        self.assertEqual((yield answer).code, 0)
        told.callback(None)

    @inlineCallbacks
    def test_bad_fields_are_named(self):
        for name, value in (
            ("topicFilterType", "NO_TAG"),
            ("readQueueNums", "-1"),
            ("readQueueNums", "2147483647"),
            ("readQueueNums", "9" * 40),
            ("writeQueueNums", "70000"),
            ("writeQueueNums", "2147483648"),
            ("perm", "8"),
            ("perm", "rw"),
            ("topicSysFlag", "x"),
        ):
            answer = yield self.rig.ask(UPDATE, **FIELDS | {name: value})
            self.assertEqual(answer.code, 1)
            self.assertIn(f"{name} has the value '{value}'", answer.remark)
        for name in FIELDS:
            answer = yield self.rig.ask(UPDATE, **{key: FIELDS[key] for key in FIELDS if key != name})
            self.assertEqual((answer.code, answer.remark), (1, f"request field {name} is missing"))
        for topic in ("", "a b", "x" * 128, "../x"):
            answer = yield self.rig.ask(UPDATE, **FIELDS | {"topic": topic})
            self.assertEqual(answer.code, 1)
            self.assertIn("The specified topic", answer.remark)
        self.assertIsNone(self.topic())

    @inlineCallbacks
    def test_system_topics_are_neither_made_nor_deleted(self):
        for code in (UPDATE, DELETE):
            for topic in ("TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC", "broker-a", "rmq_sys_x"):
                answer = yield self.rig.ask(code, **FIELDS | {"topic": topic})
                self.assertEqual(answer.code, 1)
                self.assertEqual(answer.remark, f"The topic[{topic}] is conflict with system topic.")

    @inlineCallbacks
    def test_system_topics(self):
        body = json.loads((yield self.rig.ask(SYSTEM_TOPICS)).body)
        self.assertLessEqual(
            {"TBW102", "RMQ_SYS_TRACE_TOPIC", "DefaultCluster", "broker-a"}, set(body["topicList"])
        )

    @inlineCallbacks
    def test_deleted_with_queues_settings_and_progress(self):
        rig = self.rig
        rig.put(count=3)
        rig.put("Other")
        rig.tables.offsets.commit("g", "T", 0, 2)
        answer = yield rig.ask(DELETE, topic="T")
        self.assertEqual((answer.code, answer.remark), (0, None))
        self.assertIsNone(self.topic("T"))
        self.assertEqual(rig.store.queue_offsets("T", 0), (0, 0))
        self.assertIsNone(rig.tables.offsets.query("g", "T", 0))
        self.assertEqual(rig.store.queue_offsets("Other", 0), (0, 1))
        self.assertEqual((yield rig.ask(DELETE, topic="T")).code, 0)
        self.assertEqual((yield rig.pull(0)).code, 17)

    @inlineCallbacks
    def test_queues_that_cant_be_deleted_are_told(self):
        rig = self.rig
        rig.put(count=3)
        rig.put("Other")
        delete, broken = ConsumeQueueTable.delete, [True]

        def failing(queues, queue):
            if broken:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            delete(queues, queue)

        self.patch(ConsumeQueueTable, "delete", failing)
        answer = yield rig.ask(DELETE, topic="T")
        told = "queue 0 of T can't be deleted: [Errno 5] Input/output error; cleanUnusedTopic tries again"
        self.assertEqual((answer.code, answer.remark), (0, told))
        self.assertEqual((yield rig.ask(CLEAN_UNUSED)).remark, told)
        broken.clear()
        self.assertEqual((yield rig.ask(CLEAN_UNUSED)).remark, None)
        self.assertEqual(rig.store.queue_offsets("T", 0), (0, 0))

    @inlineCallbacks
    def test_unused_topics_queues_go_and_system_topics_stay(self):
        rig = self.rig
        for topic in ("T", "Gone", "SCHEDULE_TOPIC_XXXX"):
            rig.put(topic)
        for topic in ("Gone", "SCHEDULE_TOPIC_XXXX"):
            rig.tables.topics.delete(topic)
        self.assertEqual((yield rig.ask(CLEAN_UNUSED)).code, 0)
        self.assertEqual(sorted({queue.topic for queue in rig.store.queues}), ["SCHEDULE_TOPIC_XXXX", "T"])

    @inlineCallbacks
    def test_expired_queues_go(self):
        rig = self.rig
        rig.put("T")
        rig.put("Long", body=bytes(1_000_000), count=2)
        self.assertEqual((yield rig.ask(CLEAN_EXPIRED)).code, 0)
        self.assertIsNotNone(rig.store.queues.find("T", 0))
        rig.store.log.files.delete_before(1 << 20)
        self.assertEqual((yield rig.ask(CLEAN_EXPIRED)).code, 0)
        self.assertEqual([queue.topic for queue in rig.store.queues], ["T", "Long"])
        rig.tables.topics.delete("T")
        self.assertEqual((yield rig.ask(CLEAN_EXPIRED)).code, 0)
        self.assertEqual([queue.topic for queue in rig.store.queues], ["Long"])

    @inlineCallbacks
    def test_expired_log_files_go_with_the_next_rounds(self):
        asked = []
        self.patch(self.rig.store.retention, "clean_now", lambda: asked.append(True))
        self.assertEqual((yield self.rig.ask(DELETE_EXPIRED)).code, 0)
        self.assertEqual(asked, [True])


class TestSlave(TestCase):
    def setUp(self):
        self.rig = BrokerRig(self, slave=True)

    @inlineCallbacks
    def test_a_slave_changes_no_topics_and_groups(self):
        for code in (UPDATE, DELETE, 200, 207):
            answer = yield self.rig.ask(code, **FIELDS, groupName="g")
            self.assertEqual((answer.code, answer.remark), (1, NOT_ON_A_SLAVE))

    @inlineCallbacks
    def test_a_slave_follows_its_master_in_what_5_x_tools_delete(self):
        rig = self.rig
        rig.put("T")
        rig.clock.advance(61)
        self.assertEqual((yield rig.ask(DELETE, topic="T", version=479)).code, 0)
        self.assertIsNotNone(rig.store.queues.find("T", 0))
        rig.tables.topics.delete("T")
        self.assertEqual((yield rig.ask(DELETE, topic="T", version=479)).code, 0)
        self.assertIsNone(rig.store.queues.find("T", 0))

    @inlineCallbacks
    def test_a_slave_cleans_up_only_what_its_master_could_have_told_of(self):
        rig = self.rig
        rig.put("T")
        rig.tables.topics.delete("T")
        yield rig.ask(CLEAN_UNUSED)
        self.assertIsNotNone(rig.store.queues.find("T", 0))
        rig.clock.advance(61)
        rig.parts.master.learn(KnownMaster())
        yield rig.ask(CLEAN_UNUSED)
        self.assertIsNotNone(rig.store.queues.find("T", 0))
        rig.parts.master.learn(KnownMaster("127.0.0.1:1", None))
        yield rig.ask(CLEAN_UNUSED)
        self.assertIsNone(rig.store.queues.find("T", 0))


class TestViews(TestCase):
    def setUp(self):
        self.rig = BrokerRig(self)

    @inlineCallbacks
    def test_bounds_and_last_message_of_all_write_queues(self):
        self.rig.put(count=2)
        answer = yield self.rig.ask(STATS, topic="T")
        table = {
            json.loads(key)["queueId"]: value
            for key, value in fastjson.loads(answer.body)["offsetTable"].items()
        }
        self.assertEqual(table[0], {"minOffset": 0, "maxOffset": 2, "lastUpdateTimestamp": int(NOW * 1000)})
        self.assertEqual(table[3], {"minOffset": 0, "maxOffset": 0, "lastUpdateTimestamp": 0})
        self.assertEqual(len(table), 4)
        answer = yield self.rig.ask(STATS, topic="No")
        self.assertEqual((answer.code, answer.remark), (17, "topic[No] not exist"))

    @inlineCallbacks
    def test_groups_that_consume_or_have_consumed(self):
        client = yield GroupMember.connected(self.rig)
        yield client.beat("online", ["T"])
        self.rig.tables.offsets.commit("offline", "T", 0, 1)
        self.rig.tables.offsets.commit("other", "U", 0, 1)
        body = json.loads((yield self.rig.ask(GROUPS, topic="T")).body)
        self.assertEqual(sorted(body["groupList"]), ["offline", "online"])
        self.assertEqual(json.loads((yield self.rig.ask(GROUPS, topic="No")).body), {"groupList": []})

    @inlineCallbacks
    def test_entries_of_a_queue(self):
        rig = self.rig
        rig.put(tag="red", count=3)
        answer = yield rig.ask(ENTRIES, topic="T", queueId=0, index=1, count=10)
        body = json.loads(answer.body)
        self.assertEqual((body["minQueueIndex"], body["maxQueueIndex"], len(body["queueData"])), (0, 3, 2))
        first = body["queueData"][0]
        self.assertEqual((first["eval"], first["tagsCode"]), (False, 112785))
        self.assertEqual(first["physicOffset"], first["physicSize"])
        answer = yield rig.ask(ENTRIES, topic="T", queueId=0, index=0, count=1)
        self.assertEqual(len(json.loads(answer.body)["queueData"]), 1)
        self.patch(topicstats, "MAX_ENTRIES", 2)
        answer = yield rig.ask(ENTRIES, topic="T", queueId=0, index=0, count=3)
        self.assertEqual(len(json.loads(answer.body)["queueData"]), 2)

    @inlineCallbacks
    def test_entries_with_the_wishes_of_a_group(self):
        self.rig.put()
        fields = {"topic": "T", "queueId": 0, "index": 0, "count": 1, "consumerGroup": "g"}
        body = json.loads((yield self.rig.ask(ENTRIES, **fields)).body)
        self.assertEqual(body["filterData"], "g@T is not online!")
        client = yield GroupMember.connected(self.rig)
        yield client.beat("g", ["T"])
        body = json.loads((yield self.rig.ask(ENTRIES, **fields)).body)
        self.assertEqual(body["subscriptionData"]["subString"], "*")
        self.assertEqual(body["filterData"], "null")

    @inlineCallbacks
    def test_entries_with_the_filter_of_a_group(self):
        self.rig.put()
        data = {"topic": "T", "subString": "a > 1", "expressionType": "SQL92", "subVersion": 7}
        group = {"groupName": "g", "subscriptionDataSet": [data]}
        yield self.rig.ask(34, json.dumps({"clientID": "c", "consumerDataSet": [group]}).encode())
        answer = yield self.rig.ask(ENTRIES, topic="T", queueId=0, index=0, count=1, consumerGroup="g")
        body = json.loads(answer.body)
        self.assertTrue(
            body["filterData"].startswith('{\n\t"bloomFilterData":{\n\t\t"bitNum":'), body["filterData"]
        )
        shown = json.loads(body["filterData"])
        self.assertEqual(
            (
                shown["consumerGroup"],
                shown["topic"],
                shown["expression"],
                shown["clientVersion"],
                shown["dead"],
            ),
            ("g", "T", "a > 1", 7, False),
        )
        self.assertEqual(body["subscriptionData"]["expressionType"], "SQL92")

    @inlineCallbacks
    def test_entries_that_are_not_there(self):
        answer = yield self.rig.ask(ENTRIES, topic="T", queueId=7, index=0, count=1)
        self.assertEqual((answer.code, answer.remark), (1, "7@T is not exist!"))
        self.rig.put()
        for index, count in ((1, 1), (-1, 1), (0, -5), (1 << 62, 1)):
            answer = yield self.rig.ask(ENTRIES, topic="T", queueId=0, index=index, count=count)
            self.assertEqual((answer.code, answer.body), (0, b""))
            self.assertTrue(re.fullmatch(r"Index -?\d+ of 0@T is not exist!", answer.remark))
