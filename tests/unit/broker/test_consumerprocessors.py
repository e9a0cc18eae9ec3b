"""Heartbeats, members, progress and the tables' questions, asked of a whole broker."""

import json

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.consumer import offsetsync
from hatwisted.broker.consumer.progressbody import parse_progress
from hatwisted.broker.consumer.subscriptiongroup import GroupConfig
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.broker.rig import BrokerRig, heartbeat, records


class ConsumerCase(TestCase):
    def start(self, **options):
        self.rig = BrokerRig(self, **options)
        return self.rig

    def beat(self, client_id, topics=("T",), group="g", client=None, version=407, **more):
        body = heartbeat(client_id, group, dict.fromkeys(topics, ("*", 1)), **more)
        return self.rig.ask(34, json.dumps(body).encode(), client=client, version=version)

    @inlineCallbacks
    def code(self, code, **ext):
        answer = yield self.rig.ask(code, **ext)
        return answer.code

    def listening(self):
        """A client whose incoming requests are kept: (client, requests)."""
        requests = []
        return self.rig.new_client(lambda _, request: requests.append(request)), requests


class TestHeartbeats(ConsumerCase):
    @inlineCallbacks
    def test_makes_the_group_and_its_retry_topic(self):
        rig = self.start()
        answer = yield self.beat("c1")
        self.assertEqual((answer.code, answer.version), (0, 407))
        self.assertEqual(rig.tables.topics.get("%RETRY%g").write_queue_nums, 1)
        self.assertIn("g", rig.tables.groups.table().subscription_group_table)

    @inlineCallbacks
    def test_slave_makes_neither(self):
        rig = self.start(slave=True)
        before = rig.tables.topics.version, rig.tables.groups.version
        answer = yield self.beat("c1")
        self.assertEqual(answer.code, 0)
        self.assertEqual((rig.tables.topics.version, rig.tables.groups.version), before)
        answer = yield rig.ask(38, consumerGroup="g")
        self.assertEqual(json.loads(answer.body), {"consumerIdList": ["c1"]})

    @inlineCallbacks
    def test_members_are_listed_and_told_when_they_change(self):
        rig = self.start()
        one, to_one = self.listening()
        two, to_two = self.listening()
        yield self.beat("c1", client=one)
        yield self.beat("c2", client=two)
        answer = yield rig.ask(38, consumerGroup="g")
        self.assertEqual(json.loads(answer.body), {"consumerIdList": ["c1", "c2"]})
        yield rig.until(lambda: len(to_one) == 2)
        yield two.close()
        yield rig.until(lambda: len(to_one) == 3)
        self.assertEqual(len(to_two), 1)
        for notice in to_one:
            self.assertEqual((notice.code, notice.ext, notice.is_oneway), (40, {"consumerGroup": "g"}, True))
        answer = yield rig.ask(38, consumerGroup="g")
        self.assertEqual(json.loads(answer.body), {"consumerIdList": ["c1"]})

    @inlineCallbacks
    def test_B177_members_that_do_not_read_are_told_nothing(self):
        rig = self.start()
        one, to_one = self.listening()
        two, _ = self.listening()
        yield self.beat("c1", client=one)
        (connection,) = rig.factory.connections
        connection.pauseProducing()
        yield self.beat("c2", client=two)
        connection.resumeProducing()
        before = len(to_one)
        yield two.close()
        yield rig.until(lambda: len(to_one) > before)
        self.assertEqual(len(to_one), 2)

    @inlineCallbacks
    def test_group_can_do_without_notices(self):
        rig = self.start()
        rig.tables.groups.put(GroupConfig(group_name="g", notify_consumer_ids_changed_enable=False))
        client, requests = self.listening()
        yield self.beat("c1", client=client)
        yield self.beat("c1", client=client, topics=("T", "U"))
        self.assertEqual(requests, [])

    @inlineCallbacks
    def test_nobody_there(self):
        rig = self.start()
        answer = yield rig.ask(38, consumerGroup="g")
        self.assertEqual((answer.code, answer.remark), (1, "no consumer for this group, g"))

    @inlineCallbacks
    def test_unregister(self):
        rig = self.start()
        yield self.beat("c1")
        self.assertEqual((yield self.code(35, clientID="c1", producerGroup="", consumerGroup="g")), 0)
        self.assertEqual((yield self.code(38, consumerGroup="g")), 1)
        self.assertEqual(list(rig.consumers.clients.producers), ["CLIENT_INNER_PRODUCER"])

    @inlineCallbacks
    def test_silent_client_is_dropped(self):
        rig = self.start()
        yield self.beat("c1")
        rig.clock.pump([10] * 12)
        self.assertEqual((yield self.code(38, consumerGroup="g")), 0)
        rig.clock.advance(10)
        self.assertEqual((yield self.code(38, consumerGroup="g")), 1)

    @inlineCallbacks
    def test_unreadable_heartbeat_is_answered(self):
        rig = self.start()
        for body in (b"", b"{", b"[]", b'{"consumerDataSet":[]}'):
            answer = yield rig.ask(34, body)
            self.assertEqual(answer.code, 1, body)

    @inlineCallbacks
    def test_expressions_beyond_tags_are_refused_before_the_consumer_starts(self):
        rig = self.start()
        for kind, code in ((None, 0), ("TAG", 0), ("SQL92", 1)):
            body = {"clientId": "c", "group": "g", "subscriptionData": {"topic": "T", "expressionType": kind}}
            answer = yield rig.ask(46, json.dumps(body).encode())
            self.assertEqual(answer.code, code, kind)


