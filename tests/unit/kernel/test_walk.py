"""Plain records followed: what the compiled twin takes is what the columns take, and it stops at all else."""

from __future__ import annotations

import itertools
import random
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.recordplace import QueueRecords
from hatwisted.logcodec.scan import scan_records
from hatwisted.wire import layout
from hatwisted.wire.record import encode_blank, encode_record, make_record
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled, walked
from tests.support.logbuilder import LogBuilder
from tests.support.logofbytes import LogOfBytes
from tests.support.logpieces import BASE, piece, records

CRC = st.booleans()


def by_columns(data: bytes, check_crc: bool) -> tuple[int, int, int, int] | None:
    """What the ordinary way finds at the beginning of a piece of log."""
    found = scan_records(data, BASE, check_crc=check_crc)
    if not len(found):
        return None
    return len(found), found.end.position, int(found.positions[-1]), int(found.store_timestamps[-1])


class OwnRecordTests(SynchronousTestCase):
    """Which records are a queue's: as `QueueRecords.has` says of each."""

    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        self.own = compiled().own_records

    def belonging(
        self, queue: QueueRecords, data: bytes, run: list[tuple[int, int]], indexes: list[int]
    ) -> int:
        """The same by asking of one after the other."""
        for number, ((position, size), index) in enumerate(zip(run, indexes, strict=True)):
            if not queue.has(data, position - BASE, size, index, position):
                return number
        return len(run)

    @examples(200)
    @given(st.lists(records(odd=False), min_size=1, max_size=5), st.randoms(use_true_random=False))
    def test_damaged_records_and_entries(self, fields: list[dict[str, Any]], chance: random.Random) -> None:
        topic, queue_id = chance.choice(("T", "topic")), chance.choice((0, 3, 1 << 30))
        data, run = bytearray(), list[tuple[int, int]]()
        for index, each in enumerate(fields):
            one = each | {"topic": topic, "queue_id": queue_id}
            raw = encode_record(make_record(**one, queue_offset=index, physical_offset=BASE + len(data)))
            run.append((BASE + len(data), len(raw)))
            data += raw
        queue, indexes = QueueRecords(topic, queue_id), list(range(len(run)))
        self.assertEqual(self.own(bytes(data), BASE, run, indexes, queue), len(run))
        heads = [position - BASE + at for position, _ in run for at in range(layout.BODY_AT)]
        for _ in range(chance.randrange(3)):
            at = chance.choice((chance.choice(heads), chance.randrange(len(data))))
            data[min(at, len(data) - 1)] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        if chance.random() < 0.3:
            number, (position, size) = chance.randrange(len(run)), run[-1]
            more = chance.choice((-1, 1, -size, -size - 1, 1 << 20))
            run[number] = chance.choice(
                ((position, size + more), (position + abs(more), size), (position, -1))
            )
        if chance.random() < 0.3:
            indexes[chance.randrange(len(run))] += chance.choice((-1, 1, 1 << 40))
        damaged = bytes(data[: chance.choice((len(data), chance.randrange(len(data) + 1)))])
        expected = self.belonging(queue, damaged, run, indexes)
        self.assertEqual(self.own(damaged, BASE, run, indexes, queue), expected)

    def test_records_of_other_queues_and_versions_are_left_to_be_asked_about(self) -> None:
        plain = {"topic": "T", "body": b"x", "raw_properties": b"", "queue_id": 0, "sys_flag": 0}
        for change in ({"topic": "U"}, {"topic": "TT"}, {"queue_id": 1}, {"version": 2}):
            data, run = b"", list[tuple[int, int]]()
            for index, one in enumerate((plain, plain | change)):
                made = make_record(**one, queue_offset=index, physical_offset=BASE + len(data))
                run.append((BASE + len(data), len(encode_record(made))))
                data += encode_record(made)
            self.assertEqual(self.own(data, BASE, run, [0, 1], QueueRecords("T", 0)), 1, change)

    def test_lengths_that_lie(self) -> None:
        """A body's that leads behind the record, or before it, to where the topic's name stands; the record's,
        and the entry's, of fewer bytes than there have to be."""
        queue = QueueRecords("T", 0)
        for flags in (0, layout.SYS_BORN_HOST_V6, layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6):
            plain = {"topic": "T", "body": b"x", "raw_properties": b"", "queue_id": 0, "sys_flag": flags}
            raw = bytearray(encode_record(make_record(**plain, queue_offset=0, physical_offset=BASE)))
            whole = len(raw)
            length_at = whole - len(b"x\x01T\0\0") - 4
            bodies = (-whole, 1 - whole, -2, -1, 0, 1, 2, whole - 1, whole, whole + 1, whole + 2)
            for body, size in itertools.product(bodies, range(86, whole + 1)):
                lied = raw[:]
                struct.pack_into(">i", lied, 0, size)
                struct.pack_into(">i", lied, length_at, body)
                for data in (bytes(lied), bytes(lied) + bytes(raw)):
                    expected = self.belonging(queue, data, [(BASE, size)], [0])
                    self.assertEqual(self.own(data, BASE, [(BASE, size)], [0], queue), expected)
            self.assertEqual(self.own(bytes(raw[:-1]), BASE, [(BASE, whole)], [0], queue), 0)

    def test_numbers_with_code_of_their_own(self) -> None:
        """What they do to the lists is their matter; nothing beyond these is read."""
        data = piece(
            [{"topic": "T", "body": b"x", "raw_properties": b"", "queue_id": 0, "sys_flag": 0}], first=0
        )
        indexes = list[Any]()

        class Clearing:
            def __int__(self) -> int:
                indexes.clear()
                return 0

        indexes += [Clearing(), 1]
        run = [(BASE, len(data))] * 2
        self.assertEqual(self.own(data, BASE, run, indexes, QueueRecords("T", 0)), 1)

    def test_what_is_before_the_bytes_is_not_there(self) -> None:
        data = piece(
            [{"topic": "T", "body": b"x", "raw_properties": b"", "queue_id": 0, "sys_flag": 0}], first=0
        )
        queue = QueueRecords("T", 0)
        self.assertEqual(self.own(data, BASE, [(BASE, len(data))], [0], queue), 1)
        for position, size in ((BASE - 1, len(data)), (-(1 << 63), len(data)), (BASE, 0), (BASE, 1 << 62)):
            self.assertEqual(self.own(data, BASE, [(position, size)], [0], queue), 0)
        for run in ([BASE], [(BASE,)], [(BASE, 1, 1)]):
            with self.assertRaises((TypeError, ValueError)):
                self.own(data, BASE, run, [0], queue)
        for base, indexes in ((BASE, []), (-1, [0])):
            with self.assertRaises(ValueError):
                self.own(data, base, [(BASE, len(data))], indexes, queue)


