"""Records of a run: both twins write the same bytes, stop at the same put and set the same offsets."""

from __future__ import annotations

import copy
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.kernel import UNLIMITED, AppendRun, pure
from hatwisted.kernel.nextoffsets import IN_ARRAY, NextOffsets
from hatwisted.store.log.put import Put
from hatwisted.wire import layout
from hatwisted.wire.batch import MAX_ENTRIES, CorruptBatch, encode_batch
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import decode_record
from hatwisted.wire.storedrecord import Record
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled, twins

V4 = HostPort(b"\x7f\0\0\1", 10911).pack()
V6 = HostPort(bytes(15) + b"\1", 10911).pack()

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
entry = st.tuples(int32, st.binary(max_size=300), st.binary(max_size=60))


@st.composite
def puts(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a put."""
    entries = draw(st.lists(entry, min_size=1, max_size=4))
    sys_flag = draw(st.integers(0, 0xFFF))
    shared = draw(st.binary(max_size=20))
    counted = draw(st.booleans())
    size = sum(len(body) + len(own) + len(shared) for _, body, own in entries)
    return {
        "topic": draw(st.sampled_from(["T", "Topic", "", "ü" * 30, "x" * 127, "x" * 128])),
        "queue_id": draw(int32),
        "entries": entries if draw(st.booleans()) else tuple(entries),
        "born_host": V6 if sys_flag & layout.SYS_BORN_HOST_V6 else V4,
        "born_timestamp": draw(int64),
        "sys_flag": sys_flag,
        "reconsume_times": draw(int32),
        "prepared_transaction_offset": draw(int64),
        "shared_properties": shared,
        "content_size": size if counted else -1,
    }


def encoded(
    twin: Any, host: bytes, given_puts: list[dict[str, Any]], room: int, easy: int
) -> tuple[Any, ...]:
    """All that a twin's run leaves behind."""
    run = AppendRun(1000, 1000 + room)
    fresh: list[Put] = [Put(**arguments) for arguments in given_puts]
    offsets = NextOffsets({("T", 0): 7})
    index = twin.RunEncoder(host, Put).encode_run(fresh, 0, run, 1234567890123, offsets, easy)
    outcomes = [
        (put.offset, put.end, put.queue_offset, list(put.record_offsets), put.content_size)
        for put in fresh[:index]
    ]
    return index, b"".join(run.parts), run.at, run.puts == fresh[:index], dict(offsets), outcomes


class RunTests(SynchronousTestCase):
    @examples(100)
    @given(
        st.lists(puts(), max_size=5),
        st.sampled_from([V4, V6]),
        st.integers(0, 2000) | st.just(1 << 40),
        st.integers(-1, 1000) | st.just(UNLIMITED),
    )
    def test_both_twins_do_the_same(
        self, given_puts: list[dict[str, Any]], host: bytes, room: int, easy: int
    ) -> None:
        first, *others = [encoded(twin, host, given_puts, room, easy) for twin in twins()]
        for other in others:
            self.assertEqual(other, first)

    def test_a_record_has_every_field(self) -> None:
        for twin in twins():
            run = AppendRun(500, 1 << 30)
            put: Put = Put(
                "Topic", 3, ((9, b"body", b"A\x01b\x02"),), V4, 77, 1, 2, 5, shared_properties=b"C\x01d"
            )
            offsets = NextOffsets({("Topic", 3): 40})
            self.assertEqual(twin.RunEncoder(V4, Put).encode_run([put], 0, run, 88, offsets, UNLIMITED), 1)
            self.assertEqual(offsets["Topic", 3], 41)
            record = decode_record(b"".join(run.parts), at=500)
            assert isinstance(record, Record)
            self.assertEqual((record.topic, record.queue_id, record.queue_offset), ("Topic", 3, 40))
            self.assertEqual((record.flag, record.sys_flag, record.body), (9, 1, b"body"))
            self.assertEqual(record.raw_properties, b"A\x01b\x02C\x01d")
            self.assertEqual((record.born_timestamp, record.store_timestamp), (77, 88))
            self.assertEqual((record.reconsume_times, record.prepared_transaction_offset), (2, 5))

    def test_a_run_goes_on_where_it_stopped(self) -> None:
        for twin in twins():
            small = [Put("T", 0, ((0, b"x", b""),), V4, 1) for _ in range(4)]
            small[2].entries = ((0, b"x" * 500, b""),)
            run, offsets, encoder = AppendRun(0, 1 << 20), NextOffsets(), twin.RunEncoder(V4, Put)
            self.assertEqual(encoder.encode_run(small, 0, run, 1, offsets, 200), 2)
            self.assertEqual(encoder.encode_run((small[2],), 0, run, 1, offsets, UNLIMITED), 1)
            self.assertEqual(encoder.encode_run(small, 3, run, 1, offsets, 200), 4)
            self.assertEqual([put.queue_offset for put in small], [0, 1, 2, 3])
            self.assertEqual(run.puts, small)
            self.assertEqual(sum(map(len, run.parts)), run.at)

    def test_what_is_no_put_is_refused_before_anything_is_written(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        encoder = compiled().RunEncoder(V4, Put)
        good: Put = Put("T", 0, ((0, b"x", b""),), V4, 1)
        wrong: list[tuple[type[Exception], Any]] = [
            (TypeError, object()),
            (TypeError, Put("T", 0, ((0, bytearray(b"x"), b""),), V4, 1)),  # type: ignore[arg-type]
            (TypeError, Put("T", 0, ((0, b"x"),), V4, 1)),  # type: ignore[arg-type]
            (TypeError, Put("T", 0, iter(()), V4, 1)),  # type: ignore[arg-type]
            (ValueError, Put("T", 0, ((0, b"x", b""),), V4, 1, content_size=5)),
            (ValueError, Put("T", 0, ((0, b"x", b""),), V6, 1)),
            (OverflowError, Put("T", 1 << 31, ((0, b"x", b""),), V4, 1)),
            (OverflowError, Put("T", 0, ((0, b"x", bytes(1 << 16)),), V4, 1)),
        ]
        for kind, bad in wrong:
            run = AppendRun(0, 1 << 30)
            self.assertRaises(kind, encoder.encode_run, [good, bad], 0, run, 1, NextOffsets(), UNLIMITED)
            self.assertEqual((run.at, run.parts, run.puts), (0, [], []))


class NextOffsetsTests(SynchronousTestCase):
    """Beside a table of pairs and numbers, which they replace."""

    QUEUE_IDS = st.sampled_from((0, 1, 7, IN_ARRAY - 1, IN_ARRAY, 5000, (1 << 31) - 1, -1, -(1 << 31)))

    @examples(100)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(("take", "put", "set", "remove")),
                st.sampled_from(("T", "\u00fc")),
                QUEUE_IDS,
                st.integers(0, 1 << 40),
            ),
            max_size=30,
        )
    )
    def test_each_queue_has_its_own(self, steps: list[tuple[str, str, int, int]]) -> None:
        for twin in twins():
            encoder, expected = twin.RunEncoder(V4, Put), dict[tuple[str, int], int]()
            offsets = NextOffsets({("T", 1): 5, ("T", -1): 6})
            expected |= {("T", 1): 5, ("T", -1): 6}
            for step, topic, queue_id, number in steps:
                key = (topic, queue_id)
                if step == "take":
                    self.assertEqual(offsets.take(topic, queue_id, number), expected.get(key, 0))
                    expected[key] = expected.get(key, 0) + number
                elif step == "put":
                    put: Put = Put(topic, queue_id, ((0, b"x", b""),) * 3, V4, 1)
                    encoder.encode_run([put], 0, AppendRun(0, 1 << 30), 1, offsets, UNLIMITED)
                    self.assertEqual(put.queue_offset, expected.get(key, 0))
                    expected[key] = put.queue_offset + 3
                elif step == "set":
                    offsets[key] = number
                    expected[key] = number
                else:
                    del offsets[key]
                    expected.pop(key, None)
                self.assertEqual(offsets[key], expected.get(key, 0))
            self.assertEqual(offsets, {key: number for key, number in expected.items() if number})

    def test_nothing_is_left_of_a_topic_that_is_removed(self) -> None:
        offsets = NextOffsets({("T", queue_id): 5 for queue_id in range(4)})
        for queue_id in range(4):
            self.assertEqual(offsets.pop(("T", queue_id)), 5)
        self.assertEqual(offsets.topics, {})


