"""Records: golden bytes there and back, the spec's worked examples, damage of every kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire import layout
from hatwisted.wire import record as oracle
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import encode_blank, encode_record, make_record, record_size
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import END, NEED_DATA, Blank, CorruptRecord, Record, Scan, crc
from tests.support import golden
from tests.support.examples import examples

TOPIC_B = bytes.fromhex(
    "000000d3daa320a75202ef8d0000000100000001000000000000000000000000000000e300000000000001a1fb858067"
    "7f0000010000cb78000001a1fb8580727f00000100002a9f000000000000000000000000000000010006546f70696342"
    "00714b455953016b65793120616c743102554e49515f4b45590146443030303030303030303030303030303030303030"
    "3030303030303030303231383231314442443136413636373144393836373030303102434c55535445520144656661"
    "756c74436c757374657202544147530154616731"
)
V2_PROPERTIES = (
    b"UNIQ_KEY\x01FD000000000000000000000000000002421C1DBD16A6672B2AB4002A\x02TAGS\x01\xc3\x84\xc3\x96\x02"
)
LONG_TOPIC_V2 = (
    bytes.fromhex(
        "00000165daa320ab5ecfdce300000000e2e26e6b0000000000000003000000000000466100000000000001a1fb9312b4"
        "0a01020300000fa0000001a1fb9312b50a09080700002a9f000000000000000000000000000000067b0cc731e20600b7"
    )
    + b"L"
    + b"o" * 180
    + b"ng\x00\x4c"
    + V2_PROPERTIES
)
BOTH_HOSTS_V6 = (
    bytes.fromhex(
        "000000d1daa320a7099f444c00000001f55fc96d0000000000000008000000000000dd3200000030000001a1fb931b8b"
        "fd00000000000000000000000000001200000fa0000001a1fb931b8bfd00000000000000000000000000003400002a9f"
        "0000000000000000000000000000000f8d091a89d744be9e6ef1e6a8774314025432004d"
    )
    + b"UNIQ_KEY\x01FD000000000000000000000000000002421C1DBD16A6672B338B0085"
    + b"\x02TAGS\x01\xf0\x9f\x9a\x80x\x02"
)


def changed(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


def outcome(decode: Callable[..., object], data: bytes, options: Mapping[str, object]) -> object:
    """What a decoder makes of bytes; the position, where it's an error."""
    try:
        return decode(data, **options)
    except CorruptRecord as error:
        return error.position


class GoldenLog(SynchronousTestCase):
    """Both commit logs of the captured pair."""

    def test_every_record_and_blank_is_read_and_written_back_to_its_bytes(self) -> None:
        seen = {Record: 0, Blank: 0}
        for data, position, _physical, found in golden.places():
            seen[type(found)] += 1
            again = encode_record(found) if isinstance(found, Record) else encode_blank(found.total_size)
            self.assertEqual(again, data[position : position + len(again)])
        self.assertEqual(seen, {Record: 492, Blank: 2})

    def test_B88_both_logs_hold_the_same_bytes(self) -> None:
        master, slave = (golden.log_bytes(side) for side in ("master", "slave"))
        self.assertEqual(master, slave)

    def test_fields_of_the_worked_example(self) -> None:
        record = decode_record(TOPIC_B, at=227)
        assert isinstance(record, Record)
        self.assertEqual(
            (record.topic, record.queue_id, record.flag, record.queue_offset), ("TopicB", 1, 1, 0)
        )
        self.assertEqual((record.body, record.body_crc, record.total_size), (b"\x00", 0x5202EF8D, 211))
        self.assertEqual(
            (str(record.born_host), str(record.store_host)), ("127.0.0.1:52088", "127.0.0.1:10911")
        )
        self.assertEqual((record.born_timestamp, record.store_timestamp), (0x01A1FB858067, 0x01A1FB858072))
        self.assertEqual(record.properties["KEYS"], "key1 alt1")
        self.assertEqual(record.properties["TAGS"], "Tag1")

    def test_a_committed_transaction_names_its_half_message(self) -> None:
        commits = [
            found
            for _, _, _, found in golden.places()
            if isinstance(found, Record) and found.transaction_type == layout.SYS_TRANSACTION_COMMIT
        ]
        self.assertEqual(commits[0].physical_offset, 107053)
        self.assertEqual(commits[0].prepared_transaction_offset, 106753)