class WholeRecordTests(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        self.whole = compiled().whole_records

    @examples(100)
    @given(st.lists(records(odd=False), max_size=6), CRC)
    def test_plain_records_are_all_found(self, fields: list[dict[str, Any]], check_crc: bool) -> None:
        data = piece(fields)
        self.assertEqual(self.whole(data, BASE, check_crc), by_columns(data, check_crc))
        self.assertIsNone(self.whole(data, BASE + 1, check_crc))

    @examples(150)
    @given(st.lists(records(odd=True), min_size=1, max_size=6), CRC, st.randoms(use_true_random=False))
    def test_damage(self, fields: list[dict[str, Any]], check_crc: bool, chance: random.Random) -> None:
        data = bytearray(piece(fields))
        for _ in range(chance.randrange(3)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        damaged = bytes(data[: chance.randrange(len(data) + 1)])
        found = self.whole(damaged, BASE, check_crc)
        if found is not None:
            self.assertEqual(found, by_columns(damaged[: found.size], check_crc))

    def test_it_stops_before_what_is_not_plain(self) -> None:
        plain = {"topic": "T", "body": b"x", "raw_properties": b"", "queue_id": 0, "sys_flag": 0}
        for change in ({"topic": "\u00fc"}, {"version": 2}):
            data = piece([plain, plain, plain | change, plain])
            found = self.whole(data, BASE, True)
            self.assertEqual(found.records, 2)
            self.assertIsNone(self.whole(data[found.size :], BASE + found.size, True))
        one = piece([plain])
        for rest in (b"", encode_blank(64), bytes(200), one[:-1], one[:20], one):
            self.assertEqual(self.whole(one + rest, BASE, True).size, len(one))
        for bad in (b"", one[:-1], bytes(200), encode_blank(64)):
            self.assertIsNone(self.whole(bad, BASE, True))
        self.assertIsNone(self.whole(one.replace(b"x", b"y"), BASE, True))
        self.assertEqual(self.whole(one.replace(b"x", b"y"), BASE, False).size, len(one))

    @examples(100)
    @given(st.lists(records(odd=True), max_size=40), st.randoms(use_true_random=False))
    def test_a_walk_finds_the_same_end(self, fields: list[dict[str, Any]], chance: random.Random) -> None:
        log = LogBuilder(file_size=4096)
        for each in fields:
            log.place(make_record(**each))
        data, size = log.data, -(-log.end // 4096) * 4096
        for _ in range(chance.choice((0, 0, 1, 2)) if data else 0):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        files = LogOfBytes(bytes(data), 4096, size)
        self.assertEqual(walked(files, self.whole), walked(files, None))

    def test_a_record_that_leaves_no_room_for_a_blank(self) -> None:
        for left in range(12):
            first = encode_record(make_record("T", bytes(420 - left)))
            self.assertEqual(len(first), 512 - left)
            second = encode_record(make_record("T", b"x", physical_offset=512))
            files = LogOfBytes(first.ljust(512, b"\0") + second, 512, 1024)
            self.assertEqual(walked(files, self.whole), walked(files, None), left)