class BatchTests(SynchronousTestCase):
    @examples(100)
    @given(st.lists(entry, max_size=6))
    def test_entries(self, entries: list[tuple[int, bytes, bytes]]) -> None:
        for twin in twins():
            found, unended = twin.decode_batch(encode_batch(entries))
            self.assertEqual((len(found), list(found)), (len(entries), entries))
            self.assertEqual(unended, sum(own != b"" and own[-1] != 2 for _, _, own in entries))

    @examples(100)
    @given(st.lists(entry, min_size=1, max_size=4), st.randoms(use_true_random=False))
    def test_damage_is_found_by_both_alike(
        self, entries: list[tuple[int, bytes, bytes]], chance: random.Random
    ) -> None:
        data = bytearray(encode_batch(entries))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        body = bytes(data[: chance.randrange(len(data) + 1)]) if chance.random() < 0.3 else bytes(data)
        outcomes: list[Any] = []
        for twin in twins():
            try:
                found, unended = twin.decode_batch(body)
                outcomes.append((list(found), unended))
            except CorruptBatch as error:
                outcomes.append(str(error))
        self.assertEqual(outcomes[1:], outcomes[:-1])

    def test_more_messages_than_a_batch_may_have(self) -> None:
        for twin in twins():
            found, _ = twin.decode_batch(encode_batch([(0, b"", b"")] * MAX_ENTRIES))
            self.assertEqual(len(found), MAX_ENTRIES)
            body = encode_batch([(0, b"", b"")] * (MAX_ENTRIES + 1))
            self.assertRaises(CorruptBatch, twin.decode_batch, body)


