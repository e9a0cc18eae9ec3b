"""Records as columns: the compiled twin finds what the scan finds, and leaves to it what isn't plain."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.plaincolumns import ROOM, plain_records
from hatwisted.logcodec.scan import HEAD, NO_LIMIT, Records, ScanEnd, Stop, gather, scan_records, walk
from hatwisted.wire import layout
from hatwisted.wire.properties import decode_properties
from hatwisted.wire.record import encode_blank, encode_record, make_record
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled
from tests.support.logpieces import BASE, odd_pairs, pairs, piece, records

FIELDS = ("positions", "sizes", "queue_ids", "queue_offsets", "sys_flags", "store_timestamps")
PLACES = ("body_at", "body_ends", "properties_at")
TURNING = (0, 1, 3, 4, 7, 28, 35, 36, 39, 84, 85, 87, 88, 89, 90)
"""Bytes of a head that decide about a record's form."""
PLAIN = {"topic": "T", "body": b"x", "raw_properties": b"", "queue_id": 0, "sys_flag": 0}

Chance = st.randoms(use_true_random=False)


def told(found: Records) -> dict[str, Any]:
    """Everything that records say."""
    return {
        **{name: getattr(found, name).tolist() for name in (*FIELDS, *PLACES)},
        "heads": found.heads.tobytes(),
        "topics": [found.topics[row] for row in found.topic_rows.tolist()],
        "end": found.end,
    }


def harm(data: bytearray, starts: list[int], chance: random.Random) -> bytes:
    """Some bytes changed, mostly of heads, and perhaps the end cut off."""
    for _ in range(chance.randrange(4)):
        at = chance.choice(starts) + chance.choice(TURNING) if starts and chance.random() < 0.8 else -1
        if not 0 <= at < len(data):
            at = chance.randrange(len(data))
        data[at] = chance.choice((0, 1, 2, 16, 32, 48, 127, 128, 255, chance.randrange(256)))
    return bytes(data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data)


def columns_of(values: list[Any], kind: Any = np.int64) -> Any:
    return np.array(values, kind)


