"""Messages as requests, answers as results, and what stands in the way of either."""

from __future__ import annotations

import sys
import zlib
from typing import Any

import lz4.frame
import zstandard
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.accumulator import MAX_BATCH_BYTES
from hatwisted.clientcore.address import parse_address, split_addresses
from hatwisted.clientcore.compression import COMPRESS_ABOVE, compress, decompress
from hatwisted.clientcore.errors import BadAnswer, BadMessage, BadSetting, UnreadableBody
from hatwisted.clientcore.message import (
    Message,
    UniqueKeys,
    checked_body,
    checked_group,
    checked_properties,
    checked_topic,
    decode_records,
    received,
    store_address,
)
from hatwisted.clientcore.sending import (
    RETRY_CODES,
    Outgoing,
    SendResult,
    SendStatus,
    batch_share,
    batched,
    results,
    single,
)
from hatwisted.clientcore.subscription import Sql, parse_subscription
from hatwisted.wire.batch import decode_batch
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.inflate import MAX_INFLATED
from hatwisted.wire.layout import MAX_PROPERTIES_LENGTH
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.properties import decode_properties, encode_properties
from hatwisted.wire.record import encode_record, make_record
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.storedrecord import Record

QUEUE = MessageQueue(broker_name="a", queue_id=3, topic="T")
HOST = HostPort(b"\x0a\0\0\x01", 10911)
LIMIT = 1000


def one(message: Message, **extra: str) -> Outgoing:
    return single(message, "KEY", above=COMPRESS_ABOVE, limit=LIMIT, extra=extra)


class RequestTests(SynchronousTestCase):
    FULL = Message(
        topic="T",
        body=b"body",
        tags="red",
        keys=["k1", "k2"],
        delay_level=3,
        wait=False,
        order_key="o",
        flag=5,
        properties={"color": "blue"},
    )

    def test_a_send_field_by_field(self) -> None:
        out = one(self.FULL, TRAN_MSG="true")
        properties = {"color": "blue", "UNIQ_KEY": "KEY", "WAIT": "false", "KEYS": "k1 k2", "TAGS": "red"}
        properties |= {"DELAY": "3", "TRAN_MSG": "true"}
        self.assertEqual(decode_properties(out.properties), properties)
        self.assertEqual((out.body, out.ids, out.order_key, out.pinned), (b"body", ("KEY",), "o", True))
        self.assertEqual(out.size, 4 + len(out.properties))
        request = out.request("g", QUEUE, 1234)
        fields = {"a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1234", "h": "5"}
        fields |= {"i": out.properties.decode(), "j": "0", "k": "false", "m": "false", "n": "a"}
        self.assertEqual((request.code, request.ext, request.body), (310, fields, b"body"))

    def test_the_least_says_as_little(self) -> None:
        out = one(Message(topic="T", body=b""))
        self.assertEqual(decode_properties(out.properties), {"UNIQ_KEY": "KEY", "WAIT": "true"})
        self.assertEqual((out.sys_flag, out.flag, out.order_key, out.pinned), (0, 0, None, False))
        nameless = MessageQueue(broker_name="", queue_id=0, topic="T")
        self.assertNotIn("n", out.request("g", nameless, 0).ext)

    def test_a_half_message_is_marked_whatever_else_is(self) -> None:
        body = b"x" * (COMPRESS_ABOVE + 1)
        out = one(Message(topic="T", body=body)).in_transaction()
        self.assertEqual(out.sys_flag, 0x4 | 0x1 | 0x300)

    def test_a_batch_field_by_field(self) -> None:
        messages = [Message(topic="T", body=b"%d" % n, flag=n, tags="t", order_key="o") for n in range(2)]
        out = batched(messages, ["K0", "K1"], LIMIT)
        self.assertEqual((out.code, out.ids, out.order_key, out.flag), (320, ("K0", "K1"), "o", 0))
        self.assertEqual(decode_properties(out.properties), {"WAIT": "true"})
        entries = [(flag, body, decode_properties(raw)) for flag, body, raw in decode_batch(out.body)]
        each = {"WAIT": "true", "TAGS": "t"}
        self.assertEqual(entries, [(n, b"%d" % n, {"UNIQ_KEY": f"K{n}"} | each) for n in range(2)])
        self.assertEqual(out.fields("g", QUEUE, 0)["m"], True)
        hasty = batched([Message(topic="T", body=b"", wait=False)], ["K"], LIMIT)
        self.assertEqual(decode_properties(hasty.properties), {"WAIT": "false"})

    def test_what_cant_be_one_request(self) -> None:
        plain = Message(topic="T", body=b"")
        share = "the messages of a batch share topic, wait and order_key"
        for others, words in (
            ([Message(topic="U", body=b"")], share),
            ([Message(topic="T", body=b"", wait=False)], share),
            ([Message(topic="T", body=b"", order_key="o")], share),
            ([Message(topic="T", body=b"", delay_level=1)], "delayed messages can't be sent in a batch"),
        ):
            messages = [plain, *others]
            error = self.assertRaises(BadMessage, batched, messages, ["K0", "K1"], LIMIT)
            self.assertEqual(str(error), words)
        self.assertEqual(str(self.assertRaises(BadMessage, batched, [], [], LIMIT)), "an empty batch")
        size = len(batched([plain], ["K"], LIMIT).body)
        self.assertEqual(len(batched([plain], ["K"], size).body), size)
        error = self.assertRaises(BadMessage, batched, [plain], ["K"], size - 1)
        self.assertEqual(str(error), f"a batch of {size} bytes, {size - 1} at most")

    def test_the_limit_is_of_the_body_as_it_travels(self) -> None:
        one(Message(topic="T", body=b"x" * LIMIT))
        error = self.assertRaises(BadMessage, one, Message(topic="T", body=b"x" * (LIMIT + 1)))
        self.assertEqual(str(error), f"a body of {LIMIT + 1} bytes, {LIMIT} at most")
        one(Message(topic="T", body=b"x" * (COMPRESS_ABOVE + 1)))

    def test_a_share_of_a_batch_is_no_less_than_its_entry(self) -> None:
        for message in (
            Message(topic="T", body=b"12345", properties={"a": "b"}),
            Message(topic="T", body=b""),
            Message(topic="T", body=b"", tags="red", keys=["one", "\u6d88\u606f"], wait=False),
            Message(topic="T", body=b"", properties={"name": "\u6d88" * 100}),
        ):
            entry = len(batched([message], ["0" * 32], MAX_BATCH_BYTES).body)
            self.assertLessEqual(entry, batch_share(message))
            self.assertLess(batch_share(message) - entry, 20)
        plain, named = Message(topic="T", body=b""), Message(topic="T", body=b"1", properties={"ab": "cde"})
        self.assertEqual(batch_share(named) - batch_share(plain), 1 + 2 + 3 + 2)


