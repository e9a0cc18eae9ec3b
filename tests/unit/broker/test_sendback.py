"""Messages that consumers send back (36), or send to their group's retry topic themselves; delayed sends."""

import msgspec
from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from hatwisted.broker.consumer.subscriptiongroup import GroupConfig
from hatwisted.broker.put.innerput import InnerPuts
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.send.sendback import SendBackProcessor, refuse_send_back
from hatwisted.broker.send.sendmessage import SEND_CODES, SendProcessor
from hatwisted.wire.batch import encode_batch
from hatwisted.wire.layout import BODY_AT, SCHEDULE_TOPIC
from hatwisted.wire.messageid import encode_message_id
from hatwisted.wire.record import decode_record, encode_record, make_record
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.broker.rig import HOST, BrokerRig
from tests.unit.broker.test_putack import ManualReplication
from tests.unit.broker.test_sendmessage import BATCH, FIELDS, V2

LEVELS = tuple(1000 * n for n in range(1, 19))
SEND_BACK = 36


class SendBackCase(TestCase):
    timeout = 50
    replication: ManualReplication | None = None

    def setUp(self) -> None:
        self.rig = BrokerRig(self, delay_levels=LEVELS)
        self.addCleanup(self.rig.turn)
        self.store, self.tables = self.rig.store, self.rig.tables
        self.permission = 6
        state = SendState(lambda: self.permission, "127.0.0.1")
        self.counted: list[tuple[str, str]] = []
        acks = PutAcks(self.rig.clock, self.store.flush, 5.0, self.replication)
        self.sends = SendProcessor(self.store, acks, self.tables, self.rig.identity, state)
        self.rig.table.register_batch(SEND_CODES, self.sends.process)
        SendBackProcessor(
            self.store,
            InnerPuts(self.store, acks, HOST),
            self.tables,
            state,
            lambda group, topic: self.counted.append((group, topic)),
        ).register_on(self.rig.table)

    def change(self, **settings):  # type: ignore[no-untyped-def]
        self.rig.config.update(settings)

    def send(self, body=b"hello", code=V2, version=407, **fields):  # type: ignore[no-untyped-def]
        ext = {**FIELDS, **{name: str(value) for name, value in fields.items()}}
        command = RemotingCommand(code, version=version, ext=ext, body=body)
        return self.rig.client.call(self.rig.address, command, 1000)

    def send_back(self, offset=0, level=0, group="g", **more):  # type: ignore[no-untyped-def]
        return self.rig.ask(SEND_BACK, offset=offset, delayLevel=level, group=group, **more)

    def last(self):  # type: ignore[no-untyped-def]
        found = at = 0
        while at < self.store.log.max_offset:
            found = decode_record(self.store.log.read(at, 1 << 20))
            at += found.total_size
        return found


class SafetyTests(SendBackCase):
    """B69a: a message is taken back when its copy is where that of a send would have to be."""

    def setUp(self) -> None:
        self.replication = ManualReplication(Clock())
        super().setUp()

    @inlineCallbacks
    def sent(self):  # type: ignore[no-untyped-def]
        sending = self.send()
        yield self.rig.until(lambda: self.store.log.max_offset)
        self.replication.line.advance(self.store.log.max_offset)
        yield sending
        return self.store.log.max_offset

    @inlineCallbacks
    def test_B69a_the_answer_waits_for_the_slave(self):  # type: ignore[no-untyped-def]
        end = yield self.sent()
        answering = self.send_back()
        yield self.rig.until(lambda: self.store.log.max_offset > end)
        self.assertFalse(answering.called)
        self.assertEqual(self.counted, [])
        self.replication.line.advance(self.store.log.max_offset)
        answer = yield answering
        self.assertEqual((answer.code, self.counted), (0, [("g", "T")]))

    @inlineCallbacks
    def test_B69a_a_slave_that_is_late_is_reported_as_to_a_producer(self):  # type: ignore[no-untyped-def]
        end = yield self.sent()
        answering = self.send_back()
        yield self.rig.until(lambda: self.store.log.max_offset > end)
        self.replication.line.release_all()
        answer = yield answering
        self.assertEqual((answer.code, answer.remark), (12, "FLUSH_SLAVE_TIMEOUT"))

    @inlineCallbacks
    def test_B69a_without_a_slave_nothing_is_stored_that_the_consumer_would_send_again(self):  # type: ignore[no-untyped-def]
        end = yield self.sent()
        self.replication.usable_up_to = 0
        answer = yield self.send_back()
        self.assertEqual((answer.code, self.store.log.max_offset), (11, end))
        self.assertIn("isn't stored", answer.remark)