class ColumnsCase(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        self.twin = compiled()

    def found(self, data: Any, start: int = 0, before: int = NO_LIMIT, **options: Any) -> Records | None:
        """What the twin makes of a piece."""
        return plain_records(self.twin.plain_columns, data, BASE, range(start, before), **options)


class PlainColumnsTests(ColumnsCase):
    @examples(100)
    @given(st.lists(records(odd=False), max_size=8), st.booleans(), st.sampled_from([0.0, 1e9]))
    def test_plain_records_are_all_found(
        self, fields: list[dict[str, Any]], is_placed: bool, mean_size: float
    ) -> None:
        data = piece(fields)
        found = self.found(data, placed=is_placed)
        assert found is not None
        self.assertEqual(told(found), told(scan_records(data, BASE, mean_size=mean_size)))
        self.assertEqual(len(found), len(fields))

    @examples(100)
    @given(st.lists(records(odd=True), min_size=1, max_size=6), st.booleans(), Chance)
    def test_damage_is_seen_alike_or_left_to_the_scan(
        self, fields: list[dict[str, Any]], is_placed: bool, chance: random.Random
    ) -> None:
        whole = piece(fields)
        positions, _ = walk(whole, 0, NO_LIMIT)
        data = harm(bytearray(whole), positions, chance)
        start = chance.choice([0, 0, 0, *(at for at in positions if at <= len(data))])
        before = chance.choice((NO_LIMIT, NO_LIMIT, chance.randrange(len(whole) + 1)))
        found = self.found(data, start, before, placed=is_placed)
        if found is not None:
            positions, end = walk(data, start, NO_LIMIT, before)
            self.assertEqual(told(found), told(gather(data, BASE, positions, end, placed=is_placed)))

    @examples(100)
    @given(st.binary(max_size=400), Chance)
    def test_garbage(self, data: bytes, chance: random.Random) -> None:
        magic = layout.MAGIC_V1.to_bytes(4, "big")
        at = chance.randrange(len(data) + 1)
        size = chance.choice((91, 112, 115, 200, 1 << 31, 0xFFFFFFFF, chance.randrange(300))).to_bytes(
            4, "big"
        )
        for garbage in (data, size + magic + data, data[:at] + size + magic + data[at:]):
            found = self.found(garbage)
            if found is not None:
                positions, end = walk(garbage, 0, NO_LIMIT)
                self.assertEqual(told(found), told(gather(garbage, BASE, positions, end)))

    def test_what_isnt_plain_is_left_to_the_scan(self) -> None:
        for change in ({"version": 2}, {"topic": ""}):
            self.assertIsNone(self.found(piece([PLAIN, PLAIN | change, PLAIN])), change)
        broken = piece([PLAIN, PLAIN | {"topic": "Q"}]).replace(b"Q", b"\xff")
        self.assertIsNone(self.found(broken))
        self.assertIsNone(self.found(piece([PLAIN])[:28] + bytes(8) + piece([PLAIN])[36:]))

    def test_topics_that_arent_ascii_are_plain_too(self) -> None:
        data = piece([PLAIN | {"topic": topic} for topic in ("ü", "T", "ü", "%RETRY%g", "🚀")])
        found = self.found(data)
        assert found is not None
        self.assertEqual(told(found)["topics"], ["ü", "T", "ü", "%RETRY%g", "🚀"])

    def test_very_many_topics_are_left_to_the_scan(self) -> None:
        for count, is_plain in ((512, True), (513, False)):
            data = piece([PLAIN | {"topic": f"T{index % count}"} for index in range(2 * count)])
            found = self.found(data)
            self.assertEqual(found is not None, is_plain)
            if found is not None:
                self.assertEqual(told(found), told(scan_records(data, BASE)))

    def test_what_follows_the_last_record(self) -> None:
        one = piece([PLAIN])
        for rest in (b"", encode_blank(64), bytes(7), bytes(200), one[:-1], one[:20], b"\xff" * 20):
            data = one + rest
            found = self.found(data)
            assert found is not None
            self.assertEqual(told(found), told(scan_records(data, BASE)), rest)

    def test_only_so_many_and_only_so_far(self) -> None:
        data = piece([PLAIN] * 10)
        size = len(data) // 10
        for room in (1, 3, 9, 10, 11):
            found = self.found(data, room=room)
            assert found is not None
            self.assertEqual(len(found), min(room, 10))
            stop = Stop.LIMIT if room <= 10 else Stop.NEED_DATA
            self.assertEqual(found.end, ScanEnd(min(room, 10) * size, stop))
        many = self.found(encode_record(make_record("T", b"")) * (ROOM + 1), placed=False)
        assert many is not None
        self.assertEqual((len(many), many.end.stop), (ROOM, Stop.LIMIT))
        for before in (-1, 0, 1, size, 10 * size - 1, 10 * size, 10 * size + 1):
            found = self.found(data, 0, before)
            assert found is not None
            self.assertEqual(told(found), told(gather(data, BASE, *walk(data, 0, NO_LIMIT, before))), before)

    def test_an_empty_piece_and_the_end_of_one(self) -> None:
        one = piece([PLAIN])
        for data, start in ((b"", 0), (one, len(one)), (memoryview(bytearray(one)), 0)):
            found = self.found(data, start)
            assert found is not None
            self.assertEqual(found.end, ScanEnd(len(data), Stop.NEED_DATA))

    def test_room_of_another_form_is_refused(self) -> None:
        data, take = piece([PLAIN]), self.twin.plain_columns
        heads, longs = np.empty(4, HEAD).view(np.uint8), np.empty((10, 4), np.int64)
        self.assertEqual(take(data, BASE, 0, NO_LIMIT, True, heads, longs).records, 1)
        for start, first, second in (
            (-1, heads, longs),
            (len(data) + 1, heads, longs),
            (0, heads[:-1], longs),
            (0, heads, longs[:9].copy()),
            (0, heads, np.empty((10, 0), np.int64)),
            (0, heads, longs.astype(np.int32)),
            (0, heads, longs[:, ::2]),
        ):
            with self.assertRaises(ValueError):
                take(data, BASE, start, NO_LIMIT, True, first, second)


class SpansTests(ColumnsCase):
    @examples(100)
    @given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=9))
    def test_copies_and_checksums(self, data: bytes, found: list[tuple[int, int]]) -> None:
        spans = [(min(*span, len(data)), min(max(span), len(data))) for span in found]
        starts, ends = columns_of([at for at, _ in spans]), columns_of([end for _, end in spans])
        parts = [data[at:end] for at, end in spans]
        target, edges = np.empty(sum(map(len, parts)), np.uint8), np.empty(len(spans) + 1, np.int32)
        self.twin.copy_spans(data, starts, ends, edges, target)
        self.assertEqual(target.tobytes(), b"".join(parts))
        self.assertEqual(edges.tolist(), np.cumsum([0, *map(len, parts)]).tolist())
        if self.twin.span_crcs is not None:
            sums = np.empty(len(spans), np.uint32)
            self.twin.span_crcs(data, starts, ends, sums)
            self.assertEqual(sums.tolist(), list(map(zlib.crc32, parts)))

    @examples(100)
    @given(st.lists(st.text(" ab", max_size=9).map(str.encode), max_size=9))
    def test_parts(self, texts: list[bytes]) -> None:
        edges = np.cumsum([0, *map(len, texts)])
        data, starts, ends = b"".join(texts), edges[:-1].copy(), edges[1:].copy()
        firsts, room = np.empty(len(texts) + 1, np.int32), np.empty((2, len(data)), np.int64)
        count = self.twin.split_spans(data, starts, ends, ord(" "), firsts, room)
        found = [data[at:end] for at, end in room[:, :count].T.tolist()]
        rows = [found[first:last] for first, last in zip(firsts[:-1], firsts[1:], strict=True)]
        self.assertEqual(rows, [text.split() for text in texts])
        self.assertEqual(firsts[-1], count)
        if count:
            with self.assertRaisesRegex(ValueError, "too many parts"):
                self.twin.split_spans(data, starts, ends, ord(" "), firsts, room[:, : count - 1].copy())

    def test_what_arent_substrings_is_refused(self) -> None:
        data, edges, target = b"0123456789", np.empty(2, np.int32), np.empty(4, np.uint8)
        firsts, parts = np.empty(2, np.int32), np.empty((2, 9), np.int64)
        spans, known = np.empty((3, 9), np.int64), np.empty((3, 1), np.int32)
        calls = (
            lambda *given: self.twin.copy_spans(data, *given, edges, target),
            lambda *given: self.twin.span_crcs(data, *given, np.empty(1, np.uint32)),
            lambda *given: self.twin.split_spans(data, *given, 32, firsts, parts),
            lambda *given: self.twin.plain_pairs(data, *given, firsts, spans, known),
        )
        for call in calls:
            call(columns_of([6]), columns_of([10]))
            for at, end in ((7, 11), (-1, 3), (6, 2), (1 << 62, (1 << 62) + 4), (-(1 << 63), 4)):
                self.assertRaises(ValueError, call, columns_of([at]), columns_of([end]))
            self.assertRaises(ValueError, call, columns_of([6, 6]), columns_of([10]))
            self.assertRaises(ValueError, call, columns_of([6]), columns_of([10, 10]))
            self.assertRaises(ValueError, call, columns_of([6], np.int32), columns_of([10], np.int32))

    def test_room_of_another_size_is_refused(self) -> None:
        data, at, end = b"0123456789", columns_of([2, 6]), columns_of([4, 10])
        for size in (0, 5, 7):
            edges, target = np.empty(3, np.int32), np.empty(size, np.uint8)
            self.assertRaises(ValueError, self.twin.copy_spans, data, at, end, edges, target)
        with self.assertRaises(ValueError):
            self.twin.copy_spans(data, at, end, np.empty(2, np.int32), np.empty(6, np.uint8))
        for firsts, spans, known in (
            (2, (3, 9), (3, 2)),
            (3, (2, 9), (3, 2)),
            (3, (3, 9), (3, 1)),
            (3, (3, 9), (2, 2)),
        ):
            with self.assertRaises(ValueError):
                self.twin.plain_pairs(
                    data,
                    at,
                    end,
                    np.empty(firsts, np.int32),
                    np.empty(spans, np.int64),
                    np.empty(known, np.int32),
                )


