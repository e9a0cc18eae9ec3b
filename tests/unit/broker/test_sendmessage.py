"""Sends through the whole broker into a real log: what is stored, what is answered, what is refused."""

import json
from operator import attrgetter

from twisted.internet.defer import gatherResults, inlineCallbacks
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import TestCase

from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.send.sendmessage import SEND_CODES, SendProcessor, refuse_on_slave
from hatwisted.wire.batch import encode_batch
from hatwisted.wire.messageid import decode_message_id
from hatwisted.wire.properties import decode_properties
from hatwisted.wire.record import decode_record
from hatwisted.wire.registration import TopicConfig
from hatwisted.wire.remoting import RemotingCommand, encode_command
from tests.support.golden import MASTER
from tests.unit.broker.rig import BrokerRig, GroupMember

V1, V2, BATCH = 10, 310, 320
FIELDS = {
    "a": "p",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1234",
    "h": "7",
    "i": "",
    "j": "0",
    "k": "false",
    "m": "false",
}
LONG_NAMES = {
    "producerGroup": "p",
    "topic": "T",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "1",
    "sysFlag": "0",
    "bornTimestamp": "1234",
    "flag": "7",
}


class SendTests(TestCase):
    timeout = 50

    def setUp(self) -> None:
        self.rig = BrokerRig(self)
        self.store = self.rig.store
        self.addCleanup(self.rig.turn)
        acks = PutAcks(self.rig.clock, self.store.flush, 5.0, None)
        self.permission = 6
        self.state = SendState(lambda: self.permission, "127.0.0.1")
        self.sends = SendProcessor(
            self.store,
            acks,
            self.rig.tables,
            self.rig.identity,
            self.state,
        )
        self.rig.table.register_batch(SEND_CODES, self.sends.process)

    def send(self, body=b"hello", code=V2, **fields):  # type: ignore[no-untyped-def]
        ext = {
            **(LONG_NAMES if code == V1 else FIELDS),
            **{name: str(value) for name, value in fields.items()},
        }
        return self.rig.client.call(self.rig.address, RemotingCommand(code, ext=ext, body=body), 1000)

    def records(self):  # type: ignore[no-untyped-def]
        found, at = [], 0
        while at < self.store.log.max_offset:
            found.append(decode_record(self.store.log.read(at, 1 << 20)))
            at += found[-1].total_size
        return found

    @inlineCallbacks
    def test_a_send_is_stored_and_answered_with_its_place(self):  # type: ignore[no-untyped-def]
        answer = yield self.send(i="KEYS\x01k\x02TAGS\x01t")
        (record,) = self.records()
        self.assertEqual((answer.code, answer.ext["queueId"], answer.ext["queueOffset"]), (0, "1", "0"))
        self.assertEqual(decode_message_id(answer.ext["msgId"])[1], 0)
        self.assertEqual(
            (record.topic, record.body, record.flag, record.born_timestamp), ("T", b"hello", 7, 1234)
        )
        self.assertEqual(record.properties, {"KEYS": "k", "TAGS": "t", "CLUSTER": "DefaultCluster"})

    @inlineCallbacks
    def test_version_1_means_the_same(self):  # type: ignore[no-untyped-def]
        answer = yield self.send(code=V1, properties="TAGS\x01t\x02")
        (record,) = self.records()
        self.assertEqual((answer.code, record.topic, record.queue_id, record.flag), (0, "T", 1, 7))
        self.assertEqual(record.properties, {"TAGS": "t", "CLUSTER": "DefaultCluster"})

    @inlineCallbacks
    def test_WAIT_is_taken_out_wherever_it_stands(self):  # type: ignore[no-untyped-def]
        for text in (
            "WAIT\x01true\x02TAGS\x01t\x02",
            "TAGS\x01t\x02WAIT\x01true\x02",
            "TAGS\x01t\x02WAIT\x01false",
        ):
            yield self.send(i=text)
        yield self.send(i="AWAIT\x01x\x02TAGS\x01t")
        *stripped, kept = self.records()
        self.assertEqual(
            [one.properties for one in stripped], [{"TAGS": "t", "CLUSTER": "DefaultCluster"}] * 3
        )
        self.assertEqual(kept.properties, {"AWAIT": "x", "TAGS": "t", "CLUSTER": "DefaultCluster"})

    @inlineCallbacks
    def test_pipelined_sends_get_consecutive_places(self):  # type: ignore[no-untyped-def]
        answers = yield gatherResults([self.send(str(n).encode()) for n in range(50)])
        self.assertEqual([int(answer.ext["queueOffset"]) for answer in answers], list(range(50)))
        self.assertEqual([record.body for record in self.records()], [str(n).encode() for n in range(50)])

    @inlineCallbacks
    def test_a_batch_is_stored_as_consecutive_records_with_the_shared_properties(self):  # type: ignore[no-untyped-def]
        for ending in (b"", b"\x02"):
            entries = [(n, b"m%d" % n, b"UNIQ_KEY\x01U%d" % n + ending) for n in range(3)]
            answer = yield self.send(
                encode_batch(entries), BATCH, i="WAIT\x01true\x02UNIQ_KEY\x01batch", m="true"
            )
            stored = self.records()[-3:]
            places = [decode_message_id(text)[1] for text in answer.ext["msgId"].split(",")]
            self.assertEqual(places, [record.physical_offset for record in stored])
            self.assertEqual([record.body for record in stored], [b"m0", b"m1", b"m2"])
            expected = {"WAIT": "true", "CLUSTER": "DefaultCluster"}
            self.assertEqual(
                [record.properties for record in stored],
                [{"UNIQ_KEY": f"U{n}", **expected} for n in range(3)],
            )

    @inlineCallbacks
    def test_members_with_and_without_a_last_separator_or_properties_in_one_batch(self):  # type: ignore[no-untyped-def]
        entries = [
            (0, b"a", b"TAGS\x01x"),
            (0, b"b", b"TAGS\x01y\x02"),
            (0, b"c", b""),
            (0, b"", b"TAGS\x01z"),
        ]
        answer = yield self.send(encode_batch(entries), BATCH)
        self.assertEqual(answer.code, 0)
        stored = self.records()
        self.assertEqual([record.properties.get("TAGS") for record in stored], ["x", "y", None, "z"])
        self.assertEqual({record.properties["CLUSTER"] for record in stored}, {"DefaultCluster"})
        self.assertEqual(stored[-1].physical_offset + stored[-1].total_size, self.store.log.max_offset)

    @inlineCallbacks
    def test_a_golden_batch_gets_the_captured_properties(self):  # type: ignore[no-untyped-def]
        log = (MASTER / "commitlog" / "00000000000000065536").read_bytes()
        golden = decode_record(log, 102133 - 65536)
        own, _, shared = golden.raw_properties.partition(b"\x02CLUSTER\x01")
        self.assertTrue(shared.startswith(b"DefaultCluster"))
        yield self.send(
            encode_batch([(golden.flag, golden.body, own)]), BATCH, i="WAIT\x01true\x02", b=golden.topic
        )
        (record,) = self.records()
        self.assertEqual(decode_properties(record.raw_properties), decode_properties(golden.raw_properties))
        self.assertEqual((record.body_crc, record.total_size), (golden.body_crc, golden.total_size))

    @inlineCallbacks
    def test_what_a_producer_gets_wrong_is_reported_and_stores_nothing(self):  # type: ignore[no-untyped-def]
        for code, text, sent in (
            (1, "request queueId[99] is illegal, ", self.send(e=99)),
            (1, "field e has the value 'x'", self.send(e="x")),
            (1, "field e has the value", self.send(e=1 << 40)),
            (17, "", self.send(b="Unknown", c="NoSuchDefault")),
            (1, "", self.send(b="no spaces")),
            (16, "", self.send(b="SCHEDULE_TOPIC_XXXX")),
            (13, "commit log file", self.send(bytes(5 << 20))),
            (13, "properties", self.send(i="K\x01" + "v" * 32760)),
            (13, "left over", self.send(b"abc", BATCH)),
            (13, "without messages", self.send(b"", BATCH)),
            (1, "DELAY has the value 'soon'", self.send(i="DELAY\x01soon\x02")),
            (13, "batch can't be transactional", self.send(encode_batch([(0, b"x", b"")]), BATCH, f=4)),
            (13, "transactional", self.send(f=8)),
        ):
            answer = yield sent
            self.assertEqual(answer.code, code, answer.remark)
            self.assertIn(text, answer.remark)
        self.assertEqual(self.store.log.max_offset, 0)

    @inlineCallbacks
    def test_one_bad_send_leaves_its_neighbours_alone(self):  # type: ignore[no-untyped-def]
        answers = yield gatherResults([self.send(), self.send(e=99), self.send()])
        self.assertEqual([answer.code for answer in answers], [0, 1, 0])

    @inlineCallbacks
    def test_a_number_beyond_int32_in_a_header_ends_its_senders_connection_alone(self):  # type: ignore[no-untyped-def]
        for number in (1 << 31, 1 << 63):
            for odd in ({"opaque": number}, {"flag": number}):
                stranger = yield GroupMember.connected(self.rig)
                stranger.send(RemotingCommand(V2, ext=FIELDS, body=b"odd", **odd))
                answer = yield self.send(b"usual")
                yield stranger.gone
                self.assertEqual((answer.code, stranger.commands), (0, []))
        self.assertEqual({record.body for record in self.records()}, {b"usual"})

    def test_an_answer_that_cannot_be_encoded_keeps_no_other_back(self):  # type: ignore[no-untyped-def]
        for opaque, binary, failures in ((1 << 31, True, 1), (1 << 63, False, 0)):
            asked = [RemotingCommand(V2, number, ext=FIELDS, body=b"x") for number in range(3)]
            asked[1] = RemotingCommand(V2, opaque, ext=FIELDS, body=b"x", binary=binary)
            connection = StringTransport()
            connection.send = connection.write
            connection.host_bytes, connection.peer = bytes(8), "10.0.0.7:1"
            self.sends.process(connection, asked)
            written = connection.value()
            self.assertEqual([written.count(b'"opaque":%d,' % number) for number in (0, 2)], [1, 1])
            self.assertEqual(written.count(b'"code":0,'), 3 - failures)
            self.assertEqual(len(self.flushLoggedErrors(ValueError)), failures)

    @inlineCallbacks
    def answers(self, *asked):  # type: ignore[no-untyped-def]
        """Codes of the answers to sends that come with one read, each of which gets one."""
        client = yield GroupMember.connected(self.rig)
        sends = [RemotingCommand(V2, at, ext=FIELDS | ext, body=b"x") for at, ext in enumerate(asked)]
        client.transport.write(b"".join(map(encode_command, sends)))
        client.send(RemotingCommand(-1, len(sends)))
        yield client.answer_to(len(sends))
        answers = sorted(client.commands, key=attrgetter("opaque"))
        self.assertEqual([answer.opaque for answer in answers], [*range(len(sends))])
        return [answer.code for answer in answers]

    @inlineCallbacks
    def test_a_half_that_names_no_group_is_refused_by_itself(self):  # type: ignore[no-untyped-def]
        for group in ("", "p\x02q"):
            codes = yield self.answers({"e": "99"}, {}, {"f": "4", "a": group}, {})
            self.assertEqual(codes, [1, 0, 13, 0])
        self.assertEqual(len(self.records()), 4)

    @inlineCallbacks
    def test_a_send_that_fails_here_leaves_its_neighbours_alone(self):  # type: ignore[no-untyped-def]
        admit = self.sends._admission._queue

        def queue(connection, header, known):  # type: ignore[no-untyped-def]
            return admit(connection, header, known) // header.queue_id

        self.patch(self.sends._admission, "_queue", queue)
        codes = yield self.answers({"e": "99"}, {}, {"e": "0", "b": "U"}, {})
        self.assertEqual(codes, [1, 0, 1, 0])
        self.assertEqual(len(self.records()), 2)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    @inlineCallbacks
    def test_a_queue_below_0_lets_the_broker_choose(self):  # type: ignore[no-untyped-def]
        answers = yield gatherResults([self.send(e=queue_id) for queue_id in (-1, -1, -2, -(1 << 31))])
        self.assertEqual(sorted(answer.ext["queueId"] for answer in answers), ["0", "1", "2", "3"])

    @inlineCallbacks
    def test_a_full_disk_is_service_not_available_with_the_reason(self):  # type: ignore[no-untyped-def]
        self.store.watermark.note_full("no room for the next file")
        answer = yield self.send()
        self.assertEqual((answer.code, answer.remark), (14, "no room for the next file"))

    @inlineCallbacks
    def test_a_stopping_broker_takes_no_puts(self):  # type: ignore[no-untyped-def]
        self.state.stop()
        answer = yield self.send()
        self.assertEqual(answer.code, 14)
        self.assertEqual(self.store.log.max_offset, 0)

    @inlineCallbacks
    def test_oneway_is_stored_without_an_answer(self):  # type: ignore[no-untyped-def]
        self.rig.client.oneway(self.rig.address, RemotingCommand(V2, ext=FIELDS, body=b"quiet"))
        yield self.send(b"loud")
        self.assertEqual([record.body for record in self.records()], [b"quiet", b"loud"])

    @inlineCallbacks
    def test_brokerPermission_without_writing_is_16_for_ordered_topics_and_no_others(self):  # type: ignore[no-untyped-def]
        self.permission = 4
        topics = self.rig.tables.topics
        topics.put(TopicConfig(topic_name="Ordered", order=True))
        for sent in (self.send(b="Ordered"), self.send(encode_batch([(0, b"x", b"")]), BATCH, b="Ordered")):
            answer = yield sent
            self.assertEqual(
                (answer.code, answer.remark), (16, "the broker[127.0.0.1] sending message is forbidden")
            )
        self.assertEqual(self.store.log.max_offset, 0)
        for topic in ("T", "New"):
            answer = yield self.send(b=topic)
            self.assertEqual(answer.code, 0)
        for self.permission, code in ((6, 0), (4, 16)):
            answer = yield self.send(b="Ordered")
            self.assertEqual(answer.code, code)

    @inlineCallbacks
    def test_a_topic_is_judged_once_until_the_topics_change(self):  # type: ignore[no-untyped-def]
        topics = self.rig.tables.topics
        judged = []
        judge = topics.for_send

        def counted(topic, *rest):  # type: ignore[no-untyped-def]
            judged.append(topic)
            return judge(topic, *rest)

        self.patch(topics, "for_send", counted)
        for topic in ("T", "U", "T", "U"):
            topics.ensure(topic, 4)
            self.assertEqual((yield self.send(b=topic)).code, 0)
        self.assertEqual(judged, ["T", "U", "T"])  # making U was a change
        topics.put(TopicConfig(topic_name="T", perm=4))
        answer = yield self.send(b="T")
        self.assertEqual((answer.code, answer.remark), (16, "the topic[T] sending message is forbidden"))
        topics.put(TopicConfig(topic_name="U", read_queue_nums=1, write_queue_nums=1))
        answer = yield self.send(b="U", e=2)
        self.assertEqual(answer.code, 1)
        topics.delete("U")
        self.assertEqual((yield self.send(b="U")).code, 0)
        self.assertIsNotNone(topics.get("U"))

    @inlineCallbacks
    def test_B10_a_slave_takes_no_messages(self):  # type: ignore[no-untyped-def]
        self.rig.table.register_batch(SEND_CODES, refuse_on_slave)
        answer = yield self.send()
        self.assertEqual(answer.code, 14)
        self.assertEqual(self.store.log.max_offset, 0)

    @inlineCallbacks
    def test_puts_are_counted(self):  # type: ignore[no-untyped-def]
        yield self.send()
        yield self.send(encode_batch([(0, b"x", b"")] * 5), BATCH)
        yield self.send(bytes(5 << 20))
        stats = self.store.stats
        self.assertEqual((stats.put_total, stats.put_failed), (6, 1))
        self.assertEqual(stats.put_size_total, self.store.log.max_offset)
        self.assertIn("putMessageTimesTotal", json.loads(self.rig.runtime.encode())["table"])