def batch_of(entries: list[tuple[int, bytes, bytes]], shared: bytes, twin: Any) -> Put:
    found, _ = twin.decode_batch(encode_batch(entries))
    size = sum(len(body) + len(own) + len(shared) for _, body, own in entries)
    return Put("T", 1, found, V4, 77, shared_properties=shared, content_size=size)


class PackedTests(SynchronousTestCase):
    @examples(60)
    @given(st.lists(st.lists(entry, max_size=5), max_size=4), st.binary(max_size=20), st.integers(0, 3000))
    def test_batches_make_the_records_that_their_messages_make(
        self, batches: list[list[tuple[int, bytes, bytes]]], shared: bytes, batch_size: int
    ) -> None:
        outcomes = []
        for twin in twins():
            fresh = [batch_of(entries, shared, twin) for entries in batches]
            run, offsets = AppendRun(9, 1 << 30), NextOffsets()
            encoder = twin.RunEncoder(V4, Put, batch_size)
            index = 0
            while (index := encoder.encode_run(fresh, index, run, 5, offsets, 300)) < len(fresh):
                encoder.encode_run(fresh[index : index + 1], 0, run, 5, offsets, UNLIMITED)
                index += 1
            told = [(put.offset, put.end, put.queue_offset, list(put.record_offsets)) for put in fresh]
            outcomes.append((b"".join(run.parts), told, dict(offsets), run.puts == fresh))
        self.assertEqual(outcomes[1:], outcomes[:-1])

    def test_a_batch_within_its_own_limits_is_taken_at_once(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        twin, most = compiled(), layout.MAX_PROPERTIES_LENGTH
        encoder = twin.RunEncoder(V4, Put, 200_000)
        cases = [
            ([(0, bytes(1000), b"")] * 50, b"", 300, 1),
            ([(0, bytes(1000), b"")] * 300, b"", 300, 0),  # too long
            ([(0, b"", bytes(most - 5)), (0, b"", b"")], bytes(5), 300, 1),
            ([(0, b"", bytes(most - 5)), (0, b"", b"")], bytes(6), 300, 0),  # too long with what they share
            ([(0, bytes(1000), b"")] * 2, b"", -1, 0),  # nothing is taken at present
            ([(0, bytes(1000), b"")] * 300, b"", UNLIMITED, 1),
        ]
        for entries, shared, easy, taken in cases:
            puts = [batch_of(entries, shared, twin)]
            self.assertEqual(
                encoder.encode_run(puts, 0, AppendRun(0, 1 << 30), 1, NextOffsets(), easy), taken
            )
        puts = [batch_of(cases[0][0], b"", twin)]
        self.assertEqual(
            encoder.encode_run(puts, 0, AppendRun(0, 50_000), 1, NextOffsets(), 300), 0
        )  # no room
        run = AppendRun(0, 1 << 30)
        self.assertEqual(twin.RunEncoder(V4, Put).encode_run(puts, 0, run, 1, NextOffsets(), 300), 0)

    def test_packed_messages_are_looked_at_as_often_as_one_likes(self) -> None:
        for twin in twins():
            found, _ = twin.decode_batch(encode_batch([(-1, b"a", b"\x02"), (2, b"", b"")]))
            for _ in range(2):
                self.assertEqual(list(found), [(-1, b"a", b"\x02"), (2, b"", b"")])

    def test_packed_messages_come_from_a_checked_body_only(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        found, _ = compiled().decode_batch(encode_batch([(0, b"a", b"")]))
        made = type(found)()
        self.assertEqual((len(made), list(made)), (0, []))
        self.assertRaises(TypeError, copy.copy, found)


class PureTests(SynchronousTestCase):
    def test_pythons_twin_has_the_kernels_names(self) -> None:
        self.assertTrue(pure.__all__)
        for twin in twins():
            self.assertEqual([name for name in pure.__all__ if not hasattr(twin, name)], [])