class PairsTests(ColumnsCase):
    def taken(self, areas: list[bytes], room: int | None = None) -> Any:
        """Each area's pairs, its TAGS, KEYS and UNIQ_KEY, and whether all values are ASCII; None if left out."""
        edges = np.cumsum([1, *(len(area) + 1 for area in areas)])
        data, starts = b"\0" + b"\0".join(areas), edges[:-1].copy()
        ends = starts + columns_of([len(area) for area in areas])
        firsts, known = np.empty(len(areas) + 1, np.int32), np.empty((3, len(areas)), np.int32)
        spans = np.empty((3, len(data) if room is None else room), np.int64)
        found = self.twin.plain_pairs(data, starts, ends, firsts, spans, known)
        if found is None:
            return None
        count, is_ascii = found
        all_pairs = [
            (data[at:named], data[named + 1 : end]) for at, named, end in spans[:, :count].T.tolist()
        ]
        self.assertEqual(firsts[-1], count)
        rows = [all_pairs[first:last] for first, last in zip(firsts[:-1], firsts[1:], strict=True)]
        return (
            rows,
            [[all_pairs[at][1] if at >= 0 else None for at in row] for row in known.T.tolist()],
            is_ascii,
        )

    @examples(150)
    @given(st.lists(st.lists(pairs | odd_pairs, max_size=6).map(b"".join), max_size=6))
    def test_the_pairs_that_count(self, areas: list[bytes]) -> None:
        rows, known, is_ascii = self.taken(areas)
        names = ("TAGS", "KEYS", "UNIQ_KEY")
        for area, row, three in zip(areas, rows, known, strict=True):
            expected = decode_properties(area)
            self.assertEqual({name.decode(): value.decode() for name, value in row}, expected)
            self.assertEqual(len(row), len(expected))
            self.assertEqual(
                [value and value.decode() for value in three], [expected.get(name) for name in names]
            )
        # Of values that a later one replaces it may say the worse.
        self.assertLessEqual(is_ascii, all(value.isascii() for row in rows for _, value in row))
        self.assertLessEqual(b"".join(areas).isascii(), is_ascii)

    def test_of_a_repeated_name_the_last_where_it_stands(self) -> None:
        rows, known, _ = self.taken([b"a\x011\x02TAGS\x01x\x02a\x012\x02TAGS\x01y\x02b\x013\x02a\x01"])
        self.assertEqual(rows, [[(b"a", b"2"), (b"TAGS", b"y"), (b"b", b"3")]])
        self.assertEqual(known, [[b"y", None, None]])

    def test_what_is_left_out(self) -> None:
        self.assertIsNone(self.taken([b"a\x011", "ü\x01x".encode()]))
        self.assertIsNone(self.taken([b"\xff\x01x"]))
        for count, is_plain in ((64, True), (65, False)):
            area = "\x02".join(f"n{index}\x01{index}" for index in range(count)).encode()
            self.assertEqual(self.taken([area]) is not None, is_plain)
        self.assertIsNone(self.taken([b"a\x011\x02b\x012"], room=1))
        self.assertIsNotNone(self.taken([b"a\x011\x02b\x012"], room=2))
        self.assertEqual(self.taken([]), ([], [], True))
