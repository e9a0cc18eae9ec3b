"""A slave's copy of its master's tables, over ports two apart as RocketMQ has them."""

import json
from itertools import count
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from hatwisted.broker.consumer import offsetsync
from hatwisted.broker.consumer.progressbody import encode_progress
from hatwisted.broker.consumer.subscriptiongroup import GroupConfig
from hatwisted.broker.node import progressjoin
from hatwisted.broker.node.slaverole import logs_agree
from hatwisted.broker.node.slavesync import (
    CALL_TIMEOUT,
    UNKNOWN_TOPIC_PAUSE,
    SlaveSynchronizer,
    SyncOptions,
    vip_address,
)
from hatwisted.broker.node.tablehold import HOLD_LOOK, TableHold
from hatwisted.broker.node.topicversions import LOOK, no_name_server
from hatwisted.broker.pull.pullmessage import PULL_CODES
from hatwisted.ha.slavestate import SLOW_RETRY
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.timing import steps
from hatwisted.wire import tablesteps
from hatwisted.wire.bodylimits import body_limit
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.registration import DataVersion, TopicConfig, TopicTable, encode_body
from hatwisted.wire.remoting import RemotingCommand
from tests.support.golden import SLAVE, answers
from tests.support.grownqueue import grown
from tests.support.memorylog import MemoryLog
from tests.unit.broker.rig import BrokerRig, heartbeat
from tests.unit.ha.rig import LogCatcher, SlaveRig

ANSWERS = answers()
FIRST_DELAY, INTERVAL = 3.0, 10.0

CAPTURED = {
    21: "GET_ALL_TOPIC_CONFIG",
    43: "GET_ALL_CONSUMER_OFFSET",
    45: "GET_ALL_DELAY_OFFSET",
    201: "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
}


class SyncCase(TestCase):
    """A slave, and masters of ours or of captured answers."""

    def setUp(self):
        self.slave = BrokerRig(self, slave=True)
        self.tables = self.slave.tables
        self.log = MemoryLog(1 << 20)
        self.log.append(bytes(1 << 20))
        self.master_end = 1 << 20
        self.agrees = True
        self.heard = count().__next__
        self.sync = SlaveSynchronizer(
            self.slave.client,
            self.slave.clock,
            self.tables,
            SyncOptions(
                own_address=self.slave.address,
                broker_id=1,
                ask_version=lambda master: self.ask_version(master),
            ),
            self.hold(),
            lambda: self.may_send_progress(),
        )
        self.may_send_progress = lambda: True
        self.ask_version = no_name_server
        self.addCleanup(self.sync.stop)
        self.asked = []

    def hold(self):
        """Waits for `log`."""
        return TableHold(
            self.slave.clock, self.log, self.log.flush_now, lambda: self.agrees, lambda: self.heard()
        )

    def listen(self, table):
        """Serve `table` at a port, without pulls also two below; the address of the upper one."""
        factories = [
            RemotingServerFactory(part, self.slave.clock) for part in (table, table.without(*PULL_CODES))
        ]
        for _ in range(50):
            port = self.slave.host.listenTCP(0, factories[0], interface="127.0.0.1")
            number = port.getHost().port
            try:
                vip = self.slave.host.listenTCP(number - 2, factories[1], interface="127.0.0.1")
            except CannotListenError:
                port.stopListening()
                continue
            break
        self.addCleanup(self.hang_up, factories, (port, vip))
        return f"127.0.0.1:{number}"

    @inlineCallbacks
    def hang_up(self, factories, ports):
        for port in ports:
            yield port.stopListening()
        for factory in factories:
            for connection in list(factory.connections):
                connection.abort()

    def captured_master(self, **changed):
        """A master that answers as the captured one, or as `changed` (c21=..., c43=...) says."""
        table = ProcessorTable()

        def answer(connection, request):
            own_port = connection.transport.getHost().port
            self.asked.append((request.code, own_port))
            special = changed.get(f"c{request.code}")
            return special(request) if special else response(request, body=self.body(request.code))

        def runtime_info(_connection, request):
            table = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(self.master_end)}
            return response(request, body=json.dumps({"table": table}).encode())

        table.register(28, runtime_info)
        for code in {**CAPTURED, **{int(name[1:]): "" for name in changed}}:
            table.register(code, answer)
        address = self.listen(table)
        self.sync.follow(address)
        return int(address.rpartition(":")[2])

    def body(self, code):
        return ANSWERS[CAPTURED[code]]["body"].encode()

    def config(self, name):
        return (Path(self.slave.root) / "config" / name).read_bytes()


