"""Which status a put gets, line by line and for both lines together."""

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from hatwisted.broker.put.newtopics import NewTopics
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.topic.topicconfig import FirstTopics, TopicConfigTable
from hatwisted.ha.interfaces import IReplication
from hatwisted.store.interfaces import IFlushPolicy
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.store.log.waitline import WaitLine
from hatwisted.wire.record import make_record
from hatwisted.wire.storedrecord import Record
from tests.unit.ha.rig import LogCatcher


@implementer(IFlushPolicy)
class ManualFlush:
    """A flush policy whose disk moves when the test says so."""

    def __init__(self, clock: Clock, waits: bool) -> None:
        self.waits = waits
        self.line = WaitLine(clock)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def wait(self, first: int, last: int, deadline: float) -> Deferred[int]:
        assert first <= last, "a wait ends where its last put does"
        return self.line.wait(first, deadline)


@implementer(IReplication)
class ManualReplication:
    """Replication whose slave acks when the test says so."""

    timeout = 5.0

    def __init__(self, clock: Clock) -> None:
        self.line = WaitLine(clock)
        self.usable_up_to = 1 << 60
        self.fall_behind = 0
        self.reason: str | None = None

    def is_slave_ok(self, end: int) -> bool:
        return end <= self.usable_up_to

    def refusal(self) -> str | None:
        return self.reason

    def wait(self, first: int, last: int, deadline: float) -> Deferred[int]:
        assert first <= last, "a wait ends where its last put does"
        return self.line.wait(first, deadline)


def appended(end: int, wait: bool = True) -> Put:
    put = Put("T", 0, ((0, b"x", b""),), b"\0" * 8, 0, wait=wait)
    put.offset, put.end = end - 10, end
    return put


class PutAcksTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.settled: list[tuple[int, PutStatus | None]] = []

    def put_acks(self, sync_flush: bool = False, sync_master: bool = False) -> PutAcks:
        self.flush = ManualFlush(self.clock, sync_flush)
        self.slave = ManualReplication(self.clock)
        return PutAcks(self.clock, self.flush, 5.0, self.slave if sync_master else None)

    def settle(self, acks: PutAcks, *puts: Put) -> None:
        acks.settle(puts, lambda done: self.settled.extend((put.end, put.status) for put in done))

    def test_B79_async_master_with_async_flush_waits_for_nobody(self) -> None:
        self.settle(self.put_acks(), appended(10))
        self.assertEqual(self.settled, [(10, PutStatus.PUT_OK)])

    def test_B68_wait_false_returns_at_once(self) -> None:
        acks = self.put_acks(sync_master=True)
        self.settle(acks, appended(10, wait=False), appended(20))
        self.assertEqual(self.settled, [(10, PutStatus.PUT_OK)])
        self.slave.line.advance(20)
        self.assertEqual(self.settled[1:], [(20, PutStatus.PUT_OK)])

    def test_B77_an_ack_settles_exactly_what_it_covers(self) -> None:
        acks = self.put_acks(sync_master=True)
        self.settle(acks, appended(10), appended(20), appended(30))
        self.slave.line.advance(20)
        self.assertEqual(self.settled, [(10, PutStatus.PUT_OK), (20, PutStatus.PUT_OK)])
        self.assertEqual(acks.waiting, 1)
        self.slave.line.advance(30)
        self.assertEqual(self.settled[2:], [(30, PutStatus.PUT_OK)])
        self.assertEqual(acks.waiting, 0)

    def test_B75_what_is_not_covered_times_out_at_the_first_deadline(self) -> None:
        acks = self.put_acks(sync_master=True)
        self.settle(acks, appended(10), appended(20))
        self.clock.advance(3)
        self.slave.line.advance(10)
        self.clock.advance(1.9)
        self.assertEqual(self.settled, [(10, PutStatus.PUT_OK)])
        self.clock.advance(0.1)
        self.assertEqual(self.settled[1:], [(20, PutStatus.FLUSH_SLAVE_TIMEOUT)])

    def test_B71_no_usable_slave_answers_at_once(self) -> None:
        acks = self.put_acks(sync_master=True)
        self.slave.usable_up_to = 10
        self.settle(acks, appended(10), appended(20))
        self.assertEqual(self.settled, [(20, PutStatus.SLAVE_NOT_AVAILABLE)])

    def test_B82_stalled_fsync_is_flush_disk_timeout(self) -> None:
        acks = self.put_acks(sync_flush=True)
        self.settle(acks, appended(10))
        self.clock.advance(5)
        self.assertEqual(self.settled, [(10, PutStatus.FLUSH_DISK_TIMEOUT)])

    def test_B82_puts_that_pass_the_slaves_by_wait_for_the_disk_as_long_as_others(self) -> None:
        acks = self.put_acks(sync_flush=True, sync_master=True).without_slaves()
        self.settle(acks, appended(10), appended(20))
        self.flush.line.advance(10)
        self.assertEqual(self.settled, [(10, PutStatus.PUT_OK)])
        self.clock.advance(4.9)
        self.assertEqual(self.settled[1:], [])
        self.clock.advance(0.1)
        self.assertEqual(self.settled[1:], [(20, PutStatus.FLUSH_DISK_TIMEOUT)])

    def test_every_put_that_waits_is_counted_until_it_is_settled(self) -> None:
        acks = self.put_acks(sync_master=True)
        self.settle(acks, appended(10), appended(20))
        self.settle(acks, appended(30))
        self.assertEqual(acks.waiting, 3)
        self.slave.line.advance(10)
        self.assertEqual(acks.waiting, 2)
        self.clock.advance(5)
        self.assertEqual(acks.waiting, 0)

    def test_B69_both_lines_are_required(self) -> None:
        acks = self.put_acks(sync_flush=True, sync_master=True)
        self.settle(acks, appended(10))
        self.slave.line.advance(10)
        self.assertEqual(self.settled, [])
        self.flush.line.advance(10)
        self.assertEqual(self.settled, [(10, PutStatus.PUT_OK)])

    def test_B69_slave_failure_outweighs_disk_failure(self) -> None:
        acks = self.put_acks(sync_flush=True, sync_master=True)
        self.settle(acks, appended(10))
        self.clock.advance(5)
        self.assertEqual(self.settled, [(10, PutStatus.FLUSH_SLAVE_TIMEOUT)])

    def late(self, *, flush_timeout: float, slave_timeout: float) -> None:
        """A put that waits for both lines, which differ in their patience."""
        self.flush, self.slave = ManualFlush(self.clock, True), ManualReplication(self.clock)
        self.slave.timeout = slave_timeout
        self.settle(PutAcks(self.clock, self.flush, flush_timeout, self.slave), appended(10))

    def test_B69_disk_late_then_slave_stored(self) -> None:
        self.late(flush_timeout=2, slave_timeout=5)
        self.clock.advance(2)
        self.assertEqual(self.settled, [])
        self.slave.line.advance(10)
        self.assertEqual(self.settled, [(10, PutStatus.FLUSH_DISK_TIMEOUT)])

    def test_B69_disk_late_then_slave_late(self) -> None:
        self.late(flush_timeout=2, slave_timeout=5)
        self.clock.advance(2)
        self.flush.line.advance(10)
        self.clock.advance(3)
        self.assertEqual(self.settled, [(10, PutStatus.FLUSH_SLAVE_TIMEOUT)])

    def test_B69_slave_late_then_disk_flushed_or_late(self) -> None:
        for flushes in (True, False):
            self.settled.clear()
            self.late(flush_timeout=5, slave_timeout=2)
            self.clock.advance(2)
            self.assertEqual(self.settled, [])
            if flushes:
                self.flush.line.advance(10)
            self.clock.advance(3)
            self.assertEqual(self.settled, [(10, PutStatus.FLUSH_SLAVE_TIMEOUT)])

    def test_B69_disk_late_and_no_usable_slave(self) -> None:
        acks = self.put_acks(sync_flush=True, sync_master=True)
        self.slave.usable_up_to = 0
        self.settle(acks, appended(10))
        self.assertEqual(self.settled, [])
        self.clock.advance(5)
        self.assertEqual(self.settled, [(10, PutStatus.SLAVE_NOT_AVAILABLE)])

    def test_B69_each_put_gets_what_both_lines_say_of_it(self) -> None:
        for disk, slave in ((10, 30), (30, 10), (20, 20), (0, 20), (20, 0)):
            self.settled.clear()
            acks = self.put_acks(sync_flush=True, sync_master=True)
            self.settle(acks, appended(10), appended(20), appended(30))
            self.flush.line.advance(disk)
            self.slave.line.advance(slave)
            self.clock.advance(5)
            expected = [
                PutStatus.FLUSH_SLAVE_TIMEOUT
                if end > slave
                else PutStatus.FLUSH_DISK_TIMEOUT
                if end > disk
                else PutStatus.PUT_OK
                for end in (10, 20, 30)
            ]
            self.assertEqual(self.settled, list(zip((10, 20, 30), expected, strict=True)))
            self.assertEqual(acks.waiting, 0)

    def test_B83_flushed_but_mute_slave_is_flush_slave_timeout(self) -> None:
        acks = self.put_acks(sync_flush=True, sync_master=True)
        self.settle(acks, appended(10))
        self.flush.line.advance(10)
        self.clock.advance(5)
        self.assertEqual(self.settled, [(10, PutStatus.FLUSH_SLAVE_TIMEOUT)])
        self.assertEqual(acks.waiting, 0)

    def test_a_slave_is_lacking_only_where_puts_wait_for_one_and_none_is_near_enough(self) -> None:
        acks = self.put_acks(sync_master=True)
        self.slave.usable_up_to = 10
        self.assertEqual([acks.lacks_slave(10), acks.lacks_slave(11)], [False, True])
        self.assertFalse(self.put_acks().lacks_slave(11))

    def test_refused_puts_are_settled_with_their_own_status(self) -> None:
        acks = self.put_acks(sync_master=True)
        bad = Put("T", 0, ((0, b"x", b""),), b"\0" * 8, 0)
        bad.refuse(PutStatus.MESSAGE_ILLEGAL, "too big")
        self.settle(acks, bad)
        self.assertEqual(self.settled, [(-1, PutStatus.MESSAGE_ILLEGAL)])


