"""Plain records followed: what the compiled twin takes is what the columns take, and it stops at all else."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.scan import scan_records
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
