"""Small codecs of texts and names: Java hash, properties, hosts, message ids, file names, batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire import layout
from hatwisted.wire.batch import MAX_ENTRIES, BatchEntry, CorruptBatch, decode_batch, encode_batch
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.javahash import java_hash
from hatwisted.wire.messageid import BadMessageId, decode_message_id, encode_message_id
from hatwisted.wire.properties import decode_properties, encode_properties, find_property, split_raw
from hatwisted.wire.storedrecord import Record
from tests.support import golden
from tests.support.examples import examples


class JavaHash(SynchronousTestCase):
    def test_known_values(self) -> None:
        known = {"": 0, "Tag1": 2598903, "🚀": 1773027, "red": 112785, "TopicA#alt0": 641566840}
        self.assertEqual({text: java_hash(text) for text in known}, known)

    def test_wraps_to_signed_32_bits(self) -> None:
        self.assertEqual(java_hash("polygenelubricants"), -(1 << 31))

    @examples(60)
    @given(st.text(max_size=40) | st.text("aé🚀", min_size=480, max_size=560) | st.text("ab", max_size=1100))
    def test_equals_the_definition(self, text: str) -> None:
        value = 0
        raw = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(raw), 2):
            value = (31 * value + int.from_bytes(raw[at : at + 2], "big")) % (1 << 32)
        self.assertEqual(java_hash(text) % (1 << 32), value)


class Properties(SynchronousTestCase):
    def test_written_as_4_9_7_does(self) -> None:
        self.assertEqual(encode_properties({"KEYS": "a b", "WAIT": "true"}), b"KEYS\x01a b\x02WAIT\x01true")
        self.assertEqual(encode_properties({}), b"")

    def test_golden_properties_are_written_back(self) -> None:
        for *_, found in golden.places():
            if isinstance(found, Record) and len(split_raw(found.raw_properties)) == len(found.properties):
                self.assertEqual(encode_properties(found.properties), found.raw_properties)

    def test_trailing_separator_is_optional(self) -> None:
        self.assertEqual(decode_properties(b"a\x01b\x02c\x01d\x02"), decode_properties(b"a\x01b\x02c\x01d"))

    def test_last_of_a_repeated_name_wins(self) -> None:
        raw = b"WAIT\x01true\x02KEYS\x01k\x02WAIT\x01false"
        self.assertEqual(decode_properties(raw)["WAIT"], "false")
        self.assertEqual(find_property(raw, b"WAIT"), b"false")

    def test_pieces_without_name_or_value_do_not_count(self) -> None:
        raw = b"\x01v\x02n\x01\x02alone\x02\x02a\x01b\x01c\x02"
        self.assertEqual(split_raw(raw), [(b"a", b"b\x01c")])
        self.assertEqual(decode_properties(memoryview(raw)), {"a": "b\x01c"})

    def test_name_is_found_whole_only(self) -> None:
        raw = b"MY_KEYS\x01no\x02x\x01KEYS\x01no\x02KEYS\x01yes\x02XKEYS\x01no"
        self.assertEqual(find_property(raw, b"KEYS"), b"yes")
        self.assertIsNone(find_property(raw, b"TAGS"))
        self.assertEqual(find_property(b"A\x01v\x02A\x01", b"A"), b"v")

    def test_broken_utf_8_is_replaced(self) -> None:
        self.assertEqual(decode_properties(b"k\x01\xff"), {"k": "\ufffd"})

    def test_what_cannot_be_read_back_is_refused(self) -> None:
        for name, value in (("", "v"), ("n", ""), ("a\x01", "v"), ("a\x02", "v"), ("a", "\x02")):
            self.assertRaises(ValueError, encode_properties, {name: value})

    @examples(60)
    @given(st.lists(st.sampled_from([b"A", b"AB", b"B", b"\x01", b"\x02", b"v"]), max_size=14).map(b"".join))
    def test_find_agrees_with_decode(self, raw: bytes) -> None:
        for name in ("A", "AB", "B"):
            value = decode_properties(raw).get(name)
            self.assertEqual(find_property(raw, name.encode()), None if value is None else value.encode())


class Hosts(SynchronousTestCase):
    def test_text_and_bytes(self) -> None:
        for text, packed in (
            ("127.0.0.1:10911", "7f00000100002a9f"),
            ("[fd00::12]:4000", "fd00000000000000000000000000001200000fa0"),
        ):
            host = HostPort.parse(text)
            self.assertEqual((host.pack().hex(), str(host)), (packed, text))
            self.assertEqual(HostPort.unpack(b"?" + host.pack(), 1, ipv6=host.is_ipv6), host)

    def test_refusals(self) -> None:
        for text in (
            "",
            "localhost:1",
            "10.0.0.1",
            "10.0.0.1:",
            "10.0.0.1:x",
            "10.0.0.1:65536",
            ":1",
            "1.2.3.4:-1",
        ):
            self.assertRaises(ValueError, HostPort.parse, text)
        self.assertRaises(ValueError, HostPort.unpack, bytes(7))
        self.assertRaises(ValueError, HostPort(b"abc", 1).pack)


class MessageIds(SynchronousTestCase):
    def test_golden_id(self) -> None:
        text = "7F00000100002A9F00000000000000E3"
        self.assertEqual(decode_message_id(text), (HostPort(b"\x7f\0\0\1", 10911), 227))
        self.assertEqual(encode_message_id(HostPort.parse("127.0.0.1:10911"), 227), text)

    def test_ipv6_id_has_56_digits(self) -> None:
        host = HostPort.parse("[fd00::12]:4000")
        text = encode_message_id(host, 0xDD32)
        self.assertEqual(len(text), 56)
        self.assertEqual(decode_message_id(text.lower()), (host, 0xDD32))

    def test_refusals(self) -> None:
        for text in (
            "",
            "7F",
            "xyz",
            "7F00000100002A9F0000000000000 E3",
            "0" * 40,
            "0" * 16 + "F" * 16,
            " " + "0" * 31,
        ):
            self.assertRaises(BadMessageId, decode_message_id, text)


class FileNames(SynchronousTestCase):
    def test_B86_twenty_digits(self) -> None:
        self.assertEqual(layout.file_name(65536), "00000000000000065536")
        self.assertEqual(layout.parse_file_name("00000000000000065536"), 65536)

    def test_other_names_are_none(self) -> None:
        for name in (
            "",
            "65536",
            "0000000000000006553x",
            "00000000000000065536.tmp",
            "٠" * 20,
            "9" * 20,
            "+" + "0" * 19,
        ):
            self.assertIsNone(layout.parse_file_name(name))
        self.assertRaises(ValueError, layout.file_name, -1)


class Batches(SynchronousTestCase):
    EXAMPLE = bytes.fromhex("00000020 00000000 00000000 00000000 00000002 6869 0008 4b455953016b3002")

    def test_worked_example(self) -> None:
        (entry,) = decode_batch(self.EXAMPLE)
        self.assertEqual(entry, (0, b"hi", b"KEYS\x01k0\x02"))
        self.assertEqual(encode_batch([entry]), self.EXAMPLE)

    def test_cut_anywhere_is_corrupt(self) -> None:
        two = self.EXAMPLE * 2
        for cut in range(1, len(two)):
            if cut != len(self.EXAMPLE):
                self.assertRaises(CorruptBatch, decode_batch, two[:cut])
        self.assertEqual(decode_batch(b""), [])

    def test_trailing_bytes_are_corrupt(self) -> None:
        error = self.assertRaises(CorruptBatch, decode_batch, self.EXAMPLE + b"\0")
        self.assertEqual(error.position, len(self.EXAMPLE))

    def test_lying_lengths(self) -> None:
        for at, value in (
            (0, b"\0\0\0\x1f"),
            (0, b"\xff\xff\xff\xff"),
            (16, b"\xff\xff\xff\xff"),
            (16, b"\0\0\0\x0b"),
            (22, b"\xff\xff"),
        ):
            broken = self.EXAMPLE[:at] + value + self.EXAMPLE[at + len(value) :]
            self.assertRaises(CorruptBatch, decode_batch, broken)

    def test_too_many_messages(self) -> None:
        body = encode_batch([(0, b"", b"")]) * (MAX_ENTRIES + 1)
        self.assertRaises(CorruptBatch, decode_batch, body)

    @examples(30)
    @given(
        st.lists(
            st.tuples(
                st.integers(-(1 << 31), (1 << 31) - 1),
                st.binary(max_size=40),
                st.binary(max_size=40),
            ),
            max_size=8,
        )
    )
    def test_what_is_written_is_read_back(self, entries: list[BatchEntry]) -> None:
        self.assertEqual(decode_batch(encode_batch(entries)), entries)

    @examples(60)
    @given(st.binary(max_size=80))
    def test_any_bytes_give_messages_or_the_one_error(self, noise: bytes) -> None:
        try:
            decode_batch(noise)
        except CorruptBatch as error:
            self.assertLessEqual(error.position, len(noise))