class TestRounds(SyncCase):
    @inlineCallbacks
    def test_B99_B102_four_tables_in_order_topics_at_the_port_two_below(self):
        port = self.captured_master()
        yield self.sync.round()
        self.assertEqual(self.asked, [(21, port - 2), (43, port), (45, port), (201, port)])

    @inlineCallbacks
    def test_tables_of_the_captured_master_end_up_in_the_slaves_files(self):
        self.captured_master()
        yield self.sync.round()
        yield self.tables.stop()
        for name in ("consumerOffset.json", "delayOffset.json", "subscriptionGroup.json"):
            self.assertEqual(self.config(name), (SLAVE / "config" / name).read_bytes(), name)
        topics = json.loads(self.config("topics.json"))
        self.assertEqual(topics, json.loads(self.body(21)))

    @inlineCallbacks
    def test_B101_nothing_is_written_when_the_version_is_the_same(self):
        self.captured_master()
        yield self.sync.round()
        changes = []
        self.tables.topics.on_change(lambda: changes.append("topics"))
        self.tables.groups.on_change(lambda: changes.append("groups"))
        yield self.sync.round()
        self.assertEqual(changes, [])

    @inlineCallbacks
    def test_copy_of_a_master_of_ours(self):
        master = BrokerRig(self, clock=self.slave.clock, network=self.slave.network, port=20911)
        master.put("Made")
        master.tables.topics.delete("BenchmarkTest")
        master.tables.groups.find("g")
        master.tables.offsets.commit("g", "Made", 2, 17)
        self.sync.follow(self.listen(master.table))
        yield self.sync.round()
        self.assertEqual(self.tables.topics.table(), master.tables.topics.table())
        self.assertEqual(self.tables.groups.table(), master.tables.groups.table())
        self.assertEqual(self.tables.offsets.query("g", "Made", 2), 17)
        master.tables.topics.put(TopicConfig(topic_name="Later"))
        master.tables.topics.delete("Made")
        yield self.sync.round()
        self.assertIsNotNone(self.tables.topics.get("Later"))
        self.assertIsNone(self.tables.topics.get("Made"))