class FailingAnswersTests(SynchronousTestCase):
    """An answer that can't be given is logged, and costs no other put its own."""

    def setUp(self) -> None:
        self.caught = LogCatcher(self)
        self.clock = Clock()
        self.settled: list[int] = []

    def answer(self, puts: Sequence[Put]) -> None:
        for put in puts:
            self.settled.append(put.end)
            if put.end == 10:
                raise ZeroDivisionError("no answer")

    def assert_logged(self) -> None:
        (logged,) = self.flushLoggedErrors(ZeroDivisionError)
        self.assertEqual(logged.getErrorMessage(), "no answer")
        self.assertEqual(self.caught.texts("critical"), ["answering 1 puts of topic T failed"])

    def test_where_disk_and_slave_are_waited_for(self) -> None:
        for disk_first in (False, True):
            self.settled.clear()
            self.caught.events.clear()
            flush, slave = ManualFlush(self.clock, True), ManualReplication(self.clock)
            acks = PutAcks(self.clock, flush, 5.0, slave)
            acks.settle([appended(10), appended(20), appended(30)], self.answer)
            first, second = (flush.line, slave.line) if disk_first else (slave.line, flush.line)
            first.advance(30)
            for end in (10, 20, 30):
                second.advance(end)
            self.assertEqual((self.settled, acks.waiting), ([10, 20, 30], 0))
            self.assert_logged()

    def test_what_a_line_has_not_reached_yet_is_waited_for(self) -> None:
        slave = ManualReplication(self.clock)
        acks = PutAcks(self.clock, ManualFlush(self.clock, False), 5.0, slave)
        acks.settle([appended(10), appended(20)], self.answer)
        slave.line.advance(10)
        self.assert_logged()
        slave.line.advance(20)
        self.assertEqual((self.settled, acks.waiting), ([10, 20], 0))

    def test_where_a_new_topic_is_waited_for(self) -> None:
        topics = TopicConfigTable(self.clock, FirstTopics(broker_name="broker-a"))
        kept: Deferred[object] = Deferred()
        new = NewTopics(self.clock, topics, lambda: kept)
        new.start()
        acks = PutAcks(self.clock, ManualFlush(self.clock, False), 5.0, None, new_topics=new)
        topics.ensure("T", 4)
        for end in (10, 20, 30):
            acks.settle([appended(end)], self.answer)
        self.assertEqual((self.settled, new.held), ([], 3))
        kept.callback(None)
        self.assertEqual((self.settled, new.held), ([10, 20, 30], 0))
        self.assert_logged()

    def test_where_some_of_a_read_go_to_a_new_topic(self) -> None:
        topics = TopicConfigTable(self.clock, FirstTopics(broker_name="broker-a"))
        new = NewTopics(self.clock, topics, Deferred)
        new.start()
        acks = PutAcks(self.clock, ManualFlush(self.clock, False), 5.0, None, new_topics=new)
        topics.ensure("New", 4)
        other = appended(20)
        other.topic = "New"
        acks.settle([appended(10), other], self.answer)
        self.assert_logged()
        self.assertEqual((self.settled, new.held), ([10], 1))
        new.stop()
        self.assertEqual((self.settled, new.held), ([10, 20], 0))

    def test_where_nothing_is_waited_for(self) -> None:
        slave = ManualReplication(self.clock)
        acks = PutAcks(self.clock, ManualFlush(self.clock, False), 5.0, slave)
        acks.settle([appended(10, wait=False), appended(20)], self.answer)
        self.assert_logged()
        slave.line.advance(20)
        self.assertEqual((self.settled, acks.waiting), ([10, 20], 0))