class SendBackTests(SendBackCase):
    @inlineCallbacks
    def test_an_origin_that_a_producer_has_written_is_none(self):  # type: ignore[no-untyped-def]
        yield self.send(i="RETRY_TOPIC\x01Other\x02ORIGIN_MESSAGE_ID\x01made up")
        sent = self.last()
        yield self.send_back()
        said = self.last().properties
        self.assertEqual(
            (said["RETRY_TOPIC"], said["ORIGIN_MESSAGE_ID"]), ("T", encode_message_id(sent.store_host, 0))
        )

    @inlineCallbacks
    def test_another_message_than_the_consumers_is_not_taken_back(self):  # type: ignore[no-untyped-def]
        """The master has lost the end of its log since, and put others there."""
        yield self.send(i="UNIQ_KEY\x01U1")
        keyed, plain = self.last(), self.store.log.max_offset
        yield self.send()
        end = self.store.log.max_offset
        for offset, said in ((0, {"originMsgId": "U0"}), (plain, {"originTopic": "Other"})):
            answer = yield self.send_back(offset, **said)
            self.assertEqual((answer.code, self.store.log.max_offset), (1, end))
            self.assertIn("look message by offset failed", answer.remark)
        place = encode_message_id(keyed.store_host, 0)
        for offset, said in (
            (0, {"originMsgId": "U1", "originTopic": "T"}),
            (0, {"originMsgId": place}),
            (plain, {"originMsgId": "of a client that names messages otherwise", "originTopic": "T"}),
            (plain, {"originMsgId": "", "originTopic": ""}),
        ):
            self.assertEqual((yield self.send_back(offset, **said)).code, 0, said)

    @inlineCallbacks
    def test_a_consumer_names_the_topic_of_before_a_repetition_and_without_its_namespace(self):  # type: ignore[no-untyped-def]
        self.tables.topics.ensure("space%T", 4)
        yield self.send(b="space%T")
        self.assertEqual((yield self.send_back(originTopic="T")).code, 0)
        self.assertEqual((yield self.send_back(originTopic="ace%T")).code, 1)
        copy = self.last()
        self.assertEqual(copy.properties["RETRY_TOPIC"], "space%T")
        self.assertEqual((yield self.send_back(copy.physical_offset, originTopic="T")).code, 0)

    @inlineCallbacks
    def test_a_record_that_lies_in_a_body_is_not_taken_back(self):  # type: ignore[no-untyped-def]
        forged = encode_record(make_record("Other", b"forged", physical_offset=BODY_AT))
        yield self.send(forged)
        end = self.store.log.max_offset
        for _ in range(2):
            answer = yield self.send_back(BODY_AT)
            self.assertEqual((answer.code, self.store.log.max_offset), (1, end))
            self.assertIn("look message by offset failed", answer.remark)
            self.rig.turn()

    @inlineCallbacks
    def test_the_copy_waits_on_its_level_for_the_retry_topic(self):  # type: ignore[no-untyped-def]
        yield self.send(i="KEYS\x01k\x02TAGS\x01t")
        sent = self.last()
        answer = yield self.send_back()
        copy = self.last()
        self.assertEqual((answer.code, answer.remark), (0, None))
        self.assertEqual((copy.topic, copy.queue_id, copy.reconsume_times), (SCHEDULE_TOPIC, 2, 1))
        self.assertEqual(
            copy.properties,
            {
                "KEYS": "k",
                "TAGS": "t",
                "CLUSTER": "DefaultCluster",
                "RETRY_TOPIC": "T",
                "ORIGIN_MESSAGE_ID": encode_message_id(sent.store_host, 0),
                "WAIT": "false",
                "DELAY": "3",
                "REAL_TOPIC": "%RETRY%g",
                "REAL_QID": "0",
            },
        )
        self.assertEqual((copy.body, copy.flag, copy.born_host), (sent.body, sent.flag, sent.born_host))
        self.assertEqual(copy.born_timestamp, sent.born_timestamp)
        self.assertEqual(self.counted, [("g", "T")])
        retry = self.tables.topics.get("%RETRY%g")
        self.assertEqual((retry.read_queue_nums, retry.perm), (1, 6))

    @inlineCallbacks
    def test_each_repetition_waits_a_level_longer_and_keeps_the_first_origin(self):  # type: ignore[no-untyped-def]
        yield self.send()
        first_id = encode_message_id(self.last().store_host, 0)
        for times in range(16):
            answer = yield self.send_back(self.last().physical_offset)
            copy = self.last()
            self.assertEqual((answer.code, copy.reconsume_times), (0, times + 1))
            self.assertEqual((copy.topic, copy.queue_id), (SCHEDULE_TOPIC, min(3 + times, 18) - 1))
            self.assertEqual(copy.properties["ORIGIN_MESSAGE_ID"], first_id)
            self.assertEqual(copy.properties["RETRY_TOPIC"], "T")
        yield self.send_back(self.last().physical_offset)
        dead = self.last()
        self.assertEqual((dead.topic, dead.queue_id, dead.reconsume_times), ("%DLQ%g", 0, 17))
        self.assertEqual(dead.properties["DELAY"], "0")
        self.assertEqual(self.tables.topics.get("%DLQ%g").write_queue_nums, 1)

    @inlineCallbacks
    def test_the_consumer_may_choose_the_level_and_below_0_the_dead_letters(self):  # type: ignore[no-untyped-def]
        yield self.send()
        yield self.send_back(level=5)
        self.assertEqual((self.last().topic, self.last().queue_id), (SCHEDULE_TOPIC, 4))
        yield self.send_back(level=-1)
        self.assertEqual((self.last().topic, self.last().reconsume_times), ("%DLQ%g", 1))

    @inlineCallbacks
    def test_what_was_tried_as_often_as_can_be_counted_goes_to_the_dead_letters(self):  # type: ignore[no-untyped-def]
        yield self.send(j=2**31 - 1)
        answer = yield self.send_back(maxReconsumeTimes=2**31 - 1)
        self.assertEqual((answer.code, answer.remark), (0, None))
        self.assertEqual((self.last().topic, self.last().reconsume_times), ("%DLQ%g", 2**31 - 1))

    @inlineCallbacks
    def test_maxReconsumeTimes_counts_from_version_121_on(self):  # type: ignore[no-untyped-def]
        yield self.send(j=2)
        for version, times, topic in (
            (121, 2, "%DLQ%g"),
            (121, 3, SCHEDULE_TOPIC),
            (120, 2, SCHEDULE_TOPIC),
            (121, 0, "%DLQ%g"),
        ):
            yield self.send_back(version=version, maxReconsumeTimes=times)
            self.assertEqual(self.last().topic, topic, (version, times))

    @inlineCallbacks
    def test_a_group_has_its_own_limit_and_queues(self):  # type: ignore[no-untyped-def]
        group = GroupConfig(group_name="g", retry_max_times=1, retry_queue_nums=3)
        self.tables.groups.put(group)
        yield self.send()
        queues = set()
        for _ in range(3):
            yield self.send_back()
            queues.add(self.last().properties["REAL_QID"])
        self.assertEqual(queues, {"0", "1", "2"})
        yield self.send_back(self.last().physical_offset)
        self.assertEqual(self.last().topic, "%DLQ%g")
        self.tables.groups.put(msgspec.structs.replace(group, retry_queue_nums=0))
        end = self.store.log.max_offset
        answer = yield self.send_back()
        self.assertEqual((answer.code, self.store.log.max_offset), (0, end))

    @inlineCallbacks
    def test_a_copy_lies_where_the_group_reads_when_it_is_to_get_more_queues_than_its_topic_has(self):  # type: ignore[no-untyped-def]
        """Consumers read the queues of the retry topic, which was made when the group had one."""
        self.tables.topics.ensure("%RETRY%g", 1)
        self.tables.groups.put(GroupConfig(group_name="g", retry_queue_nums=4))
        yield self.send()
        queues = set()
        for _ in range(4):
            self.assertEqual((yield self.send_back()).code, 0)
            queues.add(self.last().properties["REAL_QID"])
        self.assertEqual(queues, {"0"})

    @inlineCallbacks
    def test_a_group_that_wanted_no_repetitions_gets_a_queue_for_them_once_it_does(self):  # type: ignore[no-untyped-def]
        """Its first heartbeat had made the topic without any."""
        self.tables.topics.ensure("%RETRY%g", 0)
        yield self.send()
        self.assertEqual((yield self.send_back()).code, 0)
        retry = self.tables.topics.get("%RETRY%g")
        self.assertEqual((self.last().properties["REAL_QID"], retry.read_queue_nums, retry.perm), ("0", 1, 6))

    @inlineCallbacks
    def test_refusals_store_nothing(self):  # type: ignore[no-untyped-def]
        yield self.send()
        end = self.store.log.max_offset
        for code, text, asked in (
            (1, "look message by offset failed, 17", {"offset": 17}),
            (1, "look message by offset failed", {"offset": -5}),
            (1, "field offset has the value 'x'", {"offset": "x"}),
            (1, "field delayLevel has the value", {"level": 1 << 40}),
            (1, "maxReconsumeTimes", {"maxReconsumeTimes": "many"}),
            (1, "illegal characters", {"group": "no spaces"}),
            (1, "longer than", {"group": "g" * 121}),
        ):
            answer = yield self.send_back(**asked)
            self.assertEqual(answer.code, code, asked)
            self.assertIn(text, answer.remark)
        answer = yield self.rig.ask(SEND_BACK, offset=0, delayLevel=0)
        self.assertEqual((answer.code, answer.remark), (1, "request field group is missing"))
        self.change(autoCreateSubscriptionGroup="false")
        answer = yield self.send_back(group="unknown")
        self.assertEqual((answer.code, answer.remark), (26, "subscription group not exist, unknown"))
        self.permission = 4
        answer = yield self.send_back()
        self.assertEqual(
            (answer.code, answer.remark), (16, "the broker[127.0.0.1] sending message is forbidden")
        )
        self.assertEqual((self.store.log.max_offset, self.counted), (end, []))

    @inlineCallbacks
    def test_a_retry_topic_that_may_not_be_written_is_16(self):  # type: ignore[no-untyped-def]
        yield self.send()
        self.tables.topics.ensure("%RETRY%g", 1, 4)
        answer = yield self.send_back()
        self.assertEqual(answer.code, 16)

    @inlineCallbacks
    def test_a_broker_that_takes_nothing_says_why(self):  # type: ignore[no-untyped-def]
        yield self.send()
        self.store.log.stopped_reason = "the disk is full"
        answer = yield self.send_back()
        self.store.log.stopped_reason = None
        self.assertEqual((answer.code, answer.remark), (1, "the disk is full"))

    @inlineCallbacks
    def test_a_slave_refuses_with_1(self):  # type: ignore[no-untyped-def]
        self.rig.table.register(SEND_BACK, refuse_send_back)
        answer = yield self.send_back()
        self.assertEqual(answer.code, 1)
        self.assertIn("slave", answer.remark)


