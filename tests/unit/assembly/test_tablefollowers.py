"""Changes of topics and groups are on the slaves when whoever made them is told; whole nodes in memory."""

from __future__ import annotations

import shutil
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.node import tablefollowers
from hatwisted.broker.node.tablefollowers import COPY_WAIT, HOLD, MAX_FOLLOWERS, versions_of
from hatwisted.config.schema import BrokerRole
from hatwisted.remoting.client import RemotingClient
from hatwisted.wire.remoting import RemotingCommand
from tests.support.memorynode import MemoryNodes, MortalClock
from tests.support.slowdisk import SlowDisk

MASTER, SLAVE, SECOND = "10.0.0.1", "10.0.0.2", "10.0.0.3"
ADDRESS = f"{MASTER}:10911"
WATCH_TABLES = 20044
UPDATE_TOPIC, DELETE_TOPIC, UPDATE_GROUP, DELETE_GROUP, UPDATE_CONFIG = 17, 215, 200, 207, 25
TOPIC = {
    "defaultTopic": "TBW102",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
}


class FollowerCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = nodes = MemoryNodes(self)
        self.clock = nodes.clock
        parts = nodes.parts(MASTER, clock=MortalClock(nodes.clock))
        self.master = nodes.start(MASTER, parts)

    def start_slave(self, host: str = SLAVE, **changes: Any) -> Any:
        parts = self.nodes.parts(host, clock=MortalClock(self.clock))
        slave = self.nodes.start(
            host,
            parts,
            broker_role=BrokerRole.SLAVE,
            broker_id=1,
            ha_master_address=f"{MASTER}:10912",
            **changes,
        )
        self.nodes.pass_time(5)
        return slave

    def make(self, topic: str, **changes: Any) -> Any:
        return self.nodes.ask(ADDRESS, UPDATE_TOPIC, topic=topic, **TOPIC | changes)

    def group(self, name: str) -> Any:
        return self.nodes.ask(ADDRESS, UPDATE_GROUP, msgspec.json.encode({"groupName": name}))


class ChangesArriveTests(FollowerCase):
    def test_B99a_what_an_operator_was_told_is_made_is_on_the_slave(self) -> None:
        tables = self.start_slave().parts.tables
        for number in range(3):
            begun = self.clock.seconds()
            answer = self.make(f"T{number}")
            self.assertEqual((answer.code, answer.remark), (0, None))
            self.assertIsNotNone(tables.topics.get(f"T{number}"))
            self.assertLess(self.clock.seconds() - begun, 1)
        self.assertEqual(self.make("T0", perm=4).remark, None)
        self.assertEqual(tables.topics.get("T0").perm, 4)
        self.assertEqual(self.group("g").remark, None)
        self.assertIn("g", tables.groups.table().subscription_group_table)
        self.assertEqual(self.nodes.ask(ADDRESS, DELETE_GROUP, groupName="g").remark, None)
        self.assertNotIn("g", tables.groups.table().subscription_group_table)
        self.assertEqual(self.nodes.ask(ADDRESS, DELETE_TOPIC, topic="T1").remark, None)
        self.assertIsNone(tables.topics.get("T1"))

    def test_B99a_it_outlives_the_master(self) -> None:
        slave = self.start_slave()
        self.assertEqual(self.make("Lasting").code, 0)
        self.nodes.crash(self.master, MASTER)
        self.nodes.stop(slave)
        promoted = self.nodes.start(SLAVE, self.nodes.parts(SLAVE))
        self.assertIsNotNone(promoted.parts.tables.topics.get("Lasting"))

    def test_B99a_two_slaves_both_have_it(self) -> None:
        slaves = self.start_slave(), self.start_slave(SECOND)
        self.assertEqual(self.make("T").remark, None)
        for slave in slaves:
            self.assertIsNotNone(slave.parts.tables.topics.get("T"))

    def test_B99a_a_slave_hears_after_hours_without_a_change(self) -> None:
        tables = self.start_slave().parts.tables
        self.nodes.pass_time(10 * HOLD, 0.25)
        self.assertEqual(self.make("T").remark, None)
        self.assertIsNotNone(tables.topics.get("T"))

    def test_B99a_topics_made_on_demand_arrive_as_soon(self) -> None:
        tables = self.start_slave().parts.tables
        self.assertEqual(self.nodes.send(ADDRESS, topic="OnDemand"), 0)
        self.nodes.pass_time(0.5)
        self.assertIsNotNone(tables.topics.get("OnDemand"))

    def test_without_slaves_nobody_waits(self) -> None:
        begun = self.clock.seconds()
        self.assertEqual((self.make("T").remark, self.group("g").remark), (None, None))
        self.assertLess(self.clock.seconds() - begun, 0.5)


