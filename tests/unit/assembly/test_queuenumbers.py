"""Queues of which a slave has no message go on where they are on its master, when it is promoted."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.schema import BrokerRole
from hatwisted.sim.simdisk import SimDisk
from hatwisted.sim.trace import Trace
from hatwisted.wire.haframe import HaFirstSync
from tests.support.memorynode import MemoryNodes, MortalClock

MASTER, SLAVE = "10.0.0.1", "10.0.0.2"
ADDRESS = f"{MASTER}:10911"
FILE_SIZE = 1 << 14
SMALL = {"mapped_file_size_commit_log": FILE_SIZE, "max_message_size": FILE_SIZE // 4}
AS_SLAVE = {
    "broker_role": BrokerRole.SLAVE,
    "broker_id": 1,
    "ha_first_sync": HaFirstSync.LAST_FILE,
    "ha_master_address": f"{MASTER}:10912",
}


class QueueNumberTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.master = self.nodes.start(MASTER, **SMALL)

    def fill_a_file(self) -> None:
        for _ in range(FILE_SIZE // 3000 + 1):
            self.assertEqual(self.nodes.send(ADDRESS, bytes(3000), topic="Filler"), 0)

    def send_quiet(self, count: int = 3) -> None:
        for _ in range(count):
            self.assertEqual(self.nodes.send(ADDRESS, topic="Quiet"), 0)

    def stall(self, port: int, seconds: float) -> None:
        """Nothing of what the master says on a port arrives for a while."""
        for end in self.nodes.network.transports:
            if (end.getHost().host, end.getHost().port) == (MASTER, port):
                end.stalled_until = self.nodes.clock.seconds() + seconds

    def cut(self, port: int) -> None:
        """Nothing that the master says on a port leaves its host any more, and nobody is told."""
        for end in list(self.nodes.network.transports):
            if (end.getHost().host, end.getHost().port) == (MASTER, port):
                end.vanish(told=False)

    def promoted(self, slave: Any) -> Any:
        """The slave, started again as the master, which has ended."""
        self.nodes.stop(self.master)
        self.nodes.stop(slave)
        master = self.nodes.start(SLAVE, **SMALL)
        self.assertGreater(master.parts.store.log.min_offset, 0)
        return master

    def next_number(self, node: Any) -> int:
        self.assertEqual(self.nodes.send(f"{SLAVE}:10911", topic="Quiet"), 0)
        offsets: tuple[int, int] = node.parts.store.queue_offsets("Quiet", 0)
        return offsets[1] - 1

    def test_a_promoted_slave_that_began_in_the_last_file_goes_on_with_the_numbers(self) -> None:
        self.send_quiet()
        self.fill_a_file()
        slave = self.nodes.start(SLAVE, **SMALL | AS_SLAVE)
        self.nodes.pass_time(8)
        self.assertEqual(slave.parts.store.queue_offsets("Quiet", 0), (3, 3))
        self.assertEqual(self.next_number(self.promoted(slave)), 3)

    def test_the_numbers_outlast_a_failure_of_power(self) -> None:
        """Between two of the store's own syncs: no record of the new master's log would tell them again."""
        self.send_quiet()
        self.fill_a_file()
        disk = SimDisk(self.nodes.clock.seconds, Trace(self.nodes.clock.seconds))
        parts = self.nodes.parts(SLAVE, clock=MortalClock(self.nodes.clock), file_system=disk)
        slave = self.nodes.start(SLAVE, parts, **SMALL | AS_SLAVE)
        while slave.parts.store.queue_offsets("Quiet", 0) != (3, 3):
            self.nodes.pass_time(0.05)
        self.nodes.crash(slave, SLAVE)
        disk.reboot(Random(1), 0.0)
        master = self.nodes.start(SLAVE, self.nodes.parts(SLAVE, file_system=disk), **SMALL)
        self.assertEqual(self.next_number(master), 3)

    def test_numbers_are_taken_once_the_messages_that_they_count_have_come(self) -> None:
        self.send_quiet()
        self.fill_a_file()
        slave = self.nodes.start(SLAVE, **SMALL | AS_SLAVE)
        self.nodes.pass_time(1)
        self.stall(10912, 8)
        self.send_quiet(1)
        self.nodes.pass_time(6)
        self.assertEqual(slave.parts.store.queue_end("Quiet", 0), 0)
        self.nodes.pass_time(4)
        self.assertEqual(slave.parts.store.queue_offsets("Quiet", 0), (3, 4))
        self.assertEqual(self.next_number(self.promoted(slave)), 4)

    def test_topics_that_are_copied_late_count_too(self) -> None:
        """Their port may be closed for a while, as that of a RocketMQ master often is."""
        self.send_quiet()
        self.fill_a_file()
        port = self.nodes.network.listening.pop((MASTER, 10909))
        slave = self.nodes.start(SLAVE, **SMALL | AS_SLAVE)
        self.nodes.pass_time(8)
        self.assertGreater(slave.parts.store.log.min_offset, 0)
        self.assertIsNone(slave.parts.tables.topics.get("Quiet"))
        self.nodes.network.listening[MASTER, 10909] = port
        self.nodes.pass_time(15)
        self.assertIsNotNone(slave.parts.tables.topics.get("Quiet"))
        self.assertEqual(slave.parts.store.queue_offsets("Quiet", 0), (3, 3))

    def test_a_master_that_comes_back_with_less_of_its_log_is_asked_again(self) -> None:
        """What was waited for was lost with its power, and will never come."""
        disk = SimDisk(self.nodes.clock.seconds, Trace(self.nodes.clock.seconds))
        self.nodes.stop(self.master)
        parts = self.nodes.parts(MASTER, clock=MortalClock(self.nodes.clock), file_system=disk)
        self.master = self.nodes.start(MASTER, parts, **SMALL)
        self.send_quiet()
        self.fill_a_file()
        self.nodes.result(self.master.parts.store.flusher.flush_now())
        slave = self.nodes.start(SLAVE, **SMALL | AS_SLAVE)
        self.nodes.pass_time(1)
        self.cut(10912)
        self.send_quiet(1)
        numbers = slave.services._numbers
        while not numbers._hold.waiting:
            self.nodes.pass_time(0.05)
        self.nodes.crash(self.master, MASTER)
        disk.reboot(Random(1), 0.0)
        self.master = self.nodes.start(MASTER, self.nodes.parts(MASTER, file_system=disk), **SMALL)
        self.nodes.pass_time(60)
        self.assertTrue(slave.services.ha_client.agrees)
        self.assertEqual(self.master.parts.store.queue_offsets("Quiet", 0), (0, 3))
        self.assertEqual(slave.parts.store.queue_offsets("Quiet", 0), (3, 3))

    def test_a_stop_ends_the_question(self) -> None:
        """Answered later, it would number queues that this broker has taken messages for as the master."""
        self.send_quiet()
        self.fill_a_file()
        for port in (10911, 10912):  # it waits for an answer, or for the log
            slave = self.nodes.start(f"10.0.0.{port - 10900}", **SMALL | AS_SLAVE)
            self.nodes.pass_time(1)
            self.stall(port, 2.5)
            self.send_quiet(port - 10911)
            self.nodes.pass_time(1.5)
            numbers = slave.services._numbers
            self.assertFalse(numbers._under_way.called)
            numbers.stop()
            self.assertTrue(numbers._under_way.called)
            self.nodes.stop(slave)
