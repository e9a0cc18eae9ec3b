"""What a read of a queue gets: both twins choose the same entries, and cut the same records out of the log."""

from __future__ import annotations

import itertools
import random
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec import entrychoice
from hatwisted.logcodec.entrychoice import MAX_GAP, EntryChoice, ReadBounds
from hatwisted.logcodec.queueentry import PHYSICAL_LIMIT
from hatwisted.logcodec.recordplace import QueueRecords
from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import encode_record, make_record
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled
from tests.support.logpieces import BASE, records

ENTRY = layout.QUEUE_ENTRY
UNLIMITED = ReadBounds(0, 1 << 30, 0, 1 << 20, 1 << 40, 1 << 20, 1 << 40)
PLAIN: dict[str, Any] = {"topic": "T", "body": b"x", "raw_properties": b"", "queue_id": 0, "sys_flag": 0}

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
PLACES = st.one_of(
    st.integers(0, 100_000),
    st.integers(-3, 3).map(lambda more: PHYSICAL_LIMIT + more),
    st.integers(-3, 0).map(lambda more: (1 << 63) - 1 + more),
    LONGS,
)
SIZES = st.one_of(
    st.integers(1, 3000),
    st.sampled_from((0, -1, -100, layout.PRE_BLANK_SIZE, (1 << 31) - 1, -(1 << 31))),
)
CODES = st.one_of(st.integers(-3, 3), st.integers(-3, 3).map(lambda code: code + (7 << 32)), LONGS)


@st.composite
def queues(draw: st.DrawFn) -> bytes:
    """Entries as they are in a log, and some that are wrong."""
    entries, place = bytearray(), draw(st.integers(0, 5000))
    for _ in range(draw(st.integers(0, 40))):
        size = draw(st.integers(1, 3000))
        if draw(st.integers(0, 9)):
            entries += ENTRY.pack(place, size, draw(st.integers(-3, 3)))
        else:
            entries += ENTRY.pack(draw(PLACES), draw(SIZES), draw(CODES))
        place += size + draw(st.sampled_from((0, 0, 0, 1, MAX_GAP, MAX_GAP + 1)))
    return bytes(entries) + bytes(draw(st.sampled_from((0, 0, 0, 1, 19))))


@st.composite
def limits(draw: st.DrawFn) -> ReadBounds:
    count, size = draw(st.sampled_from((1, 8, 32, 800))), draw(st.sampled_from((1, 5000, 1 << 20)))
    return ReadBounds(
        draw(st.sampled_from((0, 0, 3000))),
        draw(st.sampled_from((4096, 20_000, 1 << 30))),
        draw(st.sampled_from((-5, 0, 10_000))),
        count,
        size,
        draw(st.sampled_from((1, count))),
        draw(st.sampled_from((1, 700, size))),
    )