class ChangesMissedTests(FollowerCase):
    def test_B99a_a_slave_that_stands_still_is_named_in_the_answer(self) -> None:
        slave = self.start_slave()
        slave.parts.clock.dead = True
        begun = self.clock.seconds()
        answer = self.make("T")
        self.assertEqual(answer.code, 0)
        self.assertEqual(answer.remark, f"done here, but these slaves may not have it yet: {SLAVE}")
        self.assertApproximates(self.clock.seconds() - begun, COPY_WAIT, 0.5)
        self.nodes.crash(slave, SLAVE)

    def test_B99a_a_linked_slave_that_does_not_watch_is_named_at_once(self) -> None:
        self.nodes.play_slave(SECOND, f"{MASTER}:10912", 0)
        begun = self.clock.seconds()
        for answer in (self.make("T"), self.group("g")):
            self.assertEqual(answer.code, 0)
            self.assertIn(SECOND, answer.remark)
        self.assertLess(self.clock.seconds() - begun, 1)

    def test_B99a_a_slave_that_goes_holds_nobody_up(self) -> None:
        slave = self.start_slave()
        slave.parts.clock.dead = True
        fields = {"topic": "T"} | {name: str(value) for name, value in TOPIC.items()}
        asked = self.nodes.client.call(ADDRESS, RemotingCommand(UPDATE_TOPIC, ext=fields), 15)
        self.nodes.pass_time(1)
        self.assertNoResult(asked)
        self.nodes.crash(slave, SLAVE)
        self.nodes.pass_time(0.5)
        self.assertEqual(self.successResultOf(asked).remark, None)

    def test_a_stop_holds_no_slave_and_nobody_who_waits_for_one(self) -> None:
        slave = self.start_slave()
        slave.parts.clock.dead = True
        followers = self.master.parts.followers
        self.master.parts.tables.topics.for_send("Made", "TBW102", 4)
        copied = followers.copied()
        before = len(self.master.parts.clock.getDelayedCalls())
        followers.stop()
        self.assertIn(SLAVE, self.successResultOf(copied) or "")
        self.assertLess(len(self.master.parts.clock.getDelayedCalls()), before)
        self.nodes.crash(slave, SLAVE)

    def watch(self, client: RemotingClient, **versions: str) -> Deferred[RemotingCommand]:
        asked = client.call(ADDRESS, RemotingCommand(WATCH_TABLES, ext=versions), 15)
        self.nodes.pass_time(0.5)
        return asked

    def seconds_until_made(self, topic: str) -> float:
        """By an operator who is told that SECOND may not have it."""
        begun = self.clock.seconds()
        self.assertIn(SECOND, self.make(topic).remark or "")
        return self.clock.seconds() - begun

    def test_who_missed_a_wait_is_not_waited_for_until_it_has_more(self) -> None:
        """Or anybody who watches once and then stays silent would hold up all others."""
        followers, tables = self.master.parts.followers, self.master.parts.tables
        client = RemotingClient(self.nodes.network.host(SECOND), self.clock)
        self.successResultOf(self.watch(client, topicsVersion="1,2,3", groupsVersion="invented"))
        self.assertGreater(self.seconds_until_made("T"), COPY_WAIT - 0.5)
        for number in range(3):
            self.assertLess(self.seconds_until_made(f"T{number}"), 0.5)
            tables.topics.for_send(f"Made{number}", "TBW102", 4)
            kept = followers.kept(slaves=True)
            self.nodes.pass_time(0.2)
            self.successResultOf(kept)
            self.successResultOf(self.watch(client, topicsVersion=str(number), groupsVersion=""))
        self.assertNoResult(self.watch(client, **versions_of(tables)).addErrback(lambda _: None))
        self.assertGreater(self.seconds_until_made("U"), COPY_WAIT - 0.5)
        self.assertLess(self.seconds_until_made("V"), 0.5)
        self.nodes.result(client.close())

    def test_the_wait_of_another_ends_with_the_one_that_is_missed(self) -> None:
        client = RemotingClient(self.nodes.network.host(SECOND), self.clock)
        self.watch(client)
        followers, topics = self.master.parts.followers, self.master.parts.tables.topics
        waits = []
        for topic in ("Early", "Late"):
            topics.for_send(topic, "TBW102", 4)
            waits.append(followers.copied())
            self.nodes.pass_time(COPY_WAIT / 2 + 0.1)
        for wait in waits:
            self.assertIn(SECOND, self.successResultOf(wait) or "")
        self.nodes.result(client.close())

    def test_so_many_states_of_the_tables_are_remembered(self) -> None:
        self.patch(tablefollowers, "MAX_STATES", 3)
        for number in range(10):
            self.nodes.ask(ADDRESS, UPDATE_TOPIC, topic=f"T{number}", **TOPIC)
        self.assertEqual(len(self.master.parts.followers._states), 3)

    def test_the_number_of_slaves_that_watch_is_limited(self) -> None:
        hosts = [self.nodes.network.host(f"10.0.1.{number}") for number in range(MAX_FOLLOWERS + 1)]
        clients = [RemotingClient(host, self.clock) for host in hosts]
        asked = [client.call(ADDRESS, RemotingCommand(WATCH_TABLES), 15) for client in clients]
        self.nodes.pass_time(1)
        for client in clients:
            self.nodes.result(client.close())
        codes = [self.successResultOf(each).code for each in asked]
        self.assertEqual(codes, [0] * MAX_FOLLOWERS + [2])


