"""Half messages and END_TRANSACTION (37) over a real store."""

from twisted.internet import task
from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.put.innerput import InnerPuts
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.send.sendmessage import SEND_CODES, SendProcessor
from hatwisted.broker.transaction.endtransaction import EndTransactionProcessor, refuse_end_transaction
from hatwisted.wire.batch import encode_batch
from hatwisted.wire.layout import BODY_AT, HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC
from hatwisted.wire.record import decode_record, encode_record, make_record
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.broker.rig import HOST, NOW, BrokerRig
from tests.unit.broker.test_putack import ManualReplication
from tests.unit.broker.test_sendmessage import FIELDS, V2

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
END = 37
PREPARED = "TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01U1\x02WAIT\x01true\x02DELAY\x013\x02TAGS\x01t"


class TransactionCase(TestCase):
    """Verbs: `begin` a broker, `send_half`, `end`, `records`."""

    timeout = 50
    replication: ManualReplication | None = None

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.clock.advance(NOW)
        self.begin()

    def begin(self, root=None):  # type: ignore[no-untyped-def]
        self.rig = BrokerRig(self, self.clock, root=root, delay_levels=(1000, 5000, 10_000))
        self.addCleanup(self.rig.turn)
        self.store, self.tables = self.rig.store, self.rig.tables
        acks = PutAcks(self.clock, self.store.flush, 5.0, self.replication)
        self.puts = InnerPuts(self.store, acks, HOST)
        self.state = SendState(lambda: 6, "127.0.0.1")
        sends = SendProcessor(self.store, acks, self.tables, self.rig.identity, self.state)
        self.rig.table.register_batch(SEND_CODES, sends.process)
        self.ends = EndTransactionProcessor(self.clock, self.store, self.puts, self.tables.topics, self.state)
        self.ends.register_on(self.rig.table)

    @inlineCallbacks
    def send_half(self, body=b"half", properties=PREPARED):  # type: ignore[no-untyped-def]
        born = int(self.clock.seconds() * 1000)
        ext = {**FIELDS, "f": "4", "e": "2", "h": "5", "g": str(born), "i": properties}
        answer = yield self.rig.client.call(
            self.rig.address, RemotingCommand(V2, version=407, ext=ext, body=body), 1000
        )
        self.assertEqual((answer.code, answer.ext.get("queueId")), (0, "2"), answer.remark)
        self.rig.turn()
        return int(answer.ext["queueOffset"]), int(answer.ext["msgId"][-16:], 16)

    def send(self, sys_flag, properties, code=V2, body=b"half", **more):  # type: ignore[no-untyped-def]
        ext = {**FIELDS, "f": str(sys_flag), "i": properties, **more}
        return self.rig.client.call(
            self.rig.address, RemotingCommand(code, version=407, ext=ext, body=body), 1000
        )

    def end(self, half, decision=COMMIT, group="g", client=None):  # type: ignore[no-untyped-def]
        return self.rig.ask(
            END,
            client=client,
            producerGroup=group,
            tranStateTableOffset=half[0],
            commitLogOffset=half[1],
            commitOrRollback=decision,
            msgId="U1",
        )

    def records(self, topic=None):  # type: ignore[no-untyped-def]
        found, at = [], self.store.log.min_offset
        while at < self.store.log.max_offset:
            found.append(decode_record(self.store.log.read(at, 1 << 20)))
            at += found[-1].total_size
        return [record for record in found if topic in (None, record.topic)]