class KernelCase(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        self.kernel = compiled()


class ChooseEntriesTests(KernelCase):
    @examples(300)
    @given(
        queues(),
        limits(),
        st.none() | st.frozensets(st.integers(-3, 3)) | st.frozensets(CODES, min_size=17, max_size=20),
    )
    def test_the_same_choice(self, entries: bytes, bounds: ReadBounds, codes: frozenset[int] | None) -> None:
        expected = entrychoice.choose_entries(entries, bounds, codes)
        self.assertEqual(self.kernel.choose_entries(entries, bounds, codes), expected)
        self.assertEqual(expected.chosen, sum(expected.taken) if expected.taken else expected.scanned)

    def test_neighbours_are_read_together(self) -> None:
        for gap, runs in ((0, 1), (MAX_GAP, 1), (MAX_GAP + 1, 2), (-1, 2)):
            entries = ENTRY.pack(1000, 100, 0) + ENTRY.pack(1100 + gap, 100, 0)
            for choose in (self.kernel.choose_entries, entrychoice.choose_entries):
                choice = choose(entries, UNLIMITED, None)
                self.assertEqual((len(choice.runs), choice.chosen), (runs, 2))

    def test_a_read_ends_with_its_file(self) -> None:
        bounds = UNLIMITED._replace(file_size=1024)
        entries = b"".join(ENTRY.pack(place, 100, 0) for place in (800, 924, 1024, 1124))
        for choose in (self.kernel.choose_entries, entrychoice.choose_entries):
            self.assertEqual(choose(entries, bounds, None).runs, [(800, 224, 0, 2), (1024, 200, 2, 4)])

    def test_places_where_no_log_is(self) -> None:
        """Each is read by itself, which brings nothing."""
        for place in (PHYSICAL_LIMIT, PHYSICAL_LIMIT + 100, (1 << 63) - 200):
            entries = ENTRY.pack(place, 100, 0) + ENTRY.pack(place + 100, 100, 0)
            for choose in (self.kernel.choose_entries, entrychoice.choose_entries):
                self.assertEqual(len(choose(entries, UNLIMITED, None).runs), 2)

    def test_sizes_below_nothing_count_as_nothing(self) -> None:
        """The others are read, and count, as they would without."""
        entries = ENTRY.pack(5, 100, 0) + ENTRY.pack(105, -(1 << 31), 0) + ENTRY.pack(105, 100, 0)
        for choose in (self.kernel.choose_entries, entrychoice.choose_entries):
            self.assertEqual(choose(entries, UNLIMITED, None).runs, [(5, 200, 0, 3)])
            self.assertEqual(choose(entries[:40], UNLIMITED, None).runs, [(5, 100, 0, 2)])
            self.assertEqual(choose(entries, UNLIMITED._replace(max_bytes=199), None).scanned, 2)

    def test_what_is_not_a_choice(self) -> None:
        self.assertEqual(
            self.kernel.choose_entries(b"", UNLIMITED, None), EntryChoice([], b"", 0, 0, False, 0)
        )
        for entries, bounds, codes in (
            (None, UNLIMITED, None),
            (b"", None, None),
            (b"", (1, 2), None),
            (b"", (*UNLIMITED[:-1], "1"), None),
            (b"", UNLIMITED._replace(file_size=0), None),
            (b"", UNLIMITED._replace(first_byte=-1), None),
            (b"", UNLIMITED, [1]),
            (b"", UNLIMITED, frozenset({"a"})),
        ):
            with self.assertRaises((TypeError, ValueError)):
                self.kernel.choose_entries(entries, bounds, codes)


class OwnBytesTests(KernelCase):
    """Records are a queue's or not as `QueueRecords.has` says of each."""

    def both(self, data: bytes, entries: bytes, queue: QueueRecords, taken: bytes = b"") -> bytes | int:
        """What both twins make of a read that was to bring all of the entries' records."""
        run = (BASE, len(data), 0, len(entries) // ENTRY.size)
        found: bytes | int = self.kernel.own_bytes(data, run, entries, taken, 0, queue)
        self.assertEqual(entrychoice.own_bytes(data, run, entries, taken, 0, queue), found)
        return found

    @examples(300)
    @given(st.lists(records(odd=False), min_size=1, max_size=5), st.randoms(use_true_random=False))
    def test_damaged_records_and_entries(self, fields: list[dict[str, Any]], chance: random.Random) -> None:
        topic, queue_id = chance.choice(("T", "topic")), chance.choice((0, 3, 1 << 30))
        data, places, own = bytearray(), list[list[int]](), list[bytes]()
        for index, each in enumerate(fields):
            data += bytes(chance.choice((0, 0, 1, 100)))
            one = each | {"topic": topic, "queue_id": queue_id}
            raw = encode_record(make_record(**one, queue_offset=index, physical_offset=BASE + len(data)))
            places.append([BASE + len(data), len(raw), 0])
            own.append(raw)
            data += raw
        queue, taken = QueueRecords(topic, queue_id), bytes(chance.choice((0, 1)) for _ in places)
        entries = b"".join(ENTRY.pack(*place) for place in places)
        self.assertEqual(self.both(bytes(data), entries, queue), b"".join(own))
        self.assertEqual(
            self.both(bytes(data), entries, queue, taken), b"".join(itertools.compress(own, taken))
        )
        heads = [place - BASE + at for place, _, _ in places for at in range(layout.BODY_AT)]
        for _ in range(chance.randrange(3)):
            at = chance.choice((chance.choice(heads), chance.randrange(len(data))))
            data[min(at, len(data) - 1)] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        if chance.random() < 0.5:
            wrong = chance.choice(places)
            wrong[chance.randrange(2)] += chance.choice((-1, 1, 50, -wrong[1], -wrong[1] - 1, 1 << 20))
        damaged = bytes(data[: chance.choice((len(data), chance.randrange(len(data) + 1)))])
        entries = b"".join(ENTRY.pack(*place) for place in places)
        self.both(damaged, entries, queue)
        self.both(damaged, entries, queue, taken)

    def test_records_of_other_queues_and_versions(self) -> None:
        for change, found in (
            ({"topic": "U"}, 1),
            ({"topic": "TT"}, 1),
            ({"queue_id": 1}, 1),
            ({"queue_offset": 2}, 1),
            ({"physical_offset": BASE}, 1),
            ({"version": 2}, b""),
        ):
            data = entries = b""
            for index, one in enumerate((PLAIN, PLAIN | change)):
                raw = encode_record(
                    make_record(**{"queue_offset": index, "physical_offset": BASE + len(data)} | one)
                )
                entries += ENTRY.pack(BASE + len(data), len(raw), 0)
                data += raw
            self.assertEqual(self.both(data, entries, QueueRecords("T", 0)), found or data, change)

    def test_lengths_that_lie(self) -> None:
        """A body's that leads behind the record, or before it, to where the topic's name stands; the record's,
        and the entry's, of fewer bytes than there have to be."""
        queue, before = QueueRecords("T", 0), layout.PREPARED_OFFSET_AT
        wide = HostPort(bytes(16), 1)
        for hosts, body in itertools.product(
            ({}, {"born_host": wide}, {"born_host": wide, "store_host": wide}), (b"", b"x", b"xxxxx")
        ):
            made = make_record(**PLAIN | hosts | {"body": body}, queue_offset=0, physical_offset=BASE)
            raw = bytearray(encode_record(made))
            self.assertEqual(len(raw), 92 + len(body) + layout.IPV6_EXTRA * len(hosts))
            raw[before : before + 2] = b"\x01T"
            whole = len(raw)
            body_at = whole - len(body + b"\x01T\0\0")
            lengths = (before - body_at, -whole, 1 - whole, *range(-2, 7), *range(whole - 1, whole + 3))
            for length, size in itertools.product(lengths, range(86, whole + 1)):
                lied = raw[:]
                struct.pack_into(">i", lied, 0, size)
                struct.pack_into(">i", lied, body_at - 4, length)
                for data in (bytes(lied), bytes(lied) + bytes(raw)):
                    self.both(data, ENTRY.pack(BASE, size, 0), queue)
            self.assertEqual(self.both(bytes(raw[:-1]), ENTRY.pack(BASE, whole, 0), queue), 0)

    def test_records_come_in_the_order_of_their_entries(self) -> None:
        later, sooner = (
            encode_record(make_record(**PLAIN, queue_offset=1 - number, physical_offset=BASE + number * 93))
            for number in range(2)
        )
        entries = ENTRY.pack(BASE + 93, 93, 0) + ENTRY.pack(BASE, 93, 0)
        self.assertEqual(self.both(later + sooner, entries, QueueRecords("T", 0)), sooner + later)

    def test_places_outside_of_what_was_read(self) -> None:
        queue = QueueRecords("T", 0)
        data = encode_record(make_record(**PLAIN, queue_offset=0, physical_offset=BASE))
        self.assertEqual(self.both(data, ENTRY.pack(BASE, len(data), 0), queue), data)
        for place, size in (
            (BASE - 1, len(data)),
            (-(1 << 63), len(data)),
            ((1 << 63) - 1, len(data)),
            (BASE, 0),
            (BASE, -1),
            (BASE, (1 << 31) - 1),
            (BASE, -(1 << 31)),
        ):
            self.assertEqual(self.both(data, ENTRY.pack(place, size, 0), queue), 0)

    def test_what_is_not_a_run(self) -> None:
        queue, data, no_topic = QueueRecords("T", 0), bytes(100), QueueRecords("T", 0)
        no_topic.raw_topic = None  # type: ignore[assignment]
        entries = ENTRY.pack(BASE, 100, 0)
        for given_data, run, given_entries, taken, given_queue in (
            (data, (BASE, 100, 0, 2), entries, b"", queue),
            (data, (BASE, 100, -1, 1), entries, b"", queue),
            (data, (-1, 100, 0, 1), entries, b"", queue),
            (data, (BASE, 100, 0, 1 << 62), entries, b"", queue),
            (data, (BASE, 100, 0, 2), entries * 2, b"\x01", queue),
            (data, (BASE, 100, 0), entries, b"", queue),
            (data, (BASE, 100, 0, "1"), entries, b"", queue),
            (data, None, entries, b"", queue),
            (None, (BASE, 100, 0, 1), entries, b"", queue),
            (data, (BASE, 100, 0, 1), None, b"", queue),
            (data, (BASE, 100, 0, 1), entries, None, queue),
            (data, (BASE, 100, 0, 1), entries, b"", None),
            (data, (BASE, 100, 0, 1), entries, b"", no_topic),
        ):
            with self.assertRaises((TypeError, ValueError)):
                self.kernel.own_bytes(given_data, run, given_entries, taken, 0, given_queue)
        with self.assertRaises(ValueError):
            self.kernel.own_bytes(data, (BASE, 100, 0, 1), entries, b"", PHYSICAL_LIMIT + 1, queue)
