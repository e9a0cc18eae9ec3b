"""What a broker's progress files may say after a failure of power: nothing about messages that went with it."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.schema import BrokerRole, FlushDiskType
from hatwisted.store.disk.worker import InlineWorker
from tests.support.manualworker import ManualWorker
from tests.support.memorynode import MemoryNodes

MASTER = "10.0.0.1:10911"


class ProgressFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.disk = ManualWorker()
        parts = self.nodes.parts(
            "10.0.0.1", make_worker=lambda name, threads: self.disk if name == "flush" else InlineWorker()
        )
        self.node = self.nodes.start(
            "10.0.0.1",
            parts,
            broker_role=BrokerRole.ASYNC_MASTER,
            flush_disk_type=FlushDiskType.ASYNC_FLUSH,
            flush_delay_offset_interval=5000,
            message_delay_level="1s",
        )
        self.addCleanup(self.turn_disk)

    def turn_disk(self) -> None:
        """From now on the disk works by itself."""
        self.disk.work()
        self.nodes.clock.callLater(0.01, self.turn_disk)

    def delays(self) -> bytes:
        path = Path(self.nodes.folder / "10.0.0.1" / "config" / "delayOffset.json")
        return path.read_bytes() if path.exists() else b""

    def test_a_delivery_counts_on_the_disk_once_what_was_delivered_is_there(self) -> None:
        """Under ASYNC_FLUSH nobody has waited for it."""
        log = self.node.parts.store.log
        self.assertEqual(self.nodes.send(MASTER, properties="DELAY\x011"), 0)
        self.nodes.pass_time(8)
        self.assertEqual(self.node.parts.tables.delays.get(1), 1)
        self.assertEqual((self.delays(), log.flushed_offset), (b"", 0))
        self.turn_disk()
        self.nodes.pass_time(1)
        self.assertIn(b"1:1", self.delays())
        self.assertEqual(log.flushed_offset, log.max_offset)
