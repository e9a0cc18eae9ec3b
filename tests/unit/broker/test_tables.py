"""When the broker's tables get to disk."""

from pathlib import Path

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.role import Role
from hatwisted.broker.tables import DELAY_FLUSH_INTERVAL, BrokerTables, TableOptions
from hatwisted.broker.topic.topicconfig import FirstTopics
from hatwisted.config.schema import BrokerRole
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.errors import StoreError


class TablesTests(SynchronousTestCase):
    def begin(self, slave=False, **options):  # type: ignore[no-untyped-def]
        self.clock = Clock()
        self.log_synced = succeed(None)
        self.root = Path(self.mktemp()).absolute()
        first = FirstTopics(broker_name="broker-a")
        given = TableOptions(root=str(self.root), first=first, **options)
        role = Role(BrokerRole.SLAVE if slave else BrokerRole.ASYNC_MASTER, int(slave))
        tables = BrokerTables(
            self.clock, PosixFileSystem(), InlineWorker(), lambda: self.log_synced, given, role
        )
        tables.load()
        tables.start()
        self.addCleanup(tables.stop)
        return tables

    def file(self, name: str) -> bytes:
        path = self.root / "config" / name
        return path.read_bytes() if path.exists() else b""

    def test_flushDelayOffsetInterval_and_flushConsumerOffsetInterval_are_kept(self) -> None:
        tables = self.begin(delay_interval=3.0, offset_interval=7.0)
        tables.delays.set(1, 5)
        tables.offsets.commit("g", "T", 0, 9)
        self.clock.advance(2.9)
        self.assertEqual((self.file("delayOffset.json"), self.file("consumerOffset.json")), (b"", b""))
        self.clock.advance(0.1)
        self.assertIn(b"1:5", self.file("delayOffset.json"))
        self.clock.advance(3.9)
        self.assertEqual(self.file("consumerOffset.json"), b"")
        self.clock.advance(0.1)
        self.assertIn(b"0:9", self.file("consumerOffset.json"))

    def test_delay_offsets_are_written_every_10_s_as_by_RocketMQ(self) -> None:
        tables = self.begin()
        tables.delays.set(1, 5)
        self.clock.advance(DELAY_FLUSH_INTERVAL - 0.1)
        self.assertEqual(self.file("delayOffset.json"), b"")
        self.clock.advance(0.1)
        self.assertIn(b"1:5", self.file("delayOffset.json"))

    def test_a_slave_writes_delay_offsets_when_its_master_has_other_ones(self) -> None:
        tables = self.begin(slave=True)
        text = b'{"offsetTable":{1:5}}'
        tables.delays.take(text)
        self.assertEqual(self.file("delayOffset.json"), text)
        (self.root / "config" / "delayOffset.json").unlink()
        tables.delays.take(text)
        self.assertEqual(self.file("delayOffset.json"), b"")

    def test_progress_is_written_after_the_log_that_it_was_made_in(self) -> None:
        """Or a failure of power leaves it ahead of the messages that it counts as delivered or checked."""
        tables = self.begin(delay_interval=3.0, offset_interval=3.0)
        self.log_synced = Deferred()
        tables.delays.set(1, 5)
        tables.offsets.commit("g", "T", 0, 9)
        self.clock.advance(3.0)
        self.assertEqual((self.file("delayOffset.json"), self.file("consumerOffset.json")), (b"", b""))
        tables.delays.set(1, 6)
        self.log_synced.callback(None)
        self.assertIn(b"1:5", self.file("delayOffset.json"))
        self.assertIn(b"0:9", self.file("consumerOffset.json"))

    def test_progress_waits_while_the_log_cant_be_synced(self) -> None:
        tables = self.begin(delay_interval=3.0)
        self.log_synced = fail(StoreError("no descriptor"))
        tables.delays.set(1, 5)
        self.clock.advance(3.0)
        self.assertEqual(self.file("delayOffset.json"), b"")
        self.log_synced = succeed(None)
        self.clock.advance(3.0)
        self.assertIn(b"1:5", self.file("delayOffset.json"))