class ResultTests(SynchronousTestCase):
    OUT = batched([Message(topic="T", body=b"")] * 3, ["K0", "K1", "K2"], LIMIT)

    def answer(self, code: int = 0, **ext: str) -> RemotingCommand:
        fields = {"msgId": "O0,O1", "queueId": "7", "queueOffset": "40"} | ext
        return RemotingCommand(code, flag=1, ext=fields)

    def test_a_result_for_each_message(self) -> None:
        found = results(self.answer(11), self.OUT, QUEUE, "a:1")
        placed = MessageQueue(broker_name="a", queue_id=7, topic="T")
        expected = [
            SendResult(
                status=SendStatus.SLAVE_NOT_AVAILABLE,
                message_id=f"K{number}",
                offset_id=offset_id,
                queue=placed,
                queue_offset=40 + number,
                address="a:1",
            )
            for number, offset_id in enumerate(("O0", "O1", ""))
        ]
        self.assertEqual(found, expected)

    def test_an_answer_that_lacks_something(self) -> None:
        for name in ("queueId", "queueOffset"):
            error = self.assertRaises(BadAnswer, results, self.answer(**{name: "x"}), self.OUT, QUEUE, "a:1")
            self.assertEqual(str(error), f"a:1: its answer's field {name} is 'x', not a number")
        nameless = RemotingCommand(0, flag=1, ext={"queueId": "0", "queueOffset": "0"})
        self.assertEqual([each.offset_id for each in results(nameless, self.OUT, QUEUE, "a:1")], [""] * 3)

    def test_B117_codes_that_another_broker_may_not_say(self) -> None:
        self.assertEqual(RETRY_CODES, {1, 2, 14, 16, 17, 204, 205, 1500})


