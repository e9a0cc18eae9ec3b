"""All ways into a master put together: one PutAcks, one stop."""

from twisted.internet import reactor
from twisted.internet.defer import gatherResults, inlineCallbacks
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from hatwisted.broker.delay.delayrouting import route_delayed
from hatwisted.broker.delay.schedule import MAX_BATCH
from hatwisted.broker.node.masterrole import MasterRole
from hatwisted.broker.put.innerput import InnerMessage
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.transaction.transactioncheck import CheckOptions
from hatwisted.remoting.sendwindows import LEAST_SIZE_IN_BATCH
from hatwisted.wire.batch import encode_batch
from hatwisted.wire.registration import TopicConfig
from tests.unit.broker.rig import BrokerRig
from tests.unit.broker.test_putack import ManualReplication
from tests.unit.broker.test_sendmessage import BATCH, FIELDS, V2

LEVELS = (1000, 5000, 60_000)


class WritePathTests(TestCase):
    """A SYNC_MASTER's writes; its slave acks what the test says."""

    timeout = 50

    def setUp(self) -> None:
        self.rig = BrokerRig(self, delay_levels=LEVELS)
        self.store = self.rig.store
        self.addCleanup(self.rig.turn)
        self.slave = ManualReplication(self.rig.clock)
        self.permission = 6
        acks = PutAcks(self.rig.clock, self.store.flush, 5.0, self.slave)
        state = SendState(lambda: self.permission, "127.0.0.1")
        self.writes = MasterRole(self.rig.parts, acks, state, CheckOptions())
        self.rig.factory.serve(self.rig.table.joined(self.writes.processors))
        self.writes.start()
        self.addCleanup(self.writes.stop)

    def send(self, text="WAIT\x01false", **fields):  # type: ignore[no-untyped-def]
        return self.rig.ask(V2, b"body", **FIELDS | {"i": text} | fields)

    def send_back(self):  # type: ignore[no-untyped-def]
        return self.rig.ask(36, group="g", offset=0, delayLevel=0)

    def test_a_mute_slave_holds_up_nothing_that_is_due(self) -> None:
        for n in range(3 * MAX_BATCH):
            properties = {"DELAY": "1"}
            topic, queue_id = route_delayed(properties, "T", 0, LEVELS)
            message = InnerMessage(
                topic=topic, queue_id=queue_id, body=b"%d" % n, properties=properties, born_timestamp=0
            )
            self.writes.puts.put(message)
        self.rig.turn()
        self.slave.reason = "1 copies in sync, 2 needed"
        self.rig.clock.advance(1.0)
        self.rig.turn()
        self.assertEqual(self.store.queue_offsets("T", 0), (0, 3 * MAX_BATCH))
        self.assertEqual(self.rig.tables.delays.get(1), 3 * MAX_BATCH)

    @inlineCallbacks
    def test_a_stopping_broker_takes_nothing_from_anybody(self):  # type: ignore[no-untyped-def]
        half = yield self.send("TRAN_MSG\x01true\x02PGROUP\x01p\x02WAIT\x01false")
        end = self.store.log.max_offset
        self.writes.stop_taking()
        decision = {
            "producerGroup": "p",
            "tranStateTableOffset": 0,
            "commitLogOffset": 0,
            "commitOrRollback": 8,
        }
        answers = yield gatherResults([self.send(), self.send_back(), self.rig.ask(37, **decision)])
        self.assertEqual(half.code, 0)
        self.assertEqual(
            [(answer.code, answer.remark) for answer in answers], [(14, "the broker is shutting down")] * 3
        )
        self.assertEqual(self.store.log.max_offset, end)

    @inlineCallbacks
    def test_brokerPermission_holds_for_ordered_sends_and_what_is_sent_back(self):  # type: ignore[no-untyped-def]
        yield self.send()
        end = self.store.log.max_offset
        self.rig.tables.topics.put(TopicConfig(topic_name="Ordered", order=True))
        self.permission = 4
        answers = yield gatherResults([self.send(b="Ordered"), self.send_back()])
        self.assertEqual(
            [(answer.code, answer.remark) for answer in answers],
            [(16, "the broker[127.0.0.1] sending message is forbidden")] * 2,
        )
        self.assertEqual(self.store.log.max_offset, end)

    @inlineCallbacks
    def test_what_is_sent_back_is_counted_until_the_group_is_deleted(self):  # type: ignore[no-untyped-def]
        yield self.send()
        sent_back = self.send_back()
        yield self.rig.until(lambda: len(self.slave.line))
        self.slave.line.advance(self.store.log.max_offset)
        yield sent_back
        viewed = yield self.rig.ask(315, statsName="SNDBCK_PUT_NUMS", statsKey="T@g")
        self.assertEqual(viewed.code, 0)
        yield self.rig.ask(207, groupName="g")
        viewed = yield self.rig.ask(315, statsName="SNDBCK_PUT_NUMS", statsKey="T@g")
        self.assertEqual((viewed.code, viewed.remark), (1, "The stats <SNDBCK_PUT_NUMS> <T@g> not exist"))

    @inlineCallbacks
    def test_what_a_client_puts_is_no_further_ahead_of_the_slave_than_its_window(self):  # type: ignore[no-untyped-def]
        answers = yield self.fill_window("")
        self.assertEqual([answer.called for answer in answers], [False] * 9)
        end = self.store.log.max_offset
        for _ in answers:
            self.slave.line.advance(self.store.log.max_offset)
            yield self.pass_time()
        codes = [answer.code for answer in (yield gatherResults(answers))]
        self.assertEqual(codes, [0] * 9)
        self.assertGreater(self.store.log.max_offset, end)
        self.assertEqual(self.window().used, 0)

    @inlineCallbacks
    def test_small_messages_count_as_1_KiB_each_in_a_batch_and_as_what_they_are_alone(self):  # type: ignore[no-untyped-def]
        batch = encode_batch([(0, b"x", b""), (0, b"y", b"")])
        for answer, size in (
            (self.rig.ask(BATCH, batch, **FIELDS), lambda _: 2 * LEAST_SIZE_IN_BATCH),
            (self.send(""), lambda stored: stored),
        ):
            begin = self.store.log.max_offset
            yield self.pass_time()
            stored = self.store.log.max_offset - begin
            self.assertLess(stored, LEAST_SIZE_IN_BATCH)
            self.assertEqual(self.window().used, size(stored))
            self.slave.line.advance(self.store.log.max_offset)
            yield answer
            self.assertEqual(self.window().used, 0)

    @inlineCallbacks
    def test_messages_that_wait_for_no_slave_count_while_it_is_behind(self):  # type: ignore[no-untyped-def]
        self.slave.fall_behind = 501
        answers = yield self.fill_window("WAIT\x01false")
        put = sum(answer.called for answer in answers)
        self.assertLess(put, 9)
        for _ in answers:
            self.slave.line.advance(self.store.log.max_offset)
            yield self.pass_time()
        codes = [answer.code for answer in (yield gatherResults(answers))]
        self.assertEqual(codes, [0] * 9)
        self.assertEqual(self.window().used, 0)

    @inlineCallbacks
    def test_messages_that_wait_for_no_slave_do_not_count_otherwise(self):  # type: ignore[no-untyped-def]
        for behind, usable in ((500, 1 << 60), (501, 0)):
            self.slave.fall_behind, self.slave.usable_up_to = behind, usable
            answers = yield self.fill_window("WAIT\x01false")
            codes = [answer.code for answer in (yield gatherResults(answers))]
            self.assertEqual(codes, [0] * 9)
            self.assertEqual(self.window().used, 0)

    @inlineCallbacks
    def pass_time(self):  # type: ignore[no-untyped-def]
        for _ in range(10):
            self.rig.turn()
            yield deferLater(reactor, 0, lambda: None)

    def window(self):  # type: ignore[no-untyped-def]
        (connection,) = self.rig.factory.connections
        return connection.window

    @inlineCallbacks
    def fill_window(self, text: str):  # type: ignore[no-untyped-def]
        """Messages one after the other, of which a window of 500 bytes holds some."""
        self.rig.factory.windows.most = 500
        answers = []
        for _ in range(9):
            answers.append(self.send(text))
            yield self.pass_time()
        return answers
