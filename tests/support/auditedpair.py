"""A master and its slave, whole nodes in memory, to compare their logs: bytes of either are changed at rest."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.schema import BrokerRole
from hatwisted.wire.layout import QUEUE_ENTRY
from tests.support.copies import flip
from tests.support.memorynode import NAME_SERVER, MemoryNodes

MASTER, SLAVE = "10.0.0.1", "10.0.0.2"


class AuditedPair(SynchronousTestCase):
    """A master with messages, and a slave that has copied them; `slave_keys`: of its configuration."""

    slave_keys: dict[str, object] = {}

    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.nodes.start_name_server()
        self.master = self.nodes.start(MASTER, namesrv_addr=NAME_SERVER)
        self.slave = self.nodes.start(
            SLAVE, namesrv_addr=NAME_SERVER, broker_role=BrokerRole.SLAVE, broker_id=1, **self.slave_keys
        )
        self.nodes.pass_time(12)
        for number in range(40):
            self.assertEqual(self.nodes.send(f"{MASTER}:10911", bytes([number]) * 200), 0)
        self.nodes.pass_time(1)
        self.end = self.master.parts.store.log.max_offset
        self.assertEqual(self.slave.parts.store.log.max_offset, self.end)

    def spoil(self, host: str, offset: int) -> None:
        """Change one byte of the log at rest, or change it back."""
        flip(self.nodes.folder / host, offset)

    def place(self, number: int) -> tuple[int, int]:
        """Where the message with that queue offset begins and ends in the log."""
        offset, size, _ = QUEUE_ENTRY.unpack(self.master.parts.store.queues.find("T", 0).read(number, 1))
        return offset, offset + size