class MissingCopiesTests(SynchronousTestCase):
    """What a master's log says of puts that no slave has."""

    def setUp(self) -> None:
        self.caught = LogCatcher(self)
        self.clock = Clock()
        self.slave = ManualReplication(self.clock)
        self.acks = PutAcks(self.clock, ManualFlush(self.clock, False), 5.0, self.slave, self.record)

    def record(self, offset: int) -> Record | None:
        if offset >= 1 << 20:
            raise LookupError(offset)
        return None if offset == 0 else make_record("Orders", b"x", raw_properties=self.properties)

    def put(self, *ends: int, properties: bytes = b"KEYS\x01k\x02TAGS\x01red") -> None:
        self.properties = properties
        puts = [
            Put(
                "Orders",
                0,
                (),
                b"\x0a\0\0\x07\0\0\x30\x39",
                0,
                offset=end - 10,
                end=end,
            )
            for end in ends
        ]
        self.acks.settle(puts, lambda done: None)

    def test_the_first_is_reported_with_topic_tags_offset_and_client(self) -> None:
        self.put(110)
        self.clock.advance(5)
        self.clock.advance(0)
        self.assertEqual(
            self.caught.texts("error"),
            [
                "put answered FLUSH_SLAVE_TIMEOUT, no slave has acknowledged it in time: topic Orders, tags red, "
                "commit log offset 100, client 10.0.0.7:12345"
            ],
        )

    def test_one_line_a_minute_and_status_counts_the_others(self) -> None:
        self.slave.usable_up_to = 0
        for number in range(1, 601):
            self.put(number * 20, number * 20 + 10, properties=b"")
            self.clock.advance(0.125)
        first, second = self.caught.texts("error")
        self.assertIn("SLAVE_NOT_AVAILABLE, no slave is connected", first)
        self.assertIn("tags none, commit log offset 10, client", first)
        self.assertTrue(first.endswith("(1 more like it were not logged)"), first)
        self.assertTrue(second.endswith(f"({2 * 480 - 2 + 1} more like it were not logged)"), second)

    def test_each_status_has_a_line_of_its_own(self) -> None:
        self.put(110)
        self.clock.advance(5)
        self.slave.usable_up_to = 0
        self.put(120)
        late, lacking = self.caught.texts("error")
        self.assertIn("put answered FLUSH_SLAVE_TIMEOUT", late)
        self.assertIn("put answered SLAVE_NOT_AVAILABLE", lacking)
        self.assertFalse(lacking.endswith("were not logged)"), lacking)

    def test_a_record_that_cannot_be_read_costs_its_tags_alone(self) -> None:
        self.slave.usable_up_to = 0
        self.put(10)
        self.clock.advance(60)
        self.put((1 << 20) + 10)
        for line in self.caught.texts("error"):
            self.assertIn("topic Orders, tags unknown, commit log offset", line)
        self.assertEqual(len(self.caught.texts("error")), 2)

    def test_puts_that_a_slave_has_say_nothing(self) -> None:
        self.put(110)
        self.slave.line.advance(110)
        self.clock.advance(10)
        self.assertEqual(self.caught.texts("error"), [])