class CheckTests(SynchronousTestCase):
    def test_bodies(self) -> None:
        for body in (b"ab", bytearray(b"ab"), memoryview(b"ab")):
            found = checked_body(body)
            self.assertEqual((found, type(found)), (b"ab", bytes))
        self.assertRaises(BadMessage, checked_body, "ab")

    def test_what_a_type_checker_would_refuse(self) -> None:
        wrong: dict[str, tuple[object, ...]] = {
            "properties": ({"price": 5}, {5: "price"}, None, "a=b"),
            "keys": ("order-1", 7, [7]),
            "tags": (5, None, ["red"]),
            "order_key": (5, b"k"),
            "delay_level": (-1, "1", None),
        }
        for name, values in wrong.items():
            for value in values:
                fields: dict[str, Any] = {"topic": "T", "body": b"x", name: value}
                error = self.assertRaises(BadMessage, one, Message(**fields))
                self.assertIn("must be", str(error))
                self.assertRaises(BadMessage, batched, [Message(**fields)], ["K"], LIMIT)
                self.assertRaises(BadMessage, batch_share, Message(**fields))
        for no_message in ("hello", None, b"x"):
            error = self.assertRaises(BadMessage, one, no_message)
            self.assertEqual(str(error), f"a Message can be sent, not {type(no_message).__name__}")

    def test_subscriptions(self) -> None:
        error = self.assertRaises(BadSetting, parse_subscription, "T", 5, 1)
        self.assertEqual(str(error), "topic 'T': a subscription is a string or Sql(...), not 5")
        self.assertRaises(BadSetting, parse_address, None)

    def test_topics(self) -> None:
        for topic in ("T", "%RETRY%g", "a|b_c-9", "T" * 127):
            self.assertEqual(checked_topic(topic), topic)
        for wrong in ("", "T" * 128, "a b", "a.b", "ä", None, 5):
            error = self.assertRaises(BadMessage, checked_topic, wrong)
            words = f"topic {wrong!r}: 1 to 127 letters, digits and any of %|_- are allowed"
            self.assertEqual(str(error), words)

    def test_groups(self) -> None:
        for group in ("g", "%RETRY%g", "a|b_c-9", "G" * 255):
            self.assertEqual(checked_group(group), group)
        for wrong in ("", "  ", "a b", "a.b", "ä", None, 5):
            error = self.assertRaises(BadSetting, checked_group, wrong)
            words = f"group {wrong!r}: 1 to 255 letters, digits and any of %|_- are allowed"
            self.assertEqual(str(error), words)
        error = self.assertRaises(BadSetting, checked_group, "G" * 256)
        self.assertLess(len(str(error)), 350)

    def test_properties(self) -> None:
        most = {"a": "x" * (MAX_PROPERTIES_LENGTH - 2)}
        self.assertEqual(len(checked_properties(most)), MAX_PROPERTIES_LENGTH)
        error = self.assertRaises(BadMessage, checked_properties, {"ab": most["a"]})
        told = f"{MAX_PROPERTIES_LENGTH + 1} bytes of properties, {MAX_PROPERTIES_LENGTH} at most"
        self.assertEqual(str(error), told)
        error = self.assertRaises(BadMessage, checked_properties, {"a": ""})
        self.assertEqual(str(error), "property 'a'='' can't be stored")

    def test_unique_keys_count_up_after_their_prefix(self) -> None:
        keys = UniqueKeys(b"\xab" * 8)
        self.assertEqual(
            [keys.next() for _ in range(2)], ["AB" * 8 + "0" * 15 + "1", "AB" * 8 + "0" * 15 + "2"]
        )


class ReceivedTests(SynchronousTestCase):
    def record(self, topic: str = "T", body: bytes = b"x", **properties: str) -> Record:
        raw = encode_properties(properties)
        return make_record(
            topic,
            body,
            raw_properties=raw,
            queue_id=3,
            physical_offset=42,
            store_host=HOST,
            reconsume_times=2,
        )

    def test_a_message_that_comes_back_has_its_first_topic(self) -> None:
        message = received(self.record("%RETRY%g", RETRY_TOPIC="T", KEYS="a b"), "a")
        self.assertEqual(
            (message.topic, message.queue.topic, message.queue.broker_name), ("T", "%RETRY%g", "a")
        )
        self.assertEqual((message.keys, message.tags, message.reconsume_times), (["a", "b"], "", 2))
        self.assertEqual(message.message_id, message.offset_id)
        self.assertEqual(store_address(message), HOST)

    def test_properties_that_end_in_a_zero_byte(self) -> None:
        """A log's reader may take it for a torn record; a broker has it whole, and its queue must go on."""
        sent = self.record(own="ends so\0")
        self.assertEqual(decode_records(encode_record(sent)), [sent])

    def test_records_back_to_back_and_what_isnt_one(self) -> None:
        whole = encode_record(self.record()) + encode_record(self.record("U"))
        self.assertEqual([each.topic for each in decode_records(whole)], ["T", "U"])
        self.assertEqual(decode_records(b""), [])
        size = len(whole)
        error = self.assertRaises(BadAnswer, decode_records, whole[:-1])
        self.assertIn(f"{size // 2} of {size - 1}", str(error))
        error = self.assertRaises(BadAnswer, decode_records, whole + b"nonsense" * 20)
        self.assertIn(f"no record at {size} of {size + 160}", str(error))