class OwnCopyTests(SendBackCase):
    """Consumers whose 36 was refused send the copy to their retry topic themselves."""

    @inlineCallbacks
    def test_until_the_limit_it_goes_there_and_then_to_the_dead_letters(self):  # type: ignore[no-untyped-def]
        for times, most, version, topic in (
            (15, None, 407, "%RETRY%g"),
            (16, None, 407, "%DLQ%g"),
            (3, 3, 407, "%DLQ%g"),
            (3, 4, 407, "%RETRY%g"),
            (0, 0, 407, "%DLQ%g"),
            (3, 3, 120, "%RETRY%g"),
        ):
            more = {} if most is None else {"l": most}
            answer = yield self.send(b="%RETRY%g", e=0, j=times, version=version, **more)
            self.assertEqual((answer.code, answer.ext["queueId"]), (0, "0"))
            self.assertEqual((self.last().topic, self.last().reconsume_times), (topic, times))

    @inlineCallbacks
    def test_dead_letters_are_not_delayed(self):  # type: ignore[no-untyped-def]
        yield self.send(b="%RETRY%g", e=0, j=16, i="DELAY\x016\x02TAGS\x01t")
        dead = self.last()
        self.assertEqual((dead.topic, dead.queue_id), ("%DLQ%g", 0))
        self.assertEqual(dead.properties, {"DELAY": "0", "TAGS": "t", "CLUSTER": "DefaultCluster"})

    @inlineCallbacks
    def test_a_batch_to_a_retry_topic_is_13(self):  # type: ignore[no-untyped-def]
        batch = encode_batch([(0, b"m", b"")])
        for fields in ({"code": BATCH}, {"m": "true"}):
            for queue_id in (0, -1):
                answer = yield self.send(batch, b="%RETRY%g", e=queue_id, j=16, **fields)
                self.assertEqual(
                    (answer.code, answer.remark), (13, "batch request does not support retry group %RETRY%g")
                )
        self.assertEqual(self.store.log.max_offset, 0)
        self.assertIsNone(self.tables.topics.get("%DLQ%g"))

    @inlineCallbacks
    def test_an_unknown_group_is_26(self):  # type: ignore[no-untyped-def]
        self.change(autoCreateSubscriptionGroup="false")
        answer = yield self.send(b="%RETRY%unknown", e=0)
        self.assertEqual((answer.code, self.store.log.max_offset), (26, 0))


