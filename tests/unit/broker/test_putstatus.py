"""What a producer is told of disk and slaves, and what others notice while it waits: sends through the whole
broker into a real log, with a disk and a slave that move when the test says so."""

from twisted.internet.defer import gatherResults, inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.put.putack import MAX_WAITING_PUTS, PutAcks
from hatwisted.broker.put.responsecode import response_code
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.send.sendmessage import SEND_CODES, SendProcessor
from hatwisted.store.log.put import PutStatus
from hatwisted.wire.batch import encode_batch
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.broker.rig import BrokerRig, records
from tests.unit.broker.test_putack import ManualFlush, ManualReplication

BATCH = 320
FIELDS = dict(zip("abcdefghijkm", ["p", "T", "TBW102", *"4000", "0", "", "0", "false", "false"], strict=True))
NO_WAIT = {"i": "WAIT\x01false"}


class PutStatusTests(TestCase):
    timeout = 50

    def setUp(self) -> None:
        self.rig = BrokerRig(self)
        self.addCleanup(self.rig.turn)
        self.log = self.rig.store.log
        self.disk = ManualFlush(self.rig.clock, waits=True)
        self.slave = ManualReplication(self.rig.clock)
        self.acks = PutAcks(self.rig.clock, self.disk, 5.0, self.slave)
        state = SendState(lambda: 6, "127.0.0.1")
        self.sends = SendProcessor(self.rig.store, self.acks, self.rig.tables, self.rig.identity, state)
        self.rig.table.register_batch(SEND_CODES, self.sends.process)

    def send(self, body=b"hello", code=310, **fields):  # type: ignore[no-untyped-def]
        return self.rig.client.call(
            self.rig.address, RemotingCommand(code, ext=FIELDS | fields, body=body), 1000
        )

    @inlineCallbacks
    def waiting(self, count=1, **fields):  # type: ignore[no-untyped-def]
        """Sends that wait for disk and slave: their answers' Deferreds."""
        answers = [self.send(**fields) for _ in range(count)]
        goal = self.acks.waiting + count
        yield self.rig.until(lambda: self.acks.waiting >= goal)
        return answers

    @inlineCallbacks
    def test_B80_each_status_that_stored_the_message_has_its_code_and_carries_the_place(self):  # type: ignore[no-untyped-def]
        for code, disk, slave in ((0, True, True), (10, False, True), (12, True, False), (12, False, False)):
            begin = self.log.max_offset
            (answer,) = yield self.waiting()
            if disk:
                self.disk.line.advance(self.log.max_offset)
            if slave:
                self.slave.line.advance(self.log.max_offset)
            self.rig.clock.advance(5.1)
            answer = yield answer
            self.assertEqual(answer.code, code)
            self.assertEqual(int(answer.ext["msgId"][-16:], 16), begin)
            self.assertEqual((answer.ext["queueId"], set(answer.ext) >= {"queueOffset"}), ("0", True))
        self.slave.usable_up_to = 0
        self.disk.line.advance(1 << 30)
        answer = yield self.send()
        self.assertEqual((answer.code, answer.ext["queueOffset"]), (11, "4"))

    def test_B80_a_status_without_a_code_of_its_own_is_SYSTEM_ERROR(self) -> None:
        own = [
            (PutStatus.PUT_OK, 0),
            (PutStatus.FLUSH_DISK_TIMEOUT, 10),
            (PutStatus.FLUSH_SLAVE_TIMEOUT, 12),
            (PutStatus.SLAVE_NOT_AVAILABLE, 11),
            (PutStatus.SERVICE_NOT_AVAILABLE, 14),
            (PutStatus.MESSAGE_ILLEGAL, 13),
            (PutStatus.PROPERTIES_SIZE_EXCEEDED, 13),
        ]
        self.assertEqual(
            {status: response_code(status) for status in PutStatus}, dict.fromkeys(PutStatus, 1) | dict(own)
        )

    @inlineCallbacks
    def test_B80_what_was_not_stored_carries_no_place(self):  # type: ignore[no-untyped-def]
        for code, answer in ((13, self.send(bytes(5 << 20))), (1, self.send(e="99"))):
            answer = yield answer
            self.assertEqual((answer.code, answer.ext.get("msgId")), (code, None))

    @inlineCallbacks
    def test_B68_only_WAIT_absent_or_true_waits(self):  # type: ignore[no-untyped-def]
        others = "MAX_WAIT\x015\x02WAIT\x01false"
        for text in ("WAIT\x01false", "TAGS\x01a\x02WAIT\x01FALSE\x02", "WAIT\x01yes", others):
            self.assertEqual((yield self.send(i=text)).code, 0)
        for value in (b"false", b"no"):
            answer = yield self.send(
                encode_batch([(0, b"m", b"")]), BATCH, m="true", i=f"WAIT\x01{value.decode()}\x02"
            )
            self.assertEqual(answer.code, 0)
        for text in ("", "WAIT\x01true", "WAIT\x01True\x02"):
            (answer,) = yield self.waiting(i=text)
            self.disk.line.advance(self.log.max_offset)
            self.slave.line.advance(self.log.max_offset)
            self.assertEqual((yield answer).code, 0)

    @inlineCallbacks
    def test_too_few_copies_in_sync_refuse_before_the_append_but_not_what_waits_for_nobody(self):  # type: ignore[no-untyped-def]
        self.slave.reason = "1 copies in sync, 2 needed"
        refused, stored = yield gatherResults([self.send(), self.send(b"quiet", **NO_WAIT)])
        self.assertEqual((refused.code, refused.ext.get("msgId")), (1, None))
        self.assertIn("1 copies in sync, 2 needed", refused.remark)
        self.assertEqual((stored.code, int(stored.ext["msgId"][-16:], 16)), (0, 0))
        self.rig.turn()
        (record,) = records((yield self.rig.pull()))
        self.assertEqual(record.body, b"quiet")

    @inlineCallbacks
    def test_too_many_waiting_puts_are_busy_but_not_what_waits_for_nobody(self):  # type: ignore[no-untyped-def]
        self.sends._acks.waiting = MAX_WAITING_PUTS
        refused, stored = yield gatherResults([self.send(), self.send(**NO_WAIT)])
        self.assertEqual((refused.code, stored.code), (2, 0))
        self.assertEqual(refused.remark, "[REJECTREQUEST]1000000 puts are waiting for disk or slave")

    @inlineCallbacks
    def test_half_messages_refused_leave_nothing_behind(self):  # type: ignore[no-untyped-def]
        self.slave.reason = "1 copies in sync, 2 needed"
        answers = yield gatherResults([self.send(i="TRAN_MSG\x01true") for _ in range(5)])
        self.assertEqual({answer.code for answer in answers}, {1})
        self.assertEqual((self.log.max_offset, self.acks.waiting), (0, 0))

    @inlineCallbacks
    def test_B81_a_message_is_readable_before_and_after_its_producer_got_12(self):  # type: ignore[no-untyped-def]
        (answer,) = yield self.waiting()
        self.rig.turn()
        self.assertEqual([record.body for record in records((yield self.rig.pull()))], [b"hello"])
        self.assertFalse(answer.called)
        self.rig.clock.advance(5.1)
        self.assertEqual((yield answer).code, 12)
        self.assertEqual([record.body for record in records((yield self.rig.pull()))], [b"hello"])

    @inlineCallbacks
    def test_B72_B74_B85_100_waiting_puts_hold_up_neither_reads_nor_other_puts(self):  # type: ignore[no-untyped-def]
        answers = yield self.waiting(100)
        self.assertEqual((yield self.send(b"quiet", **NO_WAIT)).code, 0)
        self.rig.turn()
        self.assertEqual(len(records((yield self.rig.pull(32 * 3)))), 5)
        self.disk.line.advance(self.log.max_offset)
        self.slave.line.advance(self.log.max_offset)
        self.assertEqual({answer.code for answer in (yield gatherResults(answers))}, {0})
        self.assertEqual(self.acks.waiting, 0)

    @inlineCallbacks
    def test_a_waiting_put_keeps_none_of_its_message(self):  # type: ignore[no-untyped-def]
        held, begin = [], self.acks._begin
        self.patch(self.acks, "_begin", lambda puts, settled: held.extend(puts) or begin(puts, settled))
        (answer,) = yield self.waiting(body=bytes(100_000))
        self.assertEqual([(put.entries, put.token.body, put.token.ext) for put in held], [((), b"", {})])
        self.rig.clock.advance(5.1)
        self.assertEqual((yield answer).code, 12)