class TestProgress(ConsumerCase):
    def ask_offset(self, **more):
        return self.rig.ask(14, **{"consumerGroup": "g", "topic": "T", "queueId": 0} | more)

    @inlineCallbacks
    def test_B122_commit_and_query_on_master_and_slave(self):
        for slave in (False, True):
            rig = self.start(slave=slave)
            rig.put()
            answer = yield rig.ask(15, consumerGroup="g", topic="T", queueId=0, commitOffset=42)
            self.assertEqual(answer.code, 0)
            answer = yield self.ask_offset()
            self.assertEqual((answer.code, answer.ext), (0, {"offset": "42"}))

    @inlineCallbacks
    def test_without_progress_a_fresh_small_queue_begins_at_0(self):
        rig = self.start()
        self.assertEqual((yield self.ask_offset()).ext, {"offset": "0"})
        rig.put()
        self.assertEqual((yield self.ask_offset()).ext, {"offset": "0"})

    @inlineCallbacks
    def test_without_progress_an_old_queue_has_none(self):
        rig = self.start(memory_bytes=1000)
        rig.put(count=20)
        self.assertEqual((yield self.ask_offset()).code, 22)

    @inlineCallbacks
    def test_5x_clients_may_want_to_hear_that_there_is_none(self):
        rig = self.start()
        self.assertEqual((yield self.ask_offset(setZeroIfNotFound="false")).code, 22)
        self.assertEqual((yield self.ask_offset(setZeroIfNotFound="true")).ext, {"offset": "0"})
        rig.tables.offsets.commit("g", "T", 0, 5)
        self.assertEqual((yield self.ask_offset(setZeroIfNotFound="false")).ext, {"offset": "5"})

    @inlineCallbacks
    def test_B162_pull_of_a_queue_s_last_holder_takes_no_progress_back(self):
        rig = self.start()
        rig.put(count=5)
        one, two = rig.new_client(), rig.new_client()
        yield self.beat("c1", client=one)
        yield self.beat("c2", client=two)
        for client, offset, kept in ((one, 3, "3"), (two, 4, "4"), (one, 3, "4"), (two, 2, "2")):
            yield rig.pull(flags=5, client=client, commitOffset=offset)
            self.assertEqual((yield self.ask_offset()).ext, {"offset": kept})

    @inlineCallbacks
    def test_missing_field_is_answered(self):
        rig = self.start()
        answer = yield rig.ask(15, consumerGroup="g", topic="T", queueId=0)
        self.assertEqual((answer.code, answer.remark), (1, "request field commitOffset is missing"))

    @inlineCallbacks
    def test_progress_is_kept_of_topics_that_are_there(self):
        for slave, code in ((False, 17), (True, 0)):
            rig = self.start(slave=slave)
            fields = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 5}
            self.assertEqual((yield self.code(15, **fields)), code)
            self.assertEqual((yield self.code(15, **fields | {"topic": "x" * 1000})), 17)
            self.assertEqual((yield self.code(15, **fields | {"topic": "T@g"})), 17)
            rig.put()
            self.assertEqual((yield self.code(15, **fields | {"consumerGroup": "g" * 256})), 1)
            self.assertEqual((yield self.code(15, **fields | {"consumerGroup": ""})), 1)
            self.assertEqual((yield self.code(15, **fields)), 0)
            self.assertEqual(list(rig.tables.offsets.progress().offset_table), ["T@g"])

    @inlineCallbacks
    def test_B178_B162_of_queues_that_a_master_has_not_got_no_progress_is_believed(self):
        rig = self.start()
        rig.put(count=3)
        rows = {"T@g": {"0": 2, "1": 0, "2": -1, "99": 0}, "no-such-topic@g": {"0": 0}, "T@h": {"-1": 0}}
        answer = yield rig.ask(20043, json.dumps({"offsetTable": rows}).encode())
        self.assertEqual(answer.code, 0)
        self.assertEqual(rig.tables.offsets.progress().offset_table, {"T@g": {0: 2, 1: 0}})
        many = {f"T@{number}": {"0": 1} for number in range(offsetsync.MAX_ROWS + 1)}
        answer = yield rig.ask(20043, json.dumps({"offsetTable": many}).encode())
        self.assertEqual(answer.code, 1)

    def committed(self, admins):
        """A broker administered from there, where g has read two of T's three messages, and a ms of later."""
        rig = self.start(admin_allow_list=admins)
        rig.put(count=3)
        rig.tables.offsets.commit("g", "T", 0, 2)
        return rig, int(rig.clock.seconds() * 1000) + 60_000

    @inlineCallbacks
    def test_a_strangers_report_takes_no_progress_back_and_deletes_none(self):
        rig, later = self.committed("10.0.0.0/8")
        for table, resets in (({"T@g": {"0": 1}}, {"T@g": {"0": later}}), ({}, {"T@g": {"-1": later}})):
            body = json.dumps({"offsetTable": table, "resetTable": resets})
            answer = yield rig.ask(20043, body.encode())
            self.assertIn("adminAllowList", answer.remark)
            self.assertEqual(rig.tables.offsets.progress().offset_table, {"T@g": {0: 2}})
            self.assertEqual(rig.tables.offsets.progress().reset_table, {})
        answer = yield rig.ask(20043, json.dumps({"offsetTable": {"T@g": {"0": 3}}}).encode())
        self.assertEqual((answer.remark, rig.tables.offsets.progress().offset_table), (None, {"T@g": {0: 3}}))

    @inlineCallbacks
    def test_an_administrators_host_may_report_resets(self):
        rig, later = self.committed("127.0.0.1")
        content = {"offsetTable": {"T@g": {"0": 1}}, "resetTable": {"T@g": {"0": later}}}
        answer = yield rig.ask(20043, json.dumps(content).encode())
        self.assertEqual((answer.code, answer.remark), (0, None))
        self.assertEqual(rig.tables.offsets.progress().offset_table, {"T@g": {0: 1}})

    @inlineCallbacks
    def test_a_reset_in_a_time_that_never_comes_spoils_no_table(self):
        """A later reset would count one more than 64 bits: no broker could read that, nor this one its file."""
        rig = self.start()
        rig.put(count=3)
        offsets = rig.tables.offsets
        for queue_id, at in (("0", (1 << 63) - 1), ("-1", (1 << 63) - 1), ("0", 1 << 53)):
            content = {"offsetTable": {"T@g": {"0": 1}}, "resetTable": {"T@g": {queue_id: at}}}
            plain = json.dumps(content)
            for body in (plain, plain.replace('"0"', "0")):  # in fastjson's dialect, too
                answer = yield rig.ask(20043, body.encode())
                offsets.reset("g", "T", 0, 2)
                parse_progress(offsets.encode())
                parse_progress(offsets.encode_compact(with_resets=True))
                self.assertEqual(answer.code, 1)

    @inlineCallbacks
    def test_oneway_commit_is_not_answered(self):
        rig = self.start()
        rig.put()
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "3"}
        rig.client.oneway(rig.address, RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, ext=ext))
        self.assertEqual((yield self.ask_offset()).ext, {"offset": "3"})


