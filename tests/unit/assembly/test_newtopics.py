"""Topics that a message makes are kept before it is answered: a master and its slave in memory, on slow disks."""

from __future__ import annotations

from shutil import copytree
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.put import newtopics
from hatwisted.broker.put.newtopics import KEEP_WAIT
from hatwisted.config.schema import BrokerRole
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.wire.remoting import RemotingCommand
from tests.support.memorynode import MemoryNodes
from tests.support.slowdisk import SlowDisk

MASTER, SLAVE, PLAYED, AGAIN = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"
ADDRESS = f"{MASTER}:10911"
SEND = 310


class NewTopicTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.disks = {MASTER: SlowDisk(), SLAVE: SlowDisk(), AGAIN: SlowDisk()}

    def start(self, role: BrokerRole = BrokerRole.SYNC_MASTER) -> None:
        self.master = self.begin(MASTER, broker_role=role)
        self.slave = self.begin(
            SLAVE, broker_role=BrokerRole.SLAVE, broker_id=1, ha_master_address=f"{MASTER}:10912"
        )
        self.nodes.pass_time(5)
        self.assertEqual(self.nodes.send(ADDRESS, topic="Old"), 0)
        self.nodes.pass_time(1)

    def begin(self, host: str, **changes: Any) -> Any:
        """Of its two workers the one with a thread of its own for flushes is never slow."""
        disk = self.disks[host]

        def make_worker(name: str, _threads: int) -> InlineWorker:
            return InlineWorker() if "flush" in name else disk

        node = self.nodes.start(host, self.nodes.parts(host, make_worker=make_worker), **changes)
        self.addCleanup(disk.work)
        return node

    def send(self, topic: str, **changes: object) -> Deferred[RemotingCommand]:
        fields: dict[str, object] = {
            "a": "producers",
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": 0,
            "f": 0,
            "h": 0,
        }
        fields |= {"g": int(self.nodes.clock.seconds() * 1000), "i": "", "j": 0, "k": "false", "m": "false"}
        texts = {name: str(value) for name, value in (fields | changes).items()}
        asked = self.nodes.client.call(ADDRESS, RemotingCommand(SEND, ext=texts, body=b"x"), 15)
        self.nodes.pass_time(0.2)
        return asked

    def kept(self, host: str, topic: str) -> bool:
        return f'"{topic}"' in (self.nodes.folder / host / "config" / "topics.json").read_text()

    def test_B99a_it_is_in_the_files_of_master_and_slave_when_its_first_message_is_answered(self) -> None:
        self.start()
        for host in (SLAVE, MASTER):
            self.disks[host].waiting = []
            topic = f"New-{host.replace('.', '-')}"
            first, second, other = self.send(topic), self.send(topic), self.send("Old")
            self.assertNoResult(first)
            self.assertNoResult(second)
            self.assertEqual(self.successResultOf(other).code, 0)
            self.assertFalse(self.kept(host, topic))
            self.disks[host].work()
            self.nodes.pass_time(0.3)
            self.assertEqual([self.successResultOf(each).code for each in (first, second)], [0, 0])
            self.assertTrue(self.kept(MASTER, topic))
            self.assertTrue(self.kept(SLAVE, topic))

    def test_a_delayed_message_makes_its_topic_as_well(self) -> None:
        self.start()
        self.disks[SLAVE].waiting = []
        asked = self.send("Later", i="DELAY\x011\x02")
        self.assertNoResult(asked)
        self.disks[SLAVE].work()
        self.nodes.pass_time(0.3)
        self.assertEqual(self.successResultOf(asked).code, 0)

    def test_an_asynchronous_master_waits_for_its_own_file_alone(self) -> None:
        self.start(BrokerRole.ASYNC_MASTER)
        self.disks[SLAVE].waiting = []
        self.assertEqual(self.successResultOf(self.send("New")).code, 0)
        self.assertTrue(self.kept(MASTER, "New"))
        self.disks[MASTER].waiting = []
        asked = self.send("Newer")
        self.assertNoResult(asked)
        self.disks[MASTER].work()
        self.nodes.pass_time(0.1)
        self.assertEqual(self.successResultOf(asked).code, 0)

    def test_nobody_waits_long_for_a_file_that_is_not_written(self) -> None:
        self.start()
        for host in (SLAVE, MASTER):
            self.disks[host].waiting = []
            asked = self.send(f"New-{host.replace('.', '-')}")
            self.assertNoResult(asked)
            self.nodes.pass_time(KEEP_WAIT)
            self.assertEqual(self.successResultOf(asked).code, 0)
            self.disks[host].work()
            self.nodes.pass_time(0.3)

    def test_a_slave_that_does_not_watch_is_not_waited_for(self) -> None:
        self.master = self.begin(MASTER, broker_role=BrokerRole.SYNC_MASTER)
        self.nodes.play_slave(PLAYED, f"{MASTER}:10912", 0)
        self.nodes.pass_time(1)
        self.assertEqual(self.successResultOf(self.send("New")).code, 0)

    def test_a_stop_answers_those_who_wait(self) -> None:
        self.start()
        self.disks[SLAVE].waiting = []
        asked = self.send("New")
        self.assertNoResult(asked)
        self.nodes.stop(self.master)
        self.assertEqual(self.nodes.result(asked).code, 0)

    def test_what_is_held_is_limited(self) -> None:
        self.start()
        self.disks[SLAVE].waiting = []
        self.patch(newtopics, "MAX_HELD_PUTS", 1)
        first, second = self.send("New"), self.send("New")
        self.assertNoResult(first)
        self.assertEqual(self.successResultOf(second).code, 0)
        self.patch(newtopics, "MAX_NEW_TOPICS", 1)
        self.patch(newtopics, "MAX_HELD_PUTS", 10)
        self.assertEqual(self.successResultOf(self.send("Newer")).code, 0)

    def test_one_that_a_kill_kept_from_the_file_is_made_again(self) -> None:
        """Its message is there, and nobody could read it."""
        self.start(BrokerRole.ASYNC_MASTER)
        self.disks[MASTER].waiting = []
        asked = self.send("New", e=5, d=8)
        self.nodes.pass_time(KEEP_WAIT)
        self.assertEqual(self.successResultOf(asked).code, 0)
        copytree(self.nodes.folder / MASTER, self.nodes.folder / AGAIN)  # what a killed one leaves
        self.assertFalse(self.kept(AGAIN, "New"))
        again = self.begin(AGAIN, broker_role=BrokerRole.ASYNC_MASTER)
        self.nodes.pass_time(0.3)
        made = again.parts.tables.topics.get("New")
        self.assertEqual((made.read_queue_nums, made.write_queue_nums, made.perm), (6, 6, 6))
        self.assertTrue(self.kept(AGAIN, "New"))

    def test_one_that_an_operator_has_deleted_is_not(self) -> None:
        """A slave keeps its messages until they expire."""
        self.start()
        self.assertEqual(self.successResultOf(self.send("New")).code, 0)
        self.nodes.pass_time(1)
        self.assertEqual(self.nodes.ask(ADDRESS, 215, topic="New").code, 0)
        self.nodes.pass_time(1)
        self.nodes.stop(self.slave)
        self.nodes.stop(self.master)
        promoted = self.begin(SLAVE, broker_role=BrokerRole.SYNC_MASTER)
        self.assertIsNotNone(promoted.parts.store.queues.find("New", 0))
        self.assertIsNone(promoted.parts.tables.topics.get("New"))
