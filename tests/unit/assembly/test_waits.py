"""What a whole broker waits for before it answers a send: each role with each way to flush, its disk stalled and
its slave mute in turn.

The tests of `PutAcks` show what becomes of a put that waits for disk and slave; these show that a broker put
together from its configuration waits for what that says, and for nothing else.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.node.masterrole import DRAIN_LIMIT
from hatwisted.config.schema import BrokerConfig, BrokerRole, FlushDiskType
from hatwisted.store.disk.worker import InlineWorker
from tests.support.manualworker import ManualWorker
from tests.support.memorynode import MemoryNodes

OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SERVICE_NOT_AVAILABLE = 0, 10, 12, 14
MASTER = "10.0.0.1:10911"


class WaitTests(SynchronousTestCase):
    def start(self, role: BrokerRole, flush: FlushDiskType) -> None:
        """A master with one slave, both well."""
        self.nodes = MemoryNodes(self)
        self.disk = ManualWorker()
        self.disk_stalled = False
        parts = self.nodes.parts(
            "10.0.0.1", make_worker=lambda name, threads: self.disk if name == "flush" else InlineWorker()
        )
        self.nodes.clock.callLater(0, self.turn_disk)
        self.node = node = self.nodes.start(
            "10.0.0.1", parts, broker_role=role, flush_disk_type=flush, slave_timeout=3000
        )
        self.nodes.send(MASTER)
        self.slave = self.nodes.play_slave("10.0.0.2", "10.0.0.1:10912", node.parts.store.log.max_offset)

    def turn_disk(self) -> None:
        if not self.disk_stalled:
            self.disk.work()
        self.nodes.clock.callLater(0.01, self.turn_disk)

    def timed_send(self, properties: str = "") -> tuple[int, float]:
        """Code of the answer, and seconds until it came."""
        before = self.nodes.clock.seconds()
        code = self.nodes.send(MASTER, properties=properties)
        return code, round(self.nodes.clock.seconds() - before)

    def check(
        self, role: BrokerRole, flush: FlushDiskType, disk: tuple[int, int], slave: tuple[int, int]
    ) -> None:
        """disk, slave: how a send is answered, and after how many seconds, while the disk is stalled or the slave
        mute."""
        self.start(role, flush)
        well, both = (OK, 0), slave if slave[0] else disk
        if disk[0] and slave[0]:
            both = (slave[0], max(disk[1], slave[1]))
        for disk_stalled, slave_mute, wanted in (
            (False, False, well),
            (True, False, disk),
            (False, True, slave),
            (True, True, both),
            (False, False, well),
        ):
            self.disk_stalled, self.slave.acks = disk_stalled, not slave_mute
            self.assertEqual(self.timed_send(), wanted, (disk_stalled, slave_mute))
            self.assertEqual(self.timed_send("WAIT\x01false"), well, "a message that doesn't ask to wait")

    def test_a_stop_waits_so_long_for_a_slave_that_takes_nothing(self) -> None:
        self.start(BrokerRole.ASYNC_MASTER, FlushDiskType.ASYNC_FLUSH)
        self.slave.acks = False
        self.assertEqual(self.timed_send(), (OK, 0))
        stopped = self.node.stopService()
        self.nodes.pass_time(DRAIN_LIMIT - 0.5)
        self.assertNoResult(stopped)
        self.nodes.pass_time(1)
        self.successResultOf(stopped)

    def test_B03_a_broker_is_an_async_master_by_default_and_a_slave_takes_no_send(self) -> None:
        self.assertIs(BrokerConfig().broker_role, BrokerRole.ASYNC_MASTER)
        nodes = MemoryNodes(self)
        nodes.start("10.0.0.1")
        self.assertEqual(nodes.send(MASTER), OK)
        slave = nodes.start("10.0.0.2", broker_role=BrokerRole.SLAVE, broker_id=1)
        self.assertEqual(nodes.send("10.0.0.2:10911"), SERVICE_NOT_AVAILABLE)
        self.assertEqual(slave.parts.store.log.max_offset, 0)

    def test_B04_B06_async_master_with_async_flush_waits_for_nothing(self) -> None:
        self.check(BrokerRole.ASYNC_MASTER, FlushDiskType.ASYNC_FLUSH, (OK, 0), (OK, 0))

    def test_B04_B06_B82_async_master_with_sync_flush_waits_for_the_disk(self) -> None:
        self.check(BrokerRole.ASYNC_MASTER, FlushDiskType.SYNC_FLUSH, (FLUSH_DISK_TIMEOUT, 5), (OK, 0))

    def test_B03_B04_sync_master_with_async_flush_waits_for_the_slave(self) -> None:
        self.check(BrokerRole.SYNC_MASTER, FlushDiskType.ASYNC_FLUSH, (OK, 0), (FLUSH_SLAVE_TIMEOUT, 3))

    def test_B04_B69_B82_B83_sync_master_with_sync_flush_waits_for_both(self) -> None:
        self.check(
            BrokerRole.SYNC_MASTER,
            FlushDiskType.SYNC_FLUSH,
            (FLUSH_DISK_TIMEOUT, 5),
            (FLUSH_SLAVE_TIMEOUT, 3),
        )