class OtherLayouts(SynchronousTestCase):
    """Version 2 and IPv6, which the golden log lacks: bytes written by a 5.3.3 store."""

    def test_version_2_has_a_two_byte_topic_length(self) -> None:
        record = decode_record(LONG_TOPIC_V2, at=0x4661)
        assert isinstance(record, Record)
        self.assertEqual((record.version, len(record.topic), record.total_size), (2, 183, 357))
        self.assertEqual(record.properties["TAGS"], "ÄÖ")
        self.assertEqual(encode_record(record), LONG_TOPIC_V2)

    def test_topics_and_properties_have_a_length(self) -> None:
        for version, most in ((1, layout.MAX_TOPIC_LENGTH), (2, layout.MAX_TOPIC_LENGTH_V2)):
            record = replace(make_record("T" * most, b"body"), version=version)
            found = decode_record(encode_record(record))
            assert isinstance(found, Record)
            self.assertEqual((found.version, found.topic), (version, "T" * most))
            self.assertRaises(ValueError, encode_record, replace(record, topic="T" * (most + 1)))
        most = layout.MAX_PROPERTIES_LENGTH
        record = make_record("T", b"body", raw_properties=b"x" * most)
        found = decode_record(encode_record(record))
        assert isinstance(found, Record)
        self.assertEqual(len(found.raw_properties), most)
        self.assertRaises(ValueError, encode_record, replace(record, raw_properties=b"x" * (most + 1)))

    def test_ipv6_hosts_shift_what_follows(self) -> None:
        record = decode_record(BOTH_HOSTS_V6, at=0xDD32)
        assert isinstance(record, Record)
        self.assertEqual(
            (str(record.born_host), str(record.store_host)), ("[fd00::12]:4000", "[fd00::34]:10911")
        )
        self.assertEqual((record.topic, record.properties["TAGS"], record.total_size), ("T2", "🚀x", 209))
        self.assertEqual(encode_record(record), BOTH_HOSTS_V6)

    def test_one_ipv6_host_of_either_side(self) -> None:
        v6 = HostPort(bytes(range(16)), 1)
        for record in (make_record("T", b"body", born_host=v6), make_record("T", b"body", store_host=v6)):
            self.assertEqual(decode_record(encode_record(record)), record)
            self.assertEqual(record.total_size, layout.FIXED_SIZE + 4 + 1 + layout.IPV6_EXTRA)


class Cut(SynchronousTestCase):
    """Each vector whole, cut at every offset, and with trailing bytes."""

    def test_every_prefix_needs_more_data(self) -> None:
        for vector in (TOPIC_B, LONG_TOPIC_V2, BOTH_HOSTS_V6):
            for length in range(len(vector)):
                self.assertIs(decode_record(vector[:length]), NEED_DATA, length)

    def test_trailing_and_leading_bytes_change_nothing(self) -> None:
        for vector in (TOPIC_B, LONG_TOPIC_V2, BOTH_HOSTS_V6):
            whole = decode_record(vector)
            self.assertEqual(decode_record(vector + b"\xff" * 9), whole)
            self.assertEqual(decode_record(b"?????" + vector + vector, 5), whole)
            self.assertEqual(decode_record(memoryview(bytearray(vector))), whole)

    def test_zeros_are_the_end(self) -> None:
        self.assertIs(decode_record(bytes(64)), END)
        self.assertIs(decode_record(bytes(7)), NEED_DATA)

    def test_B87_a_blank_tells_its_length(self) -> None:
        self.assertEqual(decode_record(encode_blank(163)), Blank(163))
        self.assertEqual(encode_blank(163), bytes.fromhex("000000a3cbd43194"))
        self.assertRaises(ValueError, encode_blank, 7)


