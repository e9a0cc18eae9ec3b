"""Two slaves that share a brokerId: the master's log names both."""

from types import SimpleNamespace
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.consumer.offsetsync import MAX_ADDRESS, OffsetSyncProcessors, asking_slave
from hatwisted.broker.node.slaveids import FORGET_AFTER, MAX_SLAVES, SlaveIds
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.ha.rig import LogCatcher


class SlaveIdsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.caught = LogCatcher(self)
        self.clock = Clock()
        self.ids = SlaveIds(self.clock)

    def rounds(self, count: int, *slaves: tuple[int, str, str]) -> None:
        for _ in range(count):
            for slave in slaves:
                self.ids.asked(*slave)
            self.clock.advance(10)

    def test_two_with_one_id_are_named_once_a_minute(self) -> None:
        self.rounds(12, (1, "10.0.0.2:10911", "10.0.0.2"), (1, "10.0.0.3:10911", "10.0.0.3"))
        first, _ = self.caught.texts("warn")
        self.assertTrue(
            first.startswith(
                "2 slaves of this master have brokerId 1: 10.0.0.2:10911 (asks from 10.0.0.2), "
                "10.0.0.3:10911 (asks from 10.0.0.3); give each an id of its own"
            ),
            first,
        )

    def test_two_with_one_address_are_told_apart_by_where_they_ask_from(self) -> None:
        self.rounds(1, (1, "127.0.0.1:10911", "10.0.0.2"), (1, "127.0.0.1:10911", "10.0.0.3"))
        self.assertEqual(len(self.caught.texts("warn")), 1)

    def test_ids_of_their_own_say_nothing(self) -> None:
        self.rounds(12, (1, "10.0.0.2:10911", "10.0.0.2"), (2, "10.0.0.3:10911", "10.0.0.3"))
        self.assertEqual(self.caught.texts("warn"), [])

    def test_a_slave_that_moved_says_nothing(self) -> None:
        self.rounds(3, (1, "10.0.0.2:10911", "10.0.0.2"))
        self.clock.advance(FORGET_AFTER)
        self.rounds(3, (1, "10.0.0.3:10911", "10.0.0.3"))
        self.assertEqual(self.caught.texts("warn"), [])

    def test_any_number_of_slaves_costs_bounded_memory(self) -> None:
        for number in range(MAX_SLAVES + 10):
            self.ids.asked(number, f"10.0.0.{number}:1", "h")
        self.assertEqual(len(self.ids._asked), MAX_SLAVES)


class AddressTests(SynchronousTestCase):
    def test_an_address_that_is_too_long_is_none(self) -> None:
        told: list[str] = []

        def asked(number: int, address: str, host: str) -> None:
            told.append(address)

        nothing: Any = None
        table = ConsumerOffsetTable(Clock())
        sync = OffsetSyncProcessors(table, nothing, nothing, lambda: 0, asked, nothing)
        connection: Any = SimpleNamespace(peer="10.0.0.2:4711")
        for length in (MAX_ADDRESS, MAX_ADDRESS + 1):
            ext = asking_slave(1, "h" * length)
            sync.all_offsets(connection, RemotingCommand(RequestCode.GET_ALL_CONSUMER_OFFSET, ext=ext))
        self.assertEqual(told, ["h" * MAX_ADDRESS])