class CompressionTests(SynchronousTestCase):
    def test_from_a_size_on_if_it_shrinks(self) -> None:
        body = b"x" * 101
        packed, bits = compress(body, 100)
        self.assertEqual((zlib.decompress(packed), bits), (body, 0x1 | 0x300))
        self.assertEqual(packed[:2], b"\x78\x5e", "level 5, as in RocketMQ")
        self.assertEqual(compress(body, 101), (body, 0))
        self.assertEqual(compress(b"abc", 0), (b"abc", 0))
        self.assertEqual(compress(b"x" * COMPRESS_ABOVE)[1], 0)
        self.assertEqual(compress(b"x" * (COMPRESS_ABOVE + 1))[1], 0x301)

    def test_back_again(self) -> None:
        packed = zlib.compress(b"body")
        for sys_flag, body in ((0, packed), (0x300, packed), (0x1, b"body"), (0x301, b"body")):
            self.assertEqual(decompress(packed, sys_flag), body)
        error = self.assertRaises(UnreadableBody, decompress, b"nonsense", 0x1)
        self.assertTrue(str(error).startswith("the body is not zlib: "), error)

    def test_LZ4_and_Zstandard_where_their_libraries_are(self) -> None:
        plain = b"body " * 1000
        for sys_flag, packed in (
            (0x101, lz4.frame.compress(plain)),
            (0x201, zstandard.compress(plain)),
            # As a stream, as RocketMQ's producers write it: without its size.
            (0x201, zstandard.ZstdCompressor(write_content_size=False).compress(plain)),
        ):
            found = decompress(packed, sys_flag)
            self.assertEqual((found, type(found)), (plain, bytes))
            for wrong in (packed[:-5], b"abc", b""):
                self.assertRaises(UnreadableBody, decompress, wrong, sys_flag)

    def test_few_bytes_that_grow_past_the_limit_are_refused(self) -> None:
        zeros = bytes(MAX_INFLATED + 1)
        for sys_flag, packed in (
            (0x101, lz4.frame.compress(zeros)),
            (0x201, zstandard.compress(zeros)),
            (0x201, zstandard.ZstdCompressor(write_content_size=False).compress(zeros)),
        ):
            self.assertRaises(UnreadableBody, decompress, packed, sys_flag)

    def test_what_is_missing_is_named(self) -> None:
        for name in ("lz4", "lz4.frame", "zstandard"):
            self.patch(sys, "modules", {**sys.modules, name: None})
        for sys_flag, words in (
            (0x101, "the body is compressed with LZ4: pip install 'hatwisted[compression]'"),
            (0x201, "the body is compressed with Zstandard: pip install 'hatwisted[compression]'"),
            (0x401, "the body is compressed with compression type 4; install a later version"),
        ):
            error = self.assertRaises(UnreadableBody, decompress, b"abc", sys_flag)
            self.assertEqual(str(error), words)


class AddressTests(SynchronousTestCase):
    def test_host_and_port(self) -> None:
        for text, found in (
            ("h:1", ("h", 1)),
            ("[::1]:65535", ("::1", 65535)),
            ("a-b.c:10911", ("a-b.c", 10911)),
        ):
            self.assertEqual(parse_address(text), found)
        for wrong in ("h", "h:0", "h:65536", ":1", "::1:9", "h :1", "h:1 ", "[]:1"):
            error = self.assertRaises(BadSetting, parse_address, wrong)
            self.assertEqual(str(error), f"address {wrong!r} isn't host:port")

    def test_several_each_once(self) -> None:
        for text in ("a:1;b:1", " a:1 , b:1;;a:1", ["a:1", " b:1 ", "", "a:1"]):
            self.assertEqual(split_addresses(text), ("a:1", "b:1"))
        self.assertEqual(split_addresses("; "), ())


class SubscriptionTests(SynchronousTestCase):
    def test_tags(self) -> None:
        for text, tags in (
            ("*", set()),
            ("", set()),
            (" * ", set()),
            ("a", {"a"}),
            (" a||b || ", {"a", "b"}),
        ):
            found = parse_subscription("T", text, 5)
            self.assertEqual((found.tags, found.kind, found.version, found.topic), (tags, "TAG", 5, "T"))
            self.assertEqual(found.wants({"TAGS": "a"}), not tags or "a" in tags)
            self.assertEqual(found.wants({}), not tags)

    def test_an_expression_is_left_to_the_broker(self) -> None:
        found = parse_subscription("T", Sql("a > 5"), 5)
        self.assertEqual((found.kind, found.expression, found.tags), ("SQL92", "a > 5", frozenset()))
        self.assertTrue(found.wants({}))
        self.assertEqual(found.entry()["expressionType"], "SQL92")
        self.assertEqual((found.version, found.topic), (5, "T"))
        for expression in ("*", Sql("a > 5")):
            self.assertRaises(BadMessage, parse_subscription, "a b", expression, 5)