class Damage(SynchronousTestCase):
    """What no record can look like."""

    def assertCorrupt(self, data: bytes, reason: str, **options: int) -> None:
        error = self.assertRaises(CorruptRecord, decode_record, data, **options)
        self.assertIn(reason, error.reason)
        self.assertEqual(error.position, 0)

    def test_unknown_magic(self) -> None:
        self.assertCorrupt(changed(TOPIC_B, 4, b"\xda\xa3\x20\xa8"), "unknown magic daa320a8")

    def test_size_with_a_zero_magic_is_no_end(self) -> None:
        self.assertCorrupt(changed(TOPIC_B, 4, bytes(4)), "unknown magic")

    def test_impossible_sizes(self) -> None:
        for size in (0, 90, -1, -(1 << 31), layout.MAX_RECORD_SIZE + 1):
            head = size.to_bytes(4, "big", signed=True)
            self.assertCorrupt(changed(TOPIC_B, 0, head), "impossible record size")
        self.assertCorrupt(changed(TOPIC_B, 0, b"\0\0\x20\0"), "impossible record size", max_size=0x1FFF)

    def test_blank_below_its_head(self) -> None:
        for size in (b"\0\0\0\x07", b"\0\0\0\0", b"\xff\xff\xff\xff"):
            self.assertCorrupt(size + b"\xcb\xd4\x31\x94", "blank of")

    def test_body_checksum(self) -> None:
        broken = changed(TOPIC_B, layout.BODY_AT, b"\x01")
        self.assertCorrupt(broken, "body checksum")
        self.assertIsInstance(decode_record(broken, check_crc=False), Record)

    def test_lengths_that_do_not_add_up(self) -> None:
        self.assertCorrupt(changed(TOPIC_B, 0, b"\0\0\0\xd2"), "lengths don't add up")
        for length in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\xd3"):
            self.assertCorrupt(changed(TOPIC_B, layout.BODY_LENGTH_AT, length), "body length")
        for length in (b"\xff", b"\x7f"):
            self.assertCorrupt(changed(TOPIC_B, layout.BODY_AT + 1, length), "topic length")

    def test_too_small_for_its_ipv6_hosts(self) -> None:
        record = encode_record(make_record("T", b""))
        self.assertCorrupt(changed(record, layout.SYS_FLAG_AT + 3, b"\x30"), "too small for its hosts")

    def test_wrong_place(self) -> None:
        self.assertCorrupt(TOPIC_B, "it lies at 228", at=228)

    def test_topic_that_is_not_text(self) -> None:
        self.assertCorrupt(changed(TOPIC_B, layout.BODY_AT + 2, b"\xff"), "not UTF-8")

    def test_B95_record_torn_anywhere_is_seen(self) -> None:
        """A crash leaves a prefix of the record in a file of zeros; no prefix may pass for the whole."""
        for vector in (TOPIC_B, LONG_TOPIC_V2, BOTH_HOSTS_V6):
            for length in range(8, len(vector)):
                torn = vector[:length] + bytes(len(vector) - length)
                self.assertRaises(CorruptRecord, decode_record, torn)

    def test_any_bytes_are_what_the_oracle_says(self) -> None:
        chance = random.Random(497)
        seen = set()
        for _ in range(6000):
            data = bytearray(chance.choice((TOPIC_B, LONG_TOPIC_V2, BOTH_HOSTS_V6)))
            for _ in range(chance.randrange(1, 6)):
                # Mostly a length, a flag or a magic: the rest decides nothing.
                at = chance.choice((*range(8), 39, 87, 99, 111, 88, 89, 90, chance.randrange(len(data))))
                data[at] = chance.choice((0, 1, 0x10, 0x20, 0x30, 0x7F, 0xFF, chance.randrange(256)))
            options = {"check_crc": chance.random() < 0.5, "at": chance.choice((227, None))}
            found = outcome(decode_record, bytes(data), options)
            self.assertEqual(found, outcome(oracle.decode_record, bytes(data), options), data.hex())
            seen.add(type(found))
        self.assertEqual(seen, {int, Scan, Record})


class Encoding(SynchronousTestCase):
    """Our own mistakes are ValueErrors at once, not broken bytes."""

    def test_parts_too_long(self) -> None:
        self.assertRaises(ValueError, encode_record, make_record("t" * 128, b""))
        self.assertRaises(ValueError, encode_record, make_record("T", b"", raw_properties=b"x" * 32768))
        encode_record(make_record("t" * 128, b"", version=2))

    def test_sys_flag_that_contradicts_the_hosts(self) -> None:
        record = decode_record(TOPIC_B)
        assert isinstance(record, Record)
        lying = Record(
            **{name: getattr(record, name) for name in record.__struct_fields__} | {"sys_flag": 0x10}
        )
        self.assertRaises(ValueError, encode_record, lying)

    def test_checksum_of_an_empty_body_is_zero(self) -> None:
        self.assertEqual(crc(b""), 0)
        self.assertEqual(crc(b"\x00"), 0x5202EF8D)


hosts = st.builds(
    HostPort, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 65535)
)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
any_record = st.builds(
    make_record,
    st.text(min_size=1, max_size=30),
    st.binary(max_size=200),
    raw_properties=st.binary(max_size=100).filter(lambda raw: not raw.endswith(b"\0")),
    queue_id=int32,
    queue_offset=int64,
    physical_offset=int64,
    flag=int32,
    sys_flag=int32,
    born_timestamp=int64,
    born_host=hosts,
    store_timestamp=int64,
    store_host=hosts,
    reconsume_times=int32,
    prepared_transaction_offset=int64,
    version=st.sampled_from((1, 2)),
)


class AnyRecord(SynchronousTestCase):
    """Properties that hold for every record."""

    @examples(60)
    @given(any_record)
    def test_what_is_written_is_read_back(self, record: Record) -> None:
        data = encode_record(record)
        self.assertEqual(len(data), record.total_size)
        self.assertEqual(decode_record(data, at=record.physical_offset), record)

    def test_size_counts_every_part(self) -> None:
        self.assertEqual(record_size(10, 5, 20), 91 + 35)
        self.assertEqual(record_size(10, 5, 20, 0x30, 2), 92 + 35 + 24)
