"""Messages the broker itself puts: stored as given, settled as every put, refused one by one."""

from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from hatwisted.broker.put.innerput import InnerMessage, InnerPuts
from hatwisted.broker.put.putack import PutAcks
from hatwisted.store.lifecycle.diskwatermark import DiskWatermark
from hatwisted.store.log.put import PutStatus
from hatwisted.wire.record import decode_record
from tests.unit.broker.rig import HOST, BrokerRig
from tests.unit.broker.test_putack import ManualReplication

V6_HOST = b"\xfe" + bytes(15) + b"\0\0\x2a\x9f"


def message(**fields) -> InnerMessage:  # type: ignore[no-untyped-def]
    given = {"topic": "T", "queue_id": 2, "body": b"b", "properties": {"TAGS": "t"}, "born_timestamp": 5}
    return InnerMessage(**given | fields)


class InnerPutTests(TestCase):
    def setUp(self) -> None:
        self.rig = BrokerRig(self)
        self.store = self.rig.store
        self.replication = ManualReplication(Clock())
        self.acks = PutAcks(self.rig.clock, self.store.flush, 5.0, self.replication)
        self.puts = InnerPuts(self.store, self.acks.without_slaves(), HOST)
        self.addCleanup(self.rig.turn)

    def record(self, put):  # type: ignore[no-untyped-def]
        return decode_record(self.store.log.read(put.offset, 1 << 20))

    def test_every_field_is_stored(self) -> None:
        put = self.successResultOf(
            self.puts.put(
                message(
                    flag=3, sys_flag=8, born_host=V6_HOST, reconsume_times=4, prepared_offset=77, body=b"xyz"
                )
            )
        )
        record = self.record(put)
        self.assertEqual((put.status, put.queue_offset, put.entries), (PutStatus.PUT_OK, 0, ()))
        self.assertEqual((record.topic, record.queue_id, record.flag, record.body), ("T", 2, 3, b"xyz"))
        self.assertEqual((record.sys_flag & 0xC, record.born_host.pack()), (8, V6_HOST))
        self.assertEqual((record.reconsume_times, record.prepared_transaction_offset), (4, 77))
        self.assertEqual((record.properties, record.born_timestamp), ({"TAGS": "t"}, 5))

    def test_raw_properties_are_stored_as_they_are_and_the_broker_is_the_born_host(self) -> None:
        put = self.successResultOf(self.puts.put(message(properties=b"b\x01\xff\x02a\x011")))
        record = self.record(put)
        self.assertEqual((record.raw_properties, record.born_host.pack()), (b"b\x01\xff\x02a\x011", HOST))

    def test_one_that_cannot_be_stored_leaves_its_neighbours_alone(self) -> None:
        fired = self.puts.many(
            [message(), message(properties={"a\x01": "b"}), message(body=bytes(5 << 20)), message()]
        )
        first, bad, big, last = map(self.successResultOf, fired)
        self.assertEqual([put.status for put in (first, last)], [PutStatus.PUT_OK] * 2)
        self.assertEqual((first.queue_offset, last.queue_offset), (0, 1))
        self.assertEqual([put.status for put in (bad, big)], [PutStatus.MESSAGE_ILLEGAL] * 2)
        self.assertIn("can't be stored", bad.reason)
        self.assertEqual(self.store.stats.put_total, 2)

    def test_each_is_settled_by_the_slave(self) -> None:
        put = InnerPuts(self.store, self.acks, HOST).put(message())
        self.assertNoResult(put)
        self.replication.line.advance(self.store.log.max_offset)
        self.assertEqual(self.successResultOf(put).status, PutStatus.PUT_OK)

    def test_a_broker_that_takes_nothing_says_why(self) -> None:
        self.replication.reason = "too few slaves"
        waiting = self.successResultOf(InnerPuts(self.store, self.acks, HOST).put(message()))
        self.assertEqual(
            (waiting.status, waiting.reason), (PutStatus.SERVICE_NOT_AVAILABLE, "too few slaves")
        )
        self.store.log.stopped_reason = "the disk is full"
        refused = self.successResultOf(self.puts.put(message()))
        self.assertEqual(
            (refused.status, refused.reason), (PutStatus.SERVICE_NOT_AVAILABLE, "the disk is full")
        )
        self.store.log.stopped_reason = None

    def test_nothing_is_stored_while_the_disk_is_too_full(self) -> None:
        self.patch(DiskWatermark, "full_reason", "the disk is 91 % full")
        refused = self.successResultOf(self.puts.put(message()))
        self.assertEqual(
            (refused.status, refused.reason), (PutStatus.SERVICE_NOT_AVAILABLE, "the disk is 91 % full")
        )
        self.assertEqual(self.store.log.max_offset, 0)
