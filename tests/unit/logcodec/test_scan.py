"""Three readers of one log must agree: column scan, record by record, and the reference decoder of `wire`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.delaylevel import DEFAULT_DELAY_LEVELS, deliver_time, parse_delay_levels
from hatwisted.logcodec.dispatchscan import dispatch_columns
from hatwisted.logcodec.fewscan import Entry, scan_few
from hatwisted.logcodec.scan import LARGEST_RECORD, ScanEnd, Stop, scan_records, walk
from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.javahash import java_hash
from hatwisted.wire.record import decode_record, encode_blank, encode_record, make_record
from hatwisted.wire.storedrecord import Record
from tests.support.examples import examples
from tests.support.golden import MASTER

FILE_SIZE = 65536
LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
V4 = HostPort(b"\x7f\0\0\1", 10911)
V6 = HostPort(bytes(15) + b"\1", 10911)


def properties(**pairs: str) -> bytes:
    return "\x02".join(f"{name}\x01{value}" for name, value in pairs.items()).encode()


def log_of(records: Sequence[Record], base: int = 0) -> bytes:
    """The records back to back, with the physical offsets they get that way."""
    parts: list[bytes] = []
    at = base
    for record in records:
        parts.append(encode_record(record)[:28] + at.to_bytes(8, "big") + encode_record(record)[36:])
        at += len(parts[-1])
    return b"".join(parts)


def expected_entry(record: Record) -> Entry:
    """The definition: from the decoded record and its properties as a dict."""
    pairs = record.properties
    keys = [pairs.get("UNIQ_KEY", ""), *pairs.get("KEYS", "").split(" ")]
    tags = pairs.get("TAGS", "")
    code = java_hash(tags)
    if record.topic == layout.SCHEDULE_TOPIC:
        due = deliver_time(pairs.get("DELAY", "").encode(), record.store_timestamp, LEVELS)
        code = code if due is None else due
    rolled_back = record.transaction_type == layout.SYS_TRANSACTION_ROLLBACK
    hashes = [abs(java_hash(f"{record.topic}#{key}")) & 0x7FFFFFFF for key in keys if key and not rolled_back]
    return Entry(
        *(record.physical_offset, record.total_size, record.topic, record.queue_id, record.queue_offset),
        *(record.sys_flag, record.store_timestamp, code, tuple(hashes)),
    )


def by_reference(buf: bytes, base: int, *, check_crc: bool = False) -> list[Entry]:
    entries, at = [], 0
    while isinstance(record := decode_record(buf, at, at=base + at, check_crc=check_crc), Record):
        entries.append(expected_entry(record))
        at += record.total_size
    return entries


def by_columns(buf: bytes, base: int) -> tuple[list[Entry], ScanEnd]:
    scan = scan_records(buf, base)
    columns = dispatch_columns(scan, LEVELS)
    hashes: list[list[int]] = [[] for _ in range(len(scan))]
    for row, value in zip(columns.item_rows.tolist(), columns.item_hashes.tolist(), strict=True):
        hashes[row].append(value)
    fields = (scan.queue_ids, scan.queue_offsets, scan.sys_flags, scan.store_timestamps, columns.tags_codes)
    rows = zip(
        scan.physical_offsets.tolist(),
        scan.sizes.tolist(),
        [scan.topics[row] for row in scan.topic_rows.tolist()],
        *(field.tolist() for field in fields),
        map(tuple, hashes),
        strict=True,
    )
    return [Entry(*row) for row in rows], scan.end


names = st.sampled_from(
    ["KEYS", "UNIQ_KEY", "TAGS", "DELAY", "KEYSX", "UNIQ_KEYS", "TAG", "CLUSTER", "K", "é"]
)
values = st.one_of(
    st.text(min_size=0, max_size=70),
    st.text("ab \x01", max_size=12),
    st.from_regex(r"[A-F0-9]{32}|[A-F0-9]{56}", fullmatch=True),
    st.sampled_from(["1", "18", "99", "0", "-1", "007", "9" * 40, "x"]),
).map(lambda text: text.replace("\x02", ""))


def raw_area(pieces: list[tuple[str, str, str]], tail: str) -> bytes:
    text = "\x02".join(f"{name}{mark}{value}" for name, mark, value in pieces) + tail
    raw = text.encode("utf-8", "replace")[:2000]
    # Zeros at the end mean a torn record to the reference decoder.
    return raw.rstrip(b"\0")


areas = st.builds(
    raw_area,
    st.lists(st.tuples(names, st.sampled_from(["\x01", "\x01", "\x01", ""]), values), max_size=7),
    st.sampled_from(["", "", "\x02", "\x02\x02"]),
)
topics = st.one_of(
    st.sampled_from(["TopicA", "TopicB", "TopicA1", layout.SCHEDULE_TOPIC, layout.HALF_TOPIC, "Tö"]),
    st.text(min_size=1, max_size=20),
).map(lambda text: text.encode("utf-8", "replace").decode())
records = st.builds(
    make_record,
    topics,
    st.binary(max_size=60),
    raw_properties=areas,
    queue_id=st.integers(0, 40),
    queue_offset=st.integers(0, 1 << 40),
    sys_flag=st.sampled_from([0, 1, 2, 4, 8, 12, 0x301]),
    born_host=st.sampled_from([V4, V4, V6]),
    store_host=st.sampled_from([V4, V4, V6]),
    store_timestamp=st.integers(0, 1 << 45),
    version=st.sampled_from([1, 1, 1, 2]),
)


class AgreementTests(SynchronousTestCase):
    @examples(25)
    @given(st.lists(records, max_size=8), st.sampled_from([0, 77, 1 << 40]), st.binary(max_size=7))
    @example([make_record("T" * 127, b"")], 0, b"")
    @example([make_record("L" + "o" * 180 + "ng", b"x", version=2)], 0, b"")
    def test_scalar_equals_columns_equals_decode_record(
        self, batch: list[Record], base: int, rest: bytes
    ) -> None:
        buf = log_of(batch, base) + rest
        expected = by_reference(buf, base)
        self.assertEqual(len(expected), len(batch))
        few, few_end = scan_few(buf, base, LEVELS)
        self.assertEqual(few, expected)
        self.assertEqual(by_columns(buf, base), (expected, few_end))
        self.assertEqual(few_end, ScanEnd(len(buf) - len(rest), Stop.NEED_DATA))

    @examples(25)
    @given(st.lists(records, min_size=1, max_size=3), st.data())
    def test_any_damage_is_seen_by_both_alike(self, batch: list[Record], data: st.DataObject) -> None:
        buf = bytearray(log_of(batch))
        for _ in range(data.draw(st.integers(1, 3))):
            buf[data.draw(st.integers(0, len(buf) - 1))] ^= data.draw(st.integers(1, 255))
        few, few_end = scan_few(bytes(buf), 0, LEVELS)
        self.assertEqual(by_columns(bytes(buf), 0), (few, few_end))

    @examples(20)
    @given(st.lists(records, min_size=1, max_size=3), st.data())
    def test_cut_anywhere_gives_the_whole_records_in_front(
        self, batch: list[Record], data: st.DataObject
    ) -> None:
        whole = log_of(batch, 5)
        buf = whole[: data.draw(st.integers(0, len(whole) - 1))]
        expected = [
            entry for entry in by_reference(whole, 5) if entry.physical_offset + entry.size <= 5 + len(buf)
        ]
        entries, end = by_columns(buf, 5)
        self.assertEqual((entries, end.stop), (expected, Stop.NEED_DATA))
        self.assertEqual(scan_few(buf, 5, LEVELS), (expected, end))
        if len(buf) - end.position >= 8:
            self.assertEqual(end.size, batch[len(expected)].total_size)

    def test_memoryview_reads_like_bytes(self) -> None:
        buf = log_of([make_record("T", b"body", raw_properties=properties(TAGS="a", KEYS="k l"))] * 3)
        self.assertEqual(by_columns(memoryview(buf), 0), by_columns(buf, 0))
        self.assertEqual(scan_few(memoryview(buf), 0, LEVELS), scan_few(buf, 0, LEVELS))


class GoldenTests(SynchronousTestCase):
    def test_golden_log_three_ways(self) -> None:
        for base in (0, FILE_SIZE):
            buf = (MASTER / "commitlog" / f"{base:020d}").read_bytes()
            expected = by_reference(buf, base, check_crc=True)
            entries, end = by_columns(buf, base)
            self.assertEqual(entries, expected)
            self.assertEqual(scan_few(buf, base, LEVELS), (expected, end))
            self.assertEqual(scan_records(buf, base, check_crc=True).end, end)
            self.assertEqual(end.stop, Stop.END if base else Stop.BLANK)
        self.assertEqual(end.position + FILE_SIZE, 0x1B461)

    def test_golden_blank(self) -> None:
        buf = (MASTER / "commitlog" / f"{0:020d}").read_bytes()
        self.assertEqual(scan_records(buf, 0).end, ScanEnd(65373, Stop.BLANK, 163))


class ScanTests(SynchronousTestCase):
    def scan_end(self, buf: bytes, check_crc: bool = False) -> ScanEnd:
        return scan_records(buf, 0, check_crc=check_crc).end

    def test_bounds_and_start(self) -> None:
        record = make_record("T", b"b")
        size = record.total_size
        buf = log_of([record] * 10)
        scan = scan_records(buf, 0, start=2 * size, before=4 * size + 1)
        self.assertEqual(scan.positions.tolist(), [2 * size, 3 * size, 4 * size])
        self.assertEqual(scan.end, ScanEnd(5 * size, Stop.LIMIT))
        self.assertEqual(walk(buf, 2 * size, 3), (scan.positions.tolist(), scan.end))
        self.assertEqual(len(scan_few(buf, 0, LEVELS, start=9 * size)[0]), 1)

    def test_checksum_only_counts_when_asked(self) -> None:
        record = make_record("T", b"body")
        buf = log_of([record]) + log_of([make_record("T", b"body")], record.total_size).replace(
            b"body", b"bodi"
        )
        self.assertEqual(self.scan_end(buf), ScanEnd(len(buf), Stop.NEED_DATA))
        end = self.scan_end(buf, check_crc=True)
        self.assertEqual((end.position, end.stop), (record.total_size, Stop.CORRUPT))
        self.assertIn("checksum", end.reason)

    def test_empty_body_needs_no_checksum(self) -> None:
        record = make_record("T", b"")
        raw = bytearray(encode_record(record))
        raw[8:12] = b"\x11\x22\x33\x44"
        self.assertEqual(self.scan_end(bytes(raw), check_crc=True).stop, Stop.NEED_DATA)

    def test_zeros_and_blank_and_garbage(self) -> None:
        self.assertEqual(self.scan_end(bytes(100)), ScanEnd(0, Stop.END))
        self.assertEqual(self.scan_end(encode_blank(50)), ScanEnd(0, Stop.BLANK, 50))
        self.assertEqual(self.scan_end(b"\xff" * 100).stop, Stop.CORRUPT)
        self.assertEqual(self.scan_end(b""), ScanEnd(0, Stop.NEED_DATA))

    def test_an_enormous_record_is_damage_not_something_to_read(self) -> None:
        raw = bytearray(encode_record(make_record("T", b"b")))
        raw[:4] = (LARGEST_RECORD + 1).to_bytes(4, "big")
        self.assertEqual(self.scan_end(bytes(raw)).stop, Stop.CORRUPT)
        raw[:4] = LARGEST_RECORD.to_bytes(4, "big")
        self.assertEqual(self.scan_end(bytes(raw)), ScanEnd(0, Stop.NEED_DATA, LARGEST_RECORD))

    def test_a_record_at_another_offset_is_none(self) -> None:
        buf = log_of([make_record("T", b"b")], 1000)
        self.assertEqual(len(scan_records(buf, 1000)), 1)
        end = self.scan_end(buf)
        self.assertEqual(end.stop, Stop.CORRUPT)
        self.assertIn("physical offset", end.reason)

    def test_many_topics(self) -> None:
        wanted = [f"Topic{index * index % 701}" for index in range(2000)]
        scan = scan_records(log_of([make_record(topic, b"") for topic in wanted]), 0)
        self.assertEqual([scan.topics[row] for row in scan.topic_rows.tolist()], wanted)

    def test_topic_that_is_not_utf8(self) -> None:
        good = make_record("T", b"")
        buf = log_of([good, good]).replace(b"\x01T", b"\x01\xff")
        buf = log_of([good]) + buf[good.total_size :]
        few, end = scan_few(buf, 0, LEVELS)
        self.assertEqual((len(few), end.stop, end.position), (1, Stop.CORRUPT, good.total_size))
        self.assertEqual(by_columns(buf, 0), (few, end))

    def test_take_keeps_the_chosen_rows(self) -> None:
        buf = log_of([make_record("A", b""), make_record("B", b"", raw_properties=properties(KEYS="k"))])
        scan = scan_records(buf, 0).take(np.array([False, True]))
        self.assertEqual([scan.topics[row] for row in scan.topic_rows], ["B"])
        self.assertEqual(len(dispatch_columns(scan, LEVELS).item_hashes), 1)

    def test_last_of_a_repeated_name_wins_unless_empty(self) -> None:
        raw = b"TAGS\x01a\x02KEYS\x01k1\x02TAGS\x01b\x02KEYS\x01k2 k3\x02TAGS\x01"
        (entry,), _ = by_columns(log_of([make_record("T", b"", raw_properties=raw)]), 0)
        self.assertEqual(entry.tags_code, java_hash("b"))
        self.assertEqual(list(entry.key_hashes), [abs(java_hash("T#k2")), abs(java_hash("T#k3"))])

    def test_half_messages_are_indexed_and_rolled_back_ones_are_not(self) -> None:
        raw = properties(UNIQ_KEY="u", KEYS="k")
        flags = [
            layout.SYS_TRANSACTION_PREPARED,
            layout.SYS_TRANSACTION_ROLLBACK,
            layout.SYS_TRANSACTION_COMMIT,
        ]
        buf = log_of([make_record("T", b"", raw_properties=raw, sys_flag=flag) for flag in flags])
        self.assertEqual([len(entry.key_hashes) for entry in by_columns(buf, 0)[0]], [2, 0, 2])


class DelayLevelTests(SynchronousTestCase):
    def test_default_levels(self) -> None:
        self.assertEqual(LEVELS[:5], [1000, 5000, 10_000, 30_000, 60_000])
        self.assertEqual((len(LEVELS), LEVELS[-1]), (18, 7_200_000))

    def test_bad_level_is_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "'5x'"):
            parse_delay_levels("1s 5x")

    def test_levels_beyond_the_highest_count_as_the_highest(self) -> None:
        self.assertEqual(deliver_time(b"99", 100, [1000, 5000]), 5100)
        self.assertEqual(deliver_time(b"9" * 5000, 100, [1000, 5000]), 5100)

    def test_no_delay(self) -> None:
        for level in (b"0", b"", b"-3", b"x"):
            self.assertIsNone(deliver_time(level, 100, LEVELS))