class TestQuestions(ConsumerCase):
    @inlineCallbacks
    def test_bounds_of_a_queue(self):
        rig = self.start()
        rig.put(count=3)
        for code, queue_id, offset in ((30, 0, "3"), (31, 0, "0"), (30, 1, "0"), (31, 1, "0")):
            answer = yield rig.ask(code, topic="T", queueId=queue_id)
            self.assertEqual(answer.ext, {"offset": offset})

    @inlineCallbacks
    def test_offset_by_time_and_earliest_time(self):
        rig = self.start()
        times = []
        for _ in range(3):
            times.append(int(rig.clock.seconds() * 1000))
            rig.put()
            rig.clock.advance(10)
        answer = yield rig.ask(29, topic="T", queueId=0, timestamp=times[1])
        self.assertEqual(answer.ext, {"offset": "1"})
        answer = yield rig.ask(32, topic="T", queueId=0)
        self.assertEqual(answer.ext, {"timestamp": str(times[0])})
        answer = yield rig.ask(32, topic="T", queueId=1)
        self.assertEqual(answer.ext, {"timestamp": "-1"})

    @inlineCallbacks
    def test_message_by_id(self):
        rig = self.start()
        rig.put(body=b"first")
        second = rig.store.log.max_offset
        rig.put(body=b"second")
        answer = yield rig.ask(33, offset=second)
        self.assertEqual([record.body for record in records(answer)], [b"second"])
        for offset in (second + 1, 1 << 40):
            self.assertEqual((yield self.code(33, offset=offset)), 1)

    @inlineCallbacks
    def test_one_topic(self):
        rig = self.start()
        rig.put()
        answer = yield rig.ask(351, topic="T")
        self.assertEqual(json.loads(answer.body)["writeQueueNums"], 4)
        self.assertEqual((yield self.code(351, topic="U")), 17)