class SafetyTests(TransactionCase):
    """B69a: a transaction is ended when its copy and its op are where a send would have to be."""

    def setUp(self) -> None:
        self.replication = ManualReplication(task.Clock())
        super().setUp()

    def slave_has_all(self) -> None:
        self.replication.line.advance(self.store.log.max_offset)

    @inlineCallbacks
    def half(self):  # type: ignore[no-untyped-def]
        sending = self.send_half()
        yield self.rig.until(lambda: self.store.log.max_offset)
        self.slave_has_all()
        half = yield sending
        return half

    @inlineCallbacks
    def ending(self, half, decision=COMMIT):  # type: ignore[no-untyped-def]
        """The end of a transaction whose first record has been appended, as a list of one."""
        end = self.store.log.max_offset
        answering = self.end(half, decision)
        yield self.rig.until(lambda: self.store.log.max_offset > end)
        return [answering]

    @inlineCallbacks
    def test_B69a_copy_and_op_are_on_the_slave_before_the_answer(self):  # type: ignore[no-untyped-def]
        half = yield self.half()
        (answering,) = yield self.ending(half)
        for records in (2, 3):
            self.assertEqual(len(self.records()), records)
            self.assertFalse(answering.called)
            self.slave_has_all()
        answer = yield answering
        self.assertEqual(answer.code, 0)

    @inlineCallbacks
    def test_B69a_a_late_slave_is_reported_and_reported_again(self):  # type: ignore[no-untyped-def]
        half = yield self.half()
        (answering,) = yield self.ending(half, ROLLBACK)
        busy = yield self.end(half, ROLLBACK)
        self.assertEqual((busy.code, len(self.records())), (2, 2))
        self.replication.line.release_all()
        for answer in (answering, self.end(half, ROLLBACK)):
            told = yield answer
            self.assertEqual((told.code, told.remark), (12, "FLUSH_SLAVE_TIMEOUT"))
        self.assertEqual(len(self.records()), 2)

    @inlineCallbacks
    def test_B69a_what_is_not_stored_is_ended_again(self):  # type: ignore[no-untyped-def]
        half = yield self.half()
        self.replication.reason = "too few copies"
        refused = yield self.end(half, ROLLBACK)
        self.assertEqual((refused.code, refused.remark), (14, "too few copies"))
        self.replication.reason = None
        (answering,) = yield self.ending(half, ROLLBACK)
        self.slave_has_all()
        answer = yield answering
        self.assertEqual(answer.code, 0)