class MastersFileTests(SynchronousTestCase):
    """What was confirmed is in the master's own file: the process may be killed a moment later."""

    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.disk = SlowDisk()
        self.master = self.nodes.start(
            MASTER,
            self.nodes.parts(MASTER, make_worker=lambda name, threads: self.disk),
            broker_config_path=str(self.nodes.folder / "broker.conf"),
        )
        self.addCleanup(self.disk.work)

    def ask(self, code: int, body: bytes = b"", **ext: object) -> Deferred[RemotingCommand]:
        texts = {name: str(value) for name, value in ext.items()}
        return self.nodes.client.call(ADDRESS, RemotingCommand(code, ext=texts, body=body), 15)

    def test_B99a_an_operator_is_answered_once_the_change_is_in_the_masters_file(self) -> None:
        group = msgspec.json.encode({"groupName": "g"})
        for code, body, ext in (
            (UPDATE_TOPIC, b"", {"topic": "T", **TOPIC}),
            (UPDATE_GROUP, group, {}),
            (DELETE_GROUP, b"", {"groupName": "g"}),
            (DELETE_TOPIC, b"", {"topic": "T"}),
            (UPDATE_CONFIG, b"deleteWhen=05\n", {}),
        ):
            self.disk.waiting = []
            asked = self.ask(code, body, **ext)
            self.nodes.pass_time(1)
            self.assertNoResult(asked)
            self.disk.work()
            self.nodes.pass_time(1)
            answer = self.successResultOf(asked)
            self.assertEqual((answer.code, answer.remark), (0, None))

    def test_a_file_that_cannot_be_written_is_reported_in_the_answer(self) -> None:
        config = self.nodes.folder / MASTER / "config"
        for name in ("topics.json.tmp", "topics.json.bak.tmp"):
            (config / name).mkdir()
        asked = self.ask(UPDATE_TOPIC, topic="T", **TOPIC)
        self.nodes.pass_time(1)
        answer = self.successResultOf(asked)
        self.assertEqual(answer.code, 0)
        self.assertIn("done here, but not written to a file yet: ", answer.remark or "")
        self.assertIn("topics.json", answer.remark or "")
        (self.nodes.folder / "broker.conf.tmp" / "in the way").mkdir(parents=True)
        asked = self.ask(UPDATE_CONFIG, b"deleteWhen=05\n")
        self.nodes.pass_time(1)
        answer = self.successResultOf(asked)
        self.assertEqual(answer.code, 0)
        self.assertIn("broker.conf", answer.remark or "")