class TestTablesForSlaves(ConsumerCase):
    @inlineCallbacks
    def test_B101_topics(self):
        rig = self.start()
        answer = yield rig.ask(21)
        content = json.loads(answer.body)
        self.assertEqual(set(content["topicConfigTable"]), set(rig.tables.topics.names()))
        self.assertEqual(set(content["dataVersion"]), {"counter", "timestamp"})

    @inlineCallbacks
    def test_B103_consumer_offsets_with_a_version_for_5x_only(self):
        rig = self.start()
        rig.tables.offsets.commit("g", "T", 0, 5)
        answer = yield rig.ask(43)
        self.assertEqual(json.loads(answer.body), {"offsetTable": {"T@g": {"0": 5}}})
        answer = yield rig.ask(43, version=479)
        self.assertIn("dataVersion", json.loads(answer.body))

    @inlineCallbacks
    def test_B104_delay_offsets(self):
        rig = self.start()
        answer = yield rig.ask(45)
        self.assertEqual((answer.code, answer.body), (0, b'{"offsetTable":{}}'))

    @inlineCallbacks
    def test_B105_groups(self):
        rig = self.start()
        answer = yield rig.ask(201)
        self.assertIn("TOOLS_CONSUMER", json.loads(answer.body)["subscriptionGroupTable"])