class EndTransactionTests(TransactionCase):
    @inlineCallbacks
    def test_a_half_is_parked_with_where_it_belongs(self):  # type: ignore[no-untyped-def]
        first = yield self.send_half()
        second = yield self.send_half()
        half, other = self.records()
        self.assertEqual((half.topic, half.queue_id, half.sys_flag, half.flag), (HALF_TOPIC, 0, 0, 5))
        self.assertEqual([first, second], [(0, 0), (1, other.physical_offset)])
        self.assertEqual(
            half.properties,
            {
                "TRAN_MSG": "true",
                "PGROUP": "g",
                "UNIQ_KEY": "U1",
                "WAIT": "true",
                "TAGS": "t",
                "CLUSTER": "DefaultCluster",
                "REAL_TOPIC": "T",
                "REAL_QID": "2",
            },
        )
        self.assertEqual(self.tables.topics.get(HALF_TOPIC).read_queue_nums, 1)

    @inlineCallbacks
    def test_TRAN_MSG_makes_a_half_with_or_without_sysFlag_4(self):  # type: ignore[no-untyped-def]
        for number, (flag, text) in enumerate(
            ((0, "TRAN_MSG\x01true"), (4, "TRAN_MSG\x01True"), (4, "TAGS\x01t"), (4, "TRAN_MSG\x01false"))
        ):
            answer = yield self.send(flag, text)
            self.assertEqual((answer.code, answer.ext["queueOffset"]), (0, str(number)), text)
        halves = self.records()
        self.assertEqual(
            {(half.topic, half.queue_id, half.sys_flag) for half in halves}, {(HALF_TOPIC, 0, 0)}
        )
        self.assertEqual({half.properties["REAL_TOPIC"] for half in halves}, {"T"})

    @inlineCallbacks
    def test_what_does_not_say_TRAN_MSG_true_is_no_half(self):  # type: ignore[no-untyped-def]
        for text in (
            "TRAN_MSG\x01false",
            "TRAN_MSG\x01yes",
            "MY_TRAN_MSG\x01true",
            "TAGS\x01TRAN_MSG\x01true",
        ):
            yield self.send(0, text)
            self.assertEqual(self.records()[-1].topic, "T", text)
        batch = encode_batch([(0, b"m", b"TRAN_MSG\x01true")])
        answer = yield self.send(0, "TRAN_MSG\x01true", code=320, body=batch)
        self.assertEqual((answer.code, self.records()[-1].topic), (0, "T"))

    @inlineCallbacks
    def test_a_copy_that_an_old_consumer_sends_itself_is_no_half(self):  # type: ignore[no-untyped-def]
        for flag in (0, 4):
            answer = yield self.send(flag, "TRAN_MSG\x01true\x02DELAY\x013", b="%RETRY%g", e="0", j="1")
            copy = self.records()[-1]
            self.assertEqual((answer.code, copy.topic, copy.sys_flag), (0, SCHEDULE_TOPIC, 0))
            self.assertEqual(copy.properties["REAL_TOPIC"], "%RETRY%g")

    @inlineCallbacks
    def test_B97a_a_commit_puts_a_copy_and_an_op(self):  # type: ignore[no-untyped-def]
        yield self.send_half(b"other")
        half = yield self.send_half()
        answer = yield self.end(half)
        self.assertEqual((answer.code, answer.remark), (0, None))
        _, parked, copy, op = self.records()
        self.assertEqual((copy.topic, copy.queue_id, copy.sys_flag, copy.flag), ("T", 2, 8, 5))
        self.assertEqual((copy.body, copy.raw_properties), (b"half", parked.raw_properties))
        self.assertEqual((copy.prepared_transaction_offset, copy.queue_offset), (half[1], 0))
        self.assertEqual(
            (op.topic, op.queue_id, op.body, op.properties), (OP_HALF_TOPIC, 0, b"1", {"TAGS": "d"})
        )

    @inlineCallbacks
    def test_B97a_a_rollback_puts_an_op_alone(self):  # type: ignore[no-untyped-def]
        half = yield self.send_half()
        answer = yield self.end(half, ROLLBACK)
        self.assertEqual(answer.code, 0)
        self.assertEqual([record.topic for record in self.records()], [HALF_TOPIC, OP_HALF_TOPIC])

    @inlineCallbacks
    def test_unknown_is_neither_answered_nor_stored(self):  # type: ignore[no-untyped-def]
        half = yield self.send_half()
        unanswered = self.end(half, UNKNOWN)
        yield self.end(half, 7)  # answered, and after it on the same connection
        self.assertFalse(unanswered.called)
        unanswered.addErrback(lambda _: None)
        self.assertEqual(len(self.records()), 1)

    @inlineCallbacks
    def test_B97a_a_second_end_changes_nothing(self):  # type: ignore[no-untyped-def]
        half = yield self.send_half()
        for decision in (COMMIT, COMMIT, ROLLBACK):
            answer = yield self.end(half, decision)
            self.assertEqual(answer.code, 0)
        self.assertEqual([record.topic for record in self.records()], [HALF_TOPIC, "T", OP_HALF_TOPIC])

    @inlineCallbacks
    def test_what_does_not_fit_is_refused_in_rocketmqs_words(self):  # type: ignore[no-untyped-def]
        number, offset = yield self.send_half()
        self.rig.put("Plain")
        plain = self.records("Plain")[0].physical_offset
        for text, ended in (
            ("The producer group wrong", self.end((number, offset), group="x")),
            ("The transaction state table offset wrong", self.end((number + 1, offset))),
            ("Find prepared transaction message failed", self.end((number, offset + 1))),
            ("Find prepared transaction message failed", self.end((number, -5))),
            ("Find prepared transaction message failed", self.end((number, 1 << 40))),
            ("Find prepared transaction message failed", self.end((0, plain))),
            ("commitOrRollback", self.end((number, offset), 7)),
            ("tranStateTableOffset", self.end(("x", offset))),
        ):
            answer = yield ended
            self.assertEqual(answer.code, 1)
            self.assertIn(text, answer.remark)
        self.assertEqual(len(self.records()), 2)

    @inlineCallbacks
    def test_a_half_that_lies_in_a_body_is_none(self):  # type: ignore[no-untyped-def]
        yield self.send_half()
        for turns in (False, True):  # before the dispatch, and after it
            at = self.store.log.max_offset + BODY_AT
            forged = encode_record(
                make_record(
                    HALF_TOPIC,
                    b"forged",
                    queue_offset=0,
                    physical_offset=at,
                    raw_properties=f"PGROUP\x01g\x02REAL_TOPIC\x01{SCHEDULE_TOPIC}\x02REAL_QID\x017".encode(),
                )
            )
            sent = yield self.send(0, "", body=forged)
            self.assertEqual(int(sent.ext["msgId"][-16:], 16), at - BODY_AT)
            self.assertEqual(self.store.look_message(at), forged)
            if turns:
                self.rig.turn()
            answer = yield self.end((0, at))
            self.assertEqual((answer.code, answer.remark), (1, "Find prepared transaction message failed"))
        self.assertEqual(self.store.queue_end(SCHEDULE_TOPIC, 7), 0)

    @inlineCallbacks
    def test_what_the_check_notes_in_halves_is_not_the_producers_to_say(self):  # type: ignore[no-untyped-def]
        notes = "\x02TRAN_PREPARED_QUEUE_OFFSET\x010\x02TRANSACTION_CHECK_TIMES\x0115"
        yield self.send_half(properties=PREPARED + notes)
        (half,) = self.records(HALF_TOPIC)
        self.assertEqual(
            half.properties.keys() & {"TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES"}, set()
        )

    def test_B97a_a_slave_answers_11(self) -> None:
        self.assertEqual(refuse_end_transaction(None, RemotingCommand(END)).code, 11)  # type: ignore[arg-type]