class DelayedSendTests(SendBackCase):
    @inlineCallbacks
    def test_a_delayed_send_is_answered_with_the_queue_it_asked_for(self):  # type: ignore[no-untyped-def]
        answer = yield self.send(i="DELAY\x012\x02WAIT\x01true\x02TAGS\x01t", e=3)
        stored = self.last()
        self.assertEqual((answer.code, answer.ext["queueId"], answer.ext["queueOffset"]), (0, "3", "0"))
        self.assertEqual((stored.topic, stored.queue_id), (SCHEDULE_TOPIC, 1))
        self.assertEqual(
            stored.properties,
            {
                "DELAY": "2",
                "WAIT": "true",
                "TAGS": "t",
                "CLUSTER": "DefaultCluster",
                "REAL_TOPIC": "T",
                "REAL_QID": "3",
            },
        )
        self.rig.turn()
        queue = self.store.queues.find(SCHEDULE_TOPIC, 1)
        due = int.from_bytes(queue.read(0, 1)[12:], "big")
        self.assertEqual(due, stored.store_timestamp + LEVELS[1])

    @inlineCallbacks
    def test_producers_cannot_forge_the_real_place(self):  # type: ignore[no-untyped-def]
        yield self.send(i="DELAY\x011\x02REAL_TOPIC\x01Other\x02REAL_QID\x017", e=1)
        properties = self.last().properties
        self.assertEqual((properties["REAL_TOPIC"], properties["REAL_QID"]), ("T", "1"))

    @inlineCallbacks
    def test_levels_that_are_none_are_not_delayed(self):  # type: ignore[no-untyped-def]
        for text in ("DELAY\x010", "DELAY\x01-1", "MYDELAY\x013"):
            yield self.send(i=text)
            self.assertEqual((self.last().topic, self.last().queue_id), ("T", 1))
        yield self.send(i="DELAY\x01123456789")
        self.assertEqual((self.last().queue_id, self.last().properties["DELAY"]), (17, "18"))

    @inlineCallbacks
    def test_a_delayed_batch_is_13(self):  # type: ignore[no-untyped-def]
        answer = yield self.send(encode_batch([(0, b"m", b"")]), BATCH, i="DELAY\x013", m="true")
        self.assertEqual((answer.code, self.store.log.max_offset), (13, 0))

    @inlineCallbacks
    def test_a_batch_with_a_delay_of_0_is_not_delayed(self):  # type: ignore[no-untyped-def]
        for number, level in enumerate(("0", "-1")):
            answer = yield self.send(encode_batch([(0, b"m", b"")]), BATCH, i=f"DELAY\x01{level}", m="true")
            self.assertEqual((answer.code, answer.ext["queueOffset"]), (0, str(number)))
            self.assertEqual((self.last().topic, self.last().properties["DELAY"]), ("T", level))
        answer = yield self.send(encode_batch([(0, b"m", b"")]), BATCH, i="DELAY\x01soon", m="true")
        self.assertEqual((answer.code, answer.remark), (1, "request field DELAY has the value 'soon'"))