class SlavesFileTests(SynchronousTestCase):
    """What was confirmed for a slave is in the slave's own file: its power may fail a moment later."""

    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.disk = SlowDisk()
        self.nodes.start(MASTER)
        self.slave = self.nodes.start(
            SLAVE,
            self.nodes.parts(SLAVE, make_worker=lambda name, threads: self.disk),
            broker_role=BrokerRole.SLAVE,
            broker_id=1,
            ha_master_address=f"{MASTER}:10912",
        )
        self.addCleanup(self.disk.work)
        self.nodes.pass_time(5)
        self.config = self.nodes.folder / SLAVE / "config"

    def ask(self, code: int, body: bytes = b"", **ext: object) -> Deferred[RemotingCommand]:
        texts = {name: str(value) for name, value in ext.items()}
        return self.nodes.client.call(ADDRESS, RemotingCommand(code, ext=texts, body=body), 15)

    def test_B99a_an_operator_is_answered_once_the_change_is_in_the_slaves_file(self) -> None:
        group = msgspec.json.encode({"groupName": "g"})
        for code, body, ext, name in (
            (UPDATE_TOPIC, b"", {"topic": "T", **TOPIC}, "topics.json"),
            (UPDATE_GROUP, group, {}, "subscriptionGroup.json"),
        ):
            self.disk.waiting = []
            before = (self.config / name).read_bytes()
            asked = self.ask(code, body, **ext)
            self.nodes.pass_time(1)
            self.assertNoResult(asked)
            self.assertEqual((self.config / name).read_bytes(), before)
            self.disk.work()
            self.nodes.pass_time(1)
            answer = self.successResultOf(asked)
            self.assertEqual((answer.code, answer.remark), (0, None))
            self.assertNotEqual((self.config / name).read_bytes(), before)

    def test_a_slave_that_cannot_write_its_file_is_named_in_the_answer(self) -> None:
        blocks = [self.config / name for name in ("topics.json.tmp", "topics.json.bak.tmp")]
        for block in blocks:
            (block / "in the way").mkdir(parents=True)
        asked = self.ask(UPDATE_TOPIC, topic="T", **TOPIC)
        self.nodes.pass_time(COPY_WAIT + 1)
        self.assertIn(SLAVE, self.successResultOf(asked).remark or "")
        for block in blocks:
            shutil.rmtree(block)
        self.nodes.pass_time(30)
        asked = self.ask(UPDATE_TOPIC, topic="U", **TOPIC)
        self.nodes.pass_time(1)
        self.assertIsNone(self.successResultOf(asked).remark)

    def test_a_slave_stops_while_its_file_is_being_written(self) -> None:
        self.disk.waiting = []
        asked = self.ask(UPDATE_TOPIC, topic="T", **TOPIC)
        self.nodes.pass_time(1)
        stopping = self.slave.stopService()
        self.disk.work()
        self.nodes.result(stopping)
        self.assertEqual(self.nodes.result(asked).code, 0)
        self.assertEqual(self.flushLoggedErrors(), [])