class TestDoubtfulTables(SyncCase):
    """What has shrunk to nothing is kept, and told."""

    def setUp(self):
        super().setUp()
        self.caught = LogCatcher(self)
        self.tables.topics.put(TopicConfig(topic_name="T"))
        self.tables.groups.put(GroupConfig(group_name="g"))

    def poor_master(self, counter, **tables):
        """One that says that it has these topics and groups alone."""
        names = {21: "topicConfigTable", 201: "subscriptionGroupTable"}
        table = ProcessorTable()
        for code, key in names.items():
            content = {"dataVersion": {"counter": counter, "timestamp": 9}, key: tables.get(key, {})}
            body = json.dumps(content).encode()
            table.register(code, lambda connection, request, body=body: response(request, body=body))
        self.sync.follow(self.listen(table))

    def warned(self, code):
        """Lines about a table that was kept."""
        return [text for text in self.caught.texts("warn") if code in text and "it has none of the 1" in text]

    @inlineCallbacks
    def test_B182_an_empty_table_is_kept_whatever_its_version_and_told_once(self):
        self.poor_master(counter=99)
        for _ in range(3):
            yield self.sync.round()
        self.assertIsNotNone(self.tables.topics.get("T"))
        self.assertIn("g", self.tables.groups.table().subscription_group_table)
        for code in ("GET_ALL_TOPIC_CONFIG", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG"):
            self.assertEqual(len(self.warned(code)), 1)

    @inlineCallbacks
    def test_B182_a_master_that_began_again_is_not_believed(self):
        first = {"TBW102": {"topicName": "TBW102"}, "Other": {"topicName": "Other"}}
        self.poor_master(counter=1, topicConfigTable=first)
        yield self.sync.round()
        self.assertEqual(
            (self.tables.topics.get("T") is None, self.tables.topics.get("Other")), (False, None)
        )

    @inlineCallbacks
    def test_B182_the_last_one_may_be_deleted(self):
        master = BrokerRig(self, clock=self.slave.clock, network=self.slave.network, port=20911)
        master.put("Last")
        master.tables.groups.find("last")
        self.sync.follow(self.listen(master.table))
        self.tables.topics.delete("T")
        self.tables.groups.delete("g")
        yield self.sync.round()
        self.assertEqual(([*self.tables.topics.made()], [*self.tables.groups.made()]), (["Last"], ["last"]))
        master.tables.topics.delete("Last")
        master.tables.groups.delete("last")
        yield self.sync.round()
        self.assertEqual(([*self.tables.topics.made()], [*self.tables.groups.made()]), ([], []))


class TestTablesOf5x(SyncCase):
    """What only RocketMQ 5 knows comes out as it went in, file and answer."""

    TOPIC = {
        "attributes": {"message.type": "NORMAL"},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "T",
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    GROUP = {
        "attributes": {"a": "b"},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": True,
        "consumeTimeoutMinute": 15,
        "groupName": "g",
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "subscriptionDataSet": [],
        "whichBrokerWhenConsumeSlowly": 1,
    }
    VERSION = {"counter": 3, "stateVersion": 0, "timestamp": 7}

    @inlineCallbacks
    def test_fields_that_only_5x_knows_are_kept(self):
        topics = {"dataVersion": self.VERSION, "topicConfigTable": {"T": self.TOPIC}}
        groups = {
            "dataVersion": self.VERSION,
            "forbiddenTable": {"g": {"T": 2}},
            "subscriptionGroupTable": {"g": self.GROUP},
        }
        self.captured_master(
            c21=lambda request: response(
                request, body=json.dumps(topics | {"mappingDataVersion": {}}).encode()
            ),
            c201=lambda request: response(request, body=json.dumps(groups).encode()),
        )
        yield self.sync.round()
        yield self.tables.stop()
        self.assertEqual(json.loads(self.config("topics.json")), topics)
        self.assertEqual(json.loads(self.config("subscriptionGroup.json")), groups)
        again = yield self.slave.ask(201)
        self.assertEqual(json.loads(again.body), groups)
        self.tables.groups.decode(self.config("subscriptionGroup.json"))
        self.assertEqual(json.loads(self.tables.groups.encode())["forbiddenTable"], {"g": {"T": 2}})


class TestProgress(SyncCase):
    """Which way consumers' offsets flow, and who wins."""

    def ours(self):
        """A running master of ours."""
        master = BrokerRig(self, clock=self.slave.clock, network=self.slave.network, port=20911)
        master.put("T", count=200)
        self.sync.follow(self.listen(master.table))
        return master

    def wide(self, tables):
        """Topic T has 2,000 queues."""
        tables.topics.put(TopicConfig(topic_name="T", read_queue_nums=2_000, write_queue_nums=2_000))

    @inlineCallbacks
    def test_B106_commit_on_the_slave_of_a_rocketmq_master_is_overwritten_and_never_flows_back(self):
        body = b'{"offsetTable":{"T@g":{0:10}}}'
        self.captured_master(c43=lambda request: response(request, body=body))
        self.tables.offsets.commit("g", "T", 0, 99)
        self.tables.offsets.commit("h", "T", 0, 99)
        yield self.sync.round()
        self.assertEqual(self.tables.offsets.query("g", "T", 0), 10)
        self.assertEqual(self.tables.offsets.query("h", "T", 0), 99)
        self.assertEqual([code for code, _ in self.asked], [21, 43, 45, 201])

    @inlineCallbacks
    def test_B106_a_rocketmq_slave_is_given_the_plain_table(self):
        master = self.ours()
        master.tables.offsets.reset("g", "T", 0, 10)
        answer = yield master.ask(43)
        self.assertEqual((answer.ext, answer.body), ({}, b'{"offsetTable":{"T@g":{"0":10}}}'))

    @inlineCallbacks
    def test_B162_B139_B123_commits_taken_while_the_master_was_down_come_back(self):
        master = self.ours()
        master.tables.offsets.commit("g", "T", 0, 10)
        self.tables.offsets.commit("g", "T", 0, 99)
        self.tables.offsets.commit("h", "T", 0, 50)
        yield self.sync.round()
        for tables in (master.tables, self.tables):
            self.assertEqual(tables.offsets.query("g", "T", 0), 99)
            self.assertEqual(tables.offsets.query("h", "T", 0), 50)
        yield master.tables.stop()
        written = json.loads(
            (Path(master.root) / "config/consumerOffset.json").read_bytes().replace(b"0:", b'"0":')
        )
        self.assertEqual(written, {"offsetTable": {"T@g": {"0": 99}, "T@h": {"0": 50}}})

    @inlineCallbacks
    def joining(self):
        """A round that has brought a table which is joined in steps; the first is done."""
        self.patch(progressjoin, "ROWS_PER_STEP", 1)
        master = self.ours()
        for number in range(5):
            master.tables.offsets.commit(f"g{number}", "T", 0, 10)
        self.tables.offsets.commit("h", "T", 0, 50)
        done = self.sync.round()
        yield self.slave.until(lambda: self.sync._joining)
        self.assertEqual(self.tables.offsets.query("g0", "T", 0), 10)
        self.assertIsNone(self.tables.offsets.query("g4", "T", 0))
        return master, done

    @inlineCallbacks
    def pass_turns(self):
        for _ in range(30):
            self.slave.clock.advance(0)
            yield self.slave.ask(RequestCode.GET_BROKER_RUNTIME_INFO)

    @inlineCallbacks
    def test_a_large_table_is_joined_in_steps_and_by_one_round_at_a_time(self):
        master, done = yield self.joining()
        yield self.sync.round()
        self.assertTrue(self.sync._joining)
        self.assertIsNone(self.tables.offsets.query("g4", "T", 0))
        yield self.pass_turns()
        yield done
        self.assertFalse(self.sync._joining)
        self.assertEqual(self.tables.offsets.query("g4", "T", 0), 10)
        self.assertEqual(master.tables.offsets.query("h", "T", 0), 50)

    @inlineCallbacks
    def test_what_is_left_of_a_large_table_is_not_taken_once_another_master_is_followed(self):
        _, done = yield self.joining()
        self.sync.follow(None)
        yield self.pass_turns()
        self.assertIsNone(self.tables.offsets.query("g4", "T", 0))
        self.assertFalse(self.sync._joining or done.called)

    @inlineCallbacks
    def test_B162_a_reset_on_the_master_wins_over_what_the_slave_has(self):
        master = self.ours()
        self.tables.offsets.commit("g", "T", 0, 99)
        yield self.sync.round()
        master.tables.offsets.reset("g", "T", 0, 5)
        yield self.sync.round()
        for tables in (master.tables, self.tables):
            self.assertEqual(tables.offsets.query("g", "T", 0), 5)

    @inlineCallbacks
    def test_B140_offsets_of_messages_the_master_has_lost_are_not_taken(self):
        master = self.ours()
        self.tables.offsets.commit("g", "T", 0, 201)
        self.tables.offsets.commit("g", "T", 1, 1)
        yield self.sync.round()
        self.assertIsNone(master.tables.offsets.query("g", "T", 0))
        self.assertIsNone(master.tables.offsets.query("g", "T", 1))
        master.put("T", count=1)
        yield self.sync.round()
        self.assertEqual(master.tables.offsets.query("g", "T", 0), 201)

    @inlineCallbacks
    def test_nothing_is_handed_back_while_the_logs_differ(self):
        master = self.ours()
        self.tables.offsets.commit("g", "T", 0, 99)
        self.may_send_progress = lambda: False
        yield self.sync.round()
        self.assertIsNone(master.tables.offsets.query("g", "T", 0))
        self.assertEqual(self.tables.offsets.query("g", "T", 0), 99)

    def test_B140_the_logs_stay_different_when_the_master_outgrows_what_it_lost(self):
        log = MemoryLog()
        log.append_raw(0, [bytes(1000)])
        caught = LogCatcher(self)
        link = SlaveRig(log)
        self.assertTrue(logs_agree(link.service))
        link.header(400)
        self.assertFalse(logs_agree(link.service))
        link.lose()
        link.seconds(SLOW_RETRY + 1)
        link.send(1000, bytes(10))
        self.assertEqual(link.state, "transfer")
        self.assertFalse(logs_agree(link.service))
        self.assertEqual(len(caught.texts("error")), 1)

    @inlineCallbacks
    def test_B162_many_rows_go_in_several_requests(self):
        self.patch(offsetsync, "MAX_ROWS", 3)
        master = self.ours()
        for number in range(10):
            self.tables.offsets.commit(f"g{number}", "T", 0, 9)
        yield self.sync.round()
        found = [master.tables.offsets.query(f"g{number}", "T", 0) for number in range(10)]
        self.assertEqual(found, [9] * 10)

    @inlineCallbacks
    def test_B162_a_row_of_many_queues_goes_in_several_requests_too(self):
        self.assertLess(2 * offsetsync.MAX_PART, body_limit(RequestCode.JOIN_CONSUMER_OFFSET) + 1)
        self.patch(offsetsync, "MAX_PART", offsetsync.MAX_PART // 10)
        master = self.ours()
        self.wide(master.tables)
        for queue_id in range(2_000):
            self.tables.offsets.reset("g", "T", queue_id, 0)
        sizes = [len(encode_progress(part)) for part in offsetsync.parts(self.tables.offsets.progress())]
        self.assertGreater(len(sizes), 2)
        self.assertLess(max(sizes), offsetsync.MAX_PART)
        yield self.sync.round()
        self.assertEqual(master.tables.offsets.queues("g", "T"), dict.fromkeys(range(2_000), 0))

    @inlineCallbacks
    def test_B123_a_consumer_that_began_too_early_does_not_take_the_group_back(self):
        master = self.ours()
        master.tables.offsets.commit("g", "T", 0, 10)
        yield master.ask(34, body=json.dumps(heartbeat("c", "g", {"T": ("*", 1)})).encode())
        began = yield master.ask(14, consumerGroup="g", topic="T", queueId=0)
        self.assertEqual(began.ext["offset"], "10")
        self.tables.offsets.commit("g", "T", 0, 99)
        yield self.sync.round()
        yield master.ask(15, consumerGroup="g", topic="T", queueId=0, commitOffset=11)
        self.assertEqual(master.tables.offsets.query("g", "T", 0), 99)
        yield master.ask(15, consumerGroup="g", topic="T", queueId=0, commitOffset=100)
        self.assertEqual(master.tables.offsets.query("g", "T", 0), 100)

    @inlineCallbacks
    def test_unreadable_handed_back_table_is_refused(self):
        master = self.ours()
        for body in (b"", b"[]", b'{"offsetTable":{"T@g":5}}'):
            answer = yield master.ask(20043, body=body)
            self.assertEqual(answer.code, 1)
            self.assertTrue(answer.remark)

    @inlineCallbacks
    def test_a_slave_takes_no_other_brokers_table(self):
        answer = yield self.slave.ask(20043, body=b'{"offsetTable":{}}')
        self.assertEqual(answer.code, 3)


class TestHeld(SyncCase):
    """What speaks of messages waits for the log that they are in."""

    def progress(self):
        """Of the captured master's delay levels and groups, as far as the slave has taken it."""
        return self.tables.delays.items(), json.loads(self.tables.offsets.encode_compact())["offsetTable"]

    def ahead(self, bytes_more=100):
        """A captured master whose log goes on where the slave's ends."""
        self.master_end = self.log.max_offset + bytes_more
        return self.captured_master()

    @inlineCallbacks
    def test_B104a_progress_waits_for_the_messages_and_topics_and_groups_do_not(self):
        self.ahead()
        yield self.sync.round()
        self.assertEqual(self.progress(), ([], {}))
        self.assertTrue(self.tables.topics.version.counter)
        self.assertTrue(self.tables.groups.version.counter)
        self.log.append(bytes(99))
        self.slave.clock.advance(HOLD_LOOK)
        self.assertEqual(self.progress(), ([], {}))
        self.log.append(bytes(1))
        self.slave.clock.advance(HOLD_LOOK)
        delays, offsets = self.progress()
        self.assertTrue(delays and offsets)

    @inlineCallbacks
    def test_B104a_it_waits_for_the_disk_as_well(self):
        self.captured_master()
        self.log.hold_flushes = True
        self.log.append(bytes(100))
        self.master_end = self.log.max_offset
        yield self.sync.round()
        self.assertEqual(self.progress(), ([], {}))
        (flush,) = self.log.flushes
        flush.callback(self.log.max_offset)
        self.assertTrue(all(self.progress()))

    @inlineCallbacks
    def test_B104a_a_log_as_long_as_the_masters_that_may_differ_from_it_is_not_enough(self):
        self.captured_master()
        self.agrees = False
        yield self.sync.round()
        self.slave.clock.advance(HOLD_LOOK)
        self.assertEqual(self.progress(), ([], {}))
        self.agrees = True
        self.slave.clock.advance(HOLD_LOOK)
        self.assertTrue(all(self.progress()))

    @inlineCallbacks
    def test_B104a_what_a_master_says_that_the_link_does_not_know_of_waits_for_a_word_on_the_link(self):
        """It may have lost its power, and be back without its tail: other messages have these numbers there."""
        self.heard = lambda: 7
        self.captured_master()
        yield self.sync.round()
        self.slave.clock.advance(HOLD_LOOK)
        self.assertEqual(self.progress(), ([], {}))
        self.heard = lambda: 8
        self.slave.clock.advance(HOLD_LOOK)
        self.assertTrue(all(self.progress()))

    @inlineCallbacks
    def test_B104a_what_is_held_is_not_asked_for_again(self):
        self.ahead()
        yield self.sync.round()
        self.asked.clear()
        yield self.sync.round()
        self.assertEqual([code for code, _ in self.asked], [21, 201])
        self.log.append(bytes(100))
        self.slave.clock.advance(HOLD_LOOK)
        yield self.sync.round()
        self.assertEqual([code for code, _ in self.asked], [21, 201, 21, 43, 45, 201])

    @inlineCallbacks
    def test_B104a_another_master_or_the_end_of_being_a_slave_drops_what_is_held(self):
        for drop in (lambda: self.sync.follow("127.0.0.1:3"), self.sync.stop):
            self.ahead()
            yield self.sync.round()
            drop()
            self.log.append(bytes(100))
            self.slave.clock.advance(HOLD_LOOK)
            self.assertEqual(self.progress(), ([], {}))

    @inlineCallbacks
    def test_B104a_the_end_of_being_a_slave_also_drops_what_is_being_taken(self):
        joining = []
        self.master_end = self.log.max_offset + 100
        self.captured_master(
            c43=lambda request: response(request, ext={offsetsync.JOINS: "true"}, body=b'{"offsetTable":{}}'),
            c20043=lambda request: joining.append((request, Deferred())) or joining[0][1],
        )
        self.tables.offsets.commit("g", "T", 0, 5)  # which the master lacks, and is told of
        yield self.sync.round()
        self.log.append(bytes(100))
        self.slave.clock.advance(HOLD_LOOK)
        yield self.slave.until(lambda: joining)
        self.sync.stop()
        request, answer = joining[0]
        answer.callback(response(request))
        for _ in range(2):  # it has arrived by then
            yield self.slave.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        self.assertEqual(self.tables.delays.items(), [])

    @inlineCallbacks
    def test_B104a_without_the_end_of_the_masters_log_nothing_is_taken(self):
        self.captured_master()
        self.master_end = "many"
        yield self.sync.round()
        self.assertEqual(self.progress(), ([], {}))
        self.assertFalse(self.flushLoggedErrors())


class TestFailures(SyncCase):
    @inlineCallbacks
    def test_B99_one_failing_keeps_the_old_and_does_not_stop_the_others(self):
        self.captured_master()
        yield self.sync.round()
        copied = self.copied()
        self.assertTrue(all(copied.values()), copied)
        for failing in CAPTURED:
            for body in (b"", b"[]", b"nonsense"):
                self.asked.clear()
                self.captured_master(
                    **{f"c{failing}": lambda request, body=body: response(request, body=body)}
                )
                yield self.sync.round()
                self.assertEqual([code for code, _ in self.asked], [21, 43, 45, 201])
                self.assertEqual(self.copied(), copied, f"{failing} answered {body}")

    def copied(self):
        """What the slave has of each table, by the code it was asked for with."""
        tables = self.tables
        return {
            21: tables.topics.table(),
            43: tables.offsets.encode(),
            45: tables.delays.encode(),
            201: tables.groups.table(),
        }

    @inlineCallbacks
    def test_B99_the_tables_after_a_failing_one_are_copied(self):
        self.captured_master(c43=lambda request: response(request, 1, "no"))
        before = self.copied()
        yield self.sync.round()
        changed = {code for code, table in self.copied().items() if table != before[code]}
        self.assertEqual(changed, {21, 45, 201})

    @inlineCallbacks
    def test_B99_B100_refusals_and_calls_of_3_s_without_an_answer_are_failures_too(self):
        self.captured_master()
        yield self.sync.round()
        copied = self.copied()
        self.asked.clear()
        self.captured_master(
            c21=lambda request: response(request, 1, "No topic in this broker"), c43=lambda _: Deferred()
        )
        done = self.sync.round()
        yield self.slave.until(lambda: len(self.asked) == 2)
        self.slave.clock.advance(2.9)
        self.assertNoResult(done)
        self.slave.clock.advance(0.1)
        yield done
        self.assertEqual([code for code, _ in self.asked], [21, 43, 45, 201])
        self.assertEqual(self.copied(), copied)

    @inlineCallbacks
    def test_B100_no_master_or_ourselves_is_not_asked(self):
        for master in (None, self.slave.address):
            self.sync.follow(master)
            yield self.sync.round()
        self.assertEqual(self.slave.factory.connections, {})

    @inlineCallbacks
    def test_unreachable_master_fails_quietly_round_after_round(self):
        self.sync.follow("127.0.0.1:3")
        for _ in range(3):
            yield self.sync.round()

    @inlineCallbacks
    def test_our_own_mistake_is_logged_and_the_timer_goes_on(self):
        self.captured_master()
        self.patch(self.tables.offsets, "take_over", lambda _: 1 // 0)
        yield self.sync.round()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual([code for code, _ in self.asked], [21, 43, 45, 201])


class TestRoundUnderWay(SyncCase):
    """What a master answers after its slave has stopped asking, or follows another."""

    @inlineCallbacks
    def held_round(self):
        """A round of the timer that waits for the consumers' progress."""
        self.held = []
        self.captured_master(c43=lambda request: self.held.append((request, Deferred())) or self.held[0][1])
        self.sync.start()
        self.slave.clock.advance(FIRST_DELAY)
        yield self.slave.until(lambda: len(self.asked) == 2)

    @inlineCallbacks
    def answer_late(self):
        request, answer = self.held[0]
        answer.callback(response(request, body=b'{"offsetTable":{"T@late":{0:10}}}'))
        for _ in range(2):  # it has arrived by then
            yield self.slave.ask(RequestCode.GET_BROKER_RUNTIME_INFO)

    @inlineCallbacks
    def test_a_late_answer_changes_nothing_after_a_stop(self):
        yield self.held_round()
        self.sync.stop()
        yield self.answer_late()
        self.assertIsNone(self.tables.offsets.query("late", "T", 0))
        self.slave.clock.advance(60)
        self.assertEqual([code for code, _ in self.asked], [21, 43])

    @inlineCallbacks
    def test_a_late_answer_changes_nothing_once_another_master_is_followed(self):
        yield self.held_round()
        self.asked.clear()
        other = self.captured_master()
        self.slave.clock.advance(0)
        yield self.slave.until(lambda: len(self.asked) == 4)
        self.assertEqual(self.asked, [(21, other - 2), (43, other), (45, other), (201, other)])
        yield self.answer_late()
        self.assertIsNone(self.tables.offsets.query("late", "T", 0))

    @inlineCallbacks
    def test_a_master_that_is_gone_is_asked_nothing_more(self):
        yield self.held_round()
        self.sync.follow(None)
        yield self.answer_late()
        self.assertIsNone(self.tables.offsets.query("late", "T", 0))
        self.assertEqual([code for code, _ in self.asked], [21, 43])


class TestVersionsByNameServer(SyncCase):
    """A RocketMQ master that a name server knows something of."""

    @inlineCallbacks
    def followed(self, **changed):
        self.captured_master(**changed)
        self.sync.start()
        self.slave.clock.advance(FIRST_DELAY)
        yield self.slave.until(lambda: self.sync._timer.pending)
        self.known = self.tables.topics.version
        self.questions = []
        self.ask_version = lambda master: self.questions.append(master) or succeed(self.known)
        self.asked.clear()

    def codes(self):
        return [code for code, _ in self.asked]

    @inlineCallbacks
    def test_B170_another_version_there_brings_topics_and_groups_within_a_second(self):
        yield self.followed()
        self.slave.clock.advance(LOOK)
        self.assertEqual((len(self.questions), self.asked), (1, []))
        self.known = self.known.following(7)
        self.slave.clock.advance(LOOK)
        yield self.slave.until(lambda: self.codes() == [21, 201])

    @inlineCallbacks
    def test_B170_a_name_server_that_is_behind_costs_one_copy(self):
        yield self.followed()
        self.known = DataVersion(counter=1, timestamp=1)
        self.slave.clock.advance(LOOK)
        yield self.slave.until(lambda: self.codes() == [21, 201])
        for _ in range(3):
            yield self.slave.until(lambda: self.sync._versions._asked._timer.pending)
            self.slave.clock.advance(LOOK)
        self.assertEqual((len(self.questions), self.codes()), (4, [21, 201]))

    @inlineCallbacks
    def test_B170_a_name_server_that_says_nothing_is_asked_again(self):
        yield self.followed()
        self.known = None
        self.slave.clock.pump([LOOK] * 3)
        self.assertEqual((len(self.questions), self.asked), (3, []))

    @inlineCallbacks
    def test_B170_no_master_no_question(self):
        yield self.followed()
        self.sync.follow(None)
        self.slave.clock.pump([LOOK] * 3)
        self.assertEqual(self.questions, [])

    @inlineCallbacks
    def test_B170_a_master_of_ours_is_not_asked_about(self):
        yield self.followed(
            c43=lambda request: response(request, ext={offsetsync.JOINS: "true"}, body=b'{"offsetTable":{}}'),
            c20044=lambda request: Deferred(),
        )
        self.slave.clock.pump([LOOK] * 3)
        self.assertEqual(self.questions, [])


class TestTimer(SyncCase):
    @inlineCallbacks
    def test_B98_first_after_3_s_then_every_10_s(self):
        self.captured_master()
        clock = self.slave.clock
        self.sync.start()
        clock.advance(2.9)
        self.assertEqual(self.asked, [])
        clock.advance(0.1)
        yield self.slave.until(lambda: len(self.asked) == 4)
        yield self.slave.until(lambda: self.tables.groups.version.counter)
        clock.advance(9.9)
        self.assertEqual(len(self.asked), 4)
        clock.advance(0.1)
        yield self.slave.until(lambda: len(self.asked) == 8)
        self.sync.stop()
        clock.advance(100)
        self.assertEqual(len(self.asked), 8)

    @inlineCallbacks
    def test_B98_both_times_are_set_by_the_configuration(self):
        self.captured_master()
        clock, tables, master = self.slave.clock, self.tables, self.sync._master
        sync = SlaveSynchronizer(
            self.slave.client,
            clock,
            tables,
            SyncOptions(own_address=self.slave.address, first_delay=0.5, interval=1.5),
            self.hold(),
            lambda: True,
        )
        self.addCleanup(sync.stop)
        sync.follow(master)
        sync.start()
        clock.advance(0.4)
        self.assertEqual(self.asked, [])
        clock.advance(0.1)
        yield self.slave.until(lambda: len(self.asked) == 4 and sync._timer.pending)
        clock.advance(1.4)
        self.assertEqual(len(self.asked), 4)
        clock.advance(0.1)
        yield self.slave.until(lambda: len(self.asked) == 8)

    def test_stopped_before_the_first_round(self):
        self.captured_master()
        self.sync.start()
        self.sync.stop()
        self.sync.round_now()
        self.slave.clock.advance(100)
        self.assertEqual(self.asked, [])

    @inlineCallbacks
    def test_B98_at_once_when_the_master_comes_or_comes_back(self):
        self.sync.start()
        self.slave.clock.advance(FIRST_DELAY + 1)
        self.captured_master()
        self.slave.clock.advance(0)
        yield self.slave.until(lambda: len(self.asked) == 4)
        yield self.slave.until(lambda: self.tables.groups.version.counter)
        self.sync.round_now()
        self.slave.clock.advance(0)
        yield self.slave.until(lambda: len(self.asked) == 8)
        self.slave.clock.advance(INTERVAL - 0.1)
        self.assertEqual(len(self.asked), 8)

    @inlineCallbacks
    def test_B98_a_message_of_an_unknown_topic_is_a_reason_to_ask_at_once(self):
        held = []
        self.captured_master(c201=lambda request: held.append((request, Deferred())) or held[-1][1])
        clock = self.slave.clock
        self.sync.start()
        self.sync.arrived(grown("New", 0, 1))
        clock.advance(0)
        yield self.slave.until(lambda: len(held) == 1)
        self.sync.arrived(grown("Newer", 0, 1))  # too late for this round
        held[0][1].callback(response(held[0][0], 1))
        yield self.slave.until(lambda: self.sync._timer.pending)
        clock.advance(UNKNOWN_TOPIC_PAUSE - 0.1)
        self.assertEqual(len(self.asked), 4)
        clock.advance(0.1)
        yield self.slave.until(lambda: len(held) == 2)
        held[1][1].callback(response(held[1][0], 1))
        yield self.slave.until(lambda: self.sync._timer.pending)
        self.assertEqual(self.sync._timer.due - clock.seconds(), INTERVAL)

    @inlineCallbacks
    def test_a_topic_that_the_master_does_not_know_either_is_asked_for_once(self):
        self.captured_master()
        clock = self.slave.clock
        self.sync.start()
        clock.advance(FIRST_DELAY)
        yield self.slave.until(lambda: len(self.asked) == 4 and self.sync._timer.pending)
        for _ in range(4):
            self.sync.arrived(grown("Deleted", 0, 1))
            clock.advance(UNKNOWN_TOPIC_PAUSE)
            yield self.slave.until(lambda: self.sync._timer.pending)
        self.assertEqual(len(self.asked), 8)

    @inlineCallbacks
    def test_a_round_wished_during_a_round_follows_it(self):
        held = []
        self.captured_master(c201=lambda request: held.append(Deferred()) or held[-1])
        self.sync.start()
        self.slave.clock.advance(FIRST_DELAY)
        yield self.slave.until(lambda: held)
        self.sync.round_now()
        self.slave.clock.advance(0)
        self.assertEqual(len(self.asked), 4)
        self.slave.clock.advance(CALL_TIMEOUT)
        self.slave.clock.advance(0)
        yield self.slave.until(lambda: len(self.asked) == 8)

    def test_vip_address(self):
        self.assertEqual(vip_address("10.0.0.1:10911"), "10.0.0.1:10909")


class TestLargeTables(SyncCase):
    """Tables are read in steps once they are large."""

    def setUp(self):
        super().setUp()
        self.patch(tablesteps, "SMALL", 0)
        self.patch(tablesteps, "_ENTRIES", 1)
        self.patch(steps, "SLICE", 0)
        self.master = BrokerRig(self, clock=self.slave.clock, network=self.slave.network, port=20911)
        self.sync.follow(self.listen(self.master.table))

    @inlineCallbacks
    def turn(self, until, steps=True):
        """Let the network, and the steps, go on until then."""
        for _ in range(5000):
            if until():
                return
            yield deferLater(reactor, 0)
            if steps:
                self.slave.clock.advance(0)
        self.fail("it doesn't come")

    @inlineCallbacks
    def test_B98_topics_and_groups_are_the_masters(self):
        for number in range(20):
            self.master.put(f"T{number}")
            self.master.tables.groups.find(f"g{number}")
        done = self.sync.round()
        yield self.turn(lambda: done.called)
        for ours, theirs in (
            (self.tables.topics.table(), self.master.tables.topics.table()),
            (self.tables.groups.table(), self.master.tables.groups.table()),
        ):
            self.assertEqual(ours, theirs)

    @inlineCallbacks
    def test_B100_a_table_that_is_being_read_is_not_taken_once_another_master_is_followed(self):
        self.master.put("Late")
        read = []
        known = self.tables.topics.known
        self.patch(self.tables.topics, "known", lambda: read.append(1) or known())
        self.sync.start()
        self.slave.clock.advance(FIRST_DELAY)
        yield self.turn(lambda: read, steps=False)
        self.sync.follow(None)
        self.slave.clock.advance(0)
        self.assertIsNone(self.tables.topics.get("Late"))

    def test_B98_a_table_that_is_read_to_its_end_after_a_newer_one_is_not_taken(self):
        def answer(counter, topics):
            table = {name: TopicConfig(topic_name=name) for name in topics}
            version = DataVersion(counter=counter)
            return RemotingCommand(
                0, body=encode_body(TopicTable(data_version=version, topic_config_table=table))
            )

        for counter, topics in ((7, "abcdefgh"), (8, "a")):
            self.sync._take_topics(answer(counter, topics))
        self.slave.clock.advance(0)
        self.assertEqual(self.tables.topics.version.counter, 8)
        self.assertEqual(self.tables.topics.names(), ["a"])
