"""Usual records: what the compiled twin finds equals the columns, and it stops at whatever is unusual."""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.kernel import pure
from hatwisted.kernel.limits import INDEX_ITEMS, JOINED_BYTES, QUEUE_TAIL
from hatwisted.logcodec.scan import MAX_RECORDS
from hatwisted.wire import layout
from hatwisted.wire.record import encode_blank, encode_record, make_record
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, by_columns, compiled, told
from tests.support.logpieces import BASE, piece, records

PLAIN: dict[str, Any] = {"topic": "T", "body": b"x", "raw_properties": b"", "queue_id": 0, "sys_flag": 0}


class UsualRecordTests(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        self.in_pieces = partial(compiled().usual_records, queues=compiled().QueueMap(), grown=[])

    def usual(self, data: bytes, base: int, keys: bool) -> Any:
        return self.in_pieces([data], base, keys)

    @examples(100)
    @given(st.lists(records(odd=False), min_size=1, max_size=6), st.booleans())
    def test_usual_records_are_all_found(self, fields: list[dict[str, Any]], keys: bool) -> None:
        data = piece(fields)
        found = self.usual(data, BASE, keys)
        self.assertEqual(told(found), by_columns(data, BASE, keys))
        self.assertEqual(found.stored, fields[-1]["store_timestamp"])
        queued = [each["store_timestamp"] for each in fields if not each["sys_flag"] & layout.SYS_UNQUEUED]
        self.assertEqual(found.queued, queued[-1] if queued else 0)

    @examples(100)
    @given(st.lists(records(odd=True), min_size=1, max_size=6))
    def test_whatever_is_found_is_right(self, fields: list[dict[str, Any]]) -> None:
        data = piece(fields)
        found = self.usual(data, BASE, True)
        if found is not None:
            self.assertEqual(told(found), by_columns(data[: found.size], BASE, True))

    @examples(150)
    @given(st.lists(records(odd=True), min_size=1, max_size=6), st.randoms(use_true_random=False))
    def test_pieces_are_what_they_are_together(
        self, fields: list[dict[str, Any]], chance: random.Random
    ) -> None:
        data = piece(fields)
        data = data[: chance.randrange(len(data) + 1)]
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(12)))
        pieces: list[Any] = [memoryview(data)[start:end] for start, end in pairwise([0, *cuts, len(data)])]
        self.assertEqual(self.in_pieces(pieces, BASE, True), self.usual(data, BASE, True))

    def test_what_lies_in_many_pieces_is_joined_up_to_a_limit(self) -> None:
        large = piece([PLAIN | {"body": bytes(JOINED_BYTES // 4)}] * 6)
        size = len(large) // 6
        halves = [large[: size // 2], *(large[at : at + size] for at in range(size // 2, len(large), size))]
        found = self.in_pieces(halves, BASE, True)
        self.assertEqual((found.records, found.size, found.needed), (3, 3 * size, 0))
        self.assertIsNone(self.in_pieces([bytes(1)] * 3, BASE, True))
        self.assertIsNone(self.in_pieces([], BASE, True))

    def test_it_says_what_the_next_record_needs(self) -> None:
        one = piece([PLAIN])
        data = piece([PLAIN, PLAIN | {"body": bytes(300)}])
        rest = len(data) - len(one)
        for kept, needed in ((0, 0), (3, 0), (4, rest), (rest - 1, rest), (rest, 0)):
            self.assertEqual(self.usual(data[: len(one) + kept], BASE, True).needed, needed, kept)
        for large in (JOINED_BYTES, JOINED_BYTES + 1, (1 << 31) - 1):
            head = large.to_bytes(4, "big")
            for pieces in ([one + head], [one, head], [one[:20], one[20:] + head]):
                self.assertEqual(self.in_pieces(pieces, BASE, True).needed, large)
        for bad in (0, 8, layout.FIXED_SIZE - 1, 1 << 31):
            self.assertEqual(self.usual(one + bad.to_bytes(4, "big"), BASE, True).needed, 0)

    @examples(150)
    @given(st.lists(records(odd=False), min_size=1, max_size=5), st.randoms(use_true_random=False))
    def test_damage(self, fields: list[dict[str, Any]], chance: random.Random) -> None:
        data = bytearray(piece(fields))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        damaged = bytes(data[: chance.randrange(len(data) + 1)])
        found = self.usual(damaged, BASE, True)
        if found is not None:
            self.assertEqual(told(found), by_columns(damaged[: found.size], BASE, True))

    def test_it_stops_before_what_is_unusual(self) -> None:
        plain = {"topic": "T", "body": b"x", "raw_properties": b"TAGS\x01t\x02", "queue_id": 0, "sys_flag": 0}
        unusual: list[dict[str, Any]] = [
            {"topic": "ü"},
            {"topic": layout.SCHEDULE_TOPIC},
            {"raw_properties": "TAGS\x01ü".encode()},
            {"raw_properties": b"KEYS\x01" + b"k " * 9000},
            {"version": 2},
        ]
        for change in unusual:
            data = piece([plain, plain, plain | change, plain])
            found = self.usual(data, BASE, True)
            self.assertEqual((found.records, len(found.runs)), (2, 1), change)
            self.assertEqual(told(found), by_columns(data[: found.size], BASE, True))
            self.assertIsNone(self.usual(data[found.size :], BASE + found.size, True))
        one = piece([plain])
        for rest in (b"", encode_blank(64), bytes(200), one[:-1], one[:20], one):
            self.assertEqual(self.usual(one + rest, BASE, True).size, len(one))
        for bad in (b"", one[:-1], bytes(200), encode_blank(64)):
            self.assertIsNone(self.usual(bad, BASE, True))
        self.assertIsNone(self.usual(one, BASE + 1, True))

    def test_a_queue_that_jumps_begins_another_run(self) -> None:
        plain = {"topic": "T", "body": b"x", "raw_properties": b"", "queue_id": 0, "sys_flag": 0}
        first = piece([plain])
        record = make_record(**plain, queue_offset=9, physical_offset=BASE + len(first))  # type: ignore[arg-type]
        data = first + encode_record(record)
        found = self.usual(data, BASE, True)
        self.assertEqual((found.records, found.size), (1, len(first)))
        (run,) = self.usual(data[len(first) :], BASE + len(first), True).runs
        self.assertEqual((run.queue_offset, run.physical_offset), (9, BASE + len(first)))

    def test_no_more_than_a_step_has(self) -> None:
        fields = [
            {"topic": f"T{number}", "body": b"", "raw_properties": b"", "queue_id": 0, "sys_flag": 0}
            for number in range(MAX_RECORDS + 5)
        ]
        data = piece(fields)
        found = self.usual(data, BASE, True)
        self.assertEqual((found.records, len(found.runs)), (MAX_RECORDS, MAX_RECORDS))
        self.assertEqual(told(found), by_columns(data, BASE, True))
        keys = [{**fields[0], "raw_properties": b"KEYS\x01" + b"k " * 100} for _ in range(100)]
        data = piece(keys)
        found = self.usual(data, BASE, True)
        of_record = len(self.usual(piece(keys[:1]), BASE, True).hashes)
        self.assertEqual(len(found.hashes), 4 * INDEX_ITEMS // of_record * of_record)  # 4 bytes each
        self.assertEqual(told(found), by_columns(data[: found.size], BASE, True))


class TailTests(SynchronousTestCase):
    """Queues as both twins keep them."""

    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)

    @examples(100)
    @given(
        st.lists(records(odd=True), min_size=1, max_size=30),
        st.integers(0, 12),
        st.randoms(use_true_random=False),
    )
    def test_what_usual_records_gather_is_what_their_runs_would(
        self, fields: list[dict[str, Any]], room: int, chance: random.Random
    ) -> None:
        data = piece(fields)
        plain, oracle, found = (
            compiled().usual_records([data], BASE, True, compiled().QueueMap(), []),
            Queues(pure),
            Queues(compiled()),
        )
        if plain is None:
            return
        for run in plain.runs:
            if chance.random() < 0.8:
                start = chance.choice((run.queue_offset, run.queue_offset, 0))
                physical = chance.choice((0, run.physical_offset, run.physical_offset + 1))
                for queues in (oracle, found):
                    queues.add(run.topic, run.queue_id, start, room, physical)
        told: list[Any] = []
        quick = compiled().usual_records([data], BASE, True, found.map, told)
        left = [run for run in plain.runs if not oracle.gather(run)]
        self.assertEqual(quick.runs, left)
        self.assertEqual((quick.records, quick.size, quick.hashes), (plain.records, plain.size, plain.hashes))
        self.assertEqual(found.state(), oracle.state())
        self.assertEqual(found.begun, oracle.begun)
        grown = [(run.topic, run.queue_id) for run in plain.runs if run not in left]
        self.assertEqual([(queue.topic, queue.queue_id) for queue in told], grown)

    @examples(100)
    @given(
        st.lists(
            st.tuples(
                *(st.sampled_from((0, 0, 0, 0, 1, -1)), st.integers(-1, 3)),
                *(st.integers(0, 50), st.integers(0, 1 << 40)),
            ),
            max_size=80,
        ),
        st.sampled_from((0, 20, 600, 1 << 40)),
    )
    def test_one_by_one(self, steps: list[tuple[int, int, int, int]], room: int) -> None:
        oracle, found = Queues(pure), Queues(compiled())
        for queues in (oracle, found):
            queues.add("T", 0, 5, room, 9)
        for index, physical, count, offset in steps:
            entries = layout.QUEUE_ENTRY.pack(offset, count, index) * count
            for queues in (oracle, found):
                queue = queues.by_name["T", 0]
                first = queue.max_offset + index
                run = pure.QueueRun("T", 0, first, queue.max_physical + physical, entries)
                queues.said.append(queues.gather(run))
            self.assertEqual(found.state(), oracle.state())
        self.assertEqual((found.said, found.begun), (oracle.said, oracle.begun))

    def test_a_listener_that_fails_leaves_the_queue_as_it_was(self) -> None:
        def fail(queue: Any) -> None:
            raise ZeroDivisionError

        data = piece([PLAIN], first=0)
        for twin in (pure, compiled()):
            queues = Queues(twin)
            queue = queues.add("T", 0, 0, 10, 0, fail)
            with self.assertRaises(ZeroDivisionError):
                queue.gather(0, bytes(20), 0)
            self.assertEqual((queue.max_offset, bytes(queue._tail)), (0, b""))
        with self.assertRaises(ZeroDivisionError):
            compiled().usual_records([data], BASE, True, queues.map, [])
        self.assertEqual((queue.max_offset, bytes(queue._tail)), (0, b""))

    def test_of_queues_that_have_grown_before_an_error_is_told(self) -> None:
        queues, told = Queues(compiled()), list[Any]()
        queues.add("T", 0, 0, 10, 0)
        queues.add("U", 0, 0, 10, 0, lambda queue: 1 // 0)
        data = piece([PLAIN, PLAIN | {"topic": "U"}], first=0)
        with self.assertRaises(ZeroDivisionError):
            compiled().usual_records([data], BASE, True, queues.map, told)
        self.assertEqual(told, [queues.by_name["T", 0]])

    def test_less_than_an_entry_is_none(self) -> None:
        for twin in (pure, compiled()):
            self.assertFalse(Queues(twin).add("T", 0, 0, 10, 0).gather(0, bytes(19), 0))

    def test_no_more_than_a_tail_has_room_for(self) -> None:
        for twin in (pure, compiled()):
            queue = Queues(twin).add("T", 0, 0, QUEUE_TAIL, 0)
            while queue.gather(queue.max_offset, bytes(layout.QUEUE_ENTRY_SIZE), 0):
                pass
            self.assertEqual(queue.max_offset, QUEUE_TAIL // layout.QUEUE_ENTRY_SIZE)

    def test_only_tails_are_taken_for_queues(self) -> None:
        with self.assertRaises(TypeError):
            compiled().QueueMap().put(object())
        with self.assertRaises(TypeError):
            compiled().usual_records([piece([PLAIN], first=0)], BASE, True, {}, [])


class QueueMapTests(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)

    @examples(60)
    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=600), st.integers(0, 200))
    def test_queues_in_service_are_found_and_no_others(
        self, changes: list[tuple[bool, int]], first: int
    ) -> None:
        """With queues by the hundred, so that places are taken, left and made anew."""
        oracle, found = Queues(pure), Queues(compiled())
        for put, number in [(True, each) for each in range(first)] + changes:
            name = f"T{number // 4}", number % 4
            for queues in (oracle, found):
                if put and name not in queues.by_name:
                    queues.add(*name, 0, 1, 0)
                elif not put and name in queues.by_name:
                    queues.map.remove(queues.by_name[name])
        self.assertEqual(list(found.by_name), list(oracle.by_name))
        names = [(f"T{number // 4}", number % 4) for number in range(301)]
        data = piece([PLAIN | {"topic": topic, "queue_id": queue_id} for topic, queue_id in names], first=0)
        told: list[Any] = []
        quick = compiled().usual_records([data], BASE, True, found.map, told)
        self.assertEqual(told, [found.by_name[name] for name in names if name in found.by_name])
        left = [(run.topic, run.queue_id) for run in quick.runs]
        self.assertEqual(left, [name for name in names if name not in found.by_name])

    def test_many_that_come_and_go_leave_room(self) -> None:
        """With what they leave, no look for a place or for a queue goes on for ever."""
        found = Queues(compiled())
        for number in range(1000):
            found.map.remove(found.add(f"T{number}", 0, 0, 1, 0))
        data = piece([PLAIN], first=0)
        quick = compiled().usual_records([data], BASE, True, found.map, [])
        self.assertEqual([run.topic for run in quick.runs], ["T"])

    def test_a_queue_without_a_name_is_none(self) -> None:
        queue = compiled().QueueTail.__new__(compiled().QueueTail)
        with self.assertRaises(TypeError):
            compiled().QueueMap().put(queue)

    def test_a_listener_may_take_queues_out_of_service(self) -> None:
        queues, told = Queues(compiled()), list[Any]()

        def remove(queue: Any) -> None:
            queues.map.remove(queues.by_name["U", 0])

        queues.add("T", 0, 0, 10, 0, remove)
        queues.add("U", 0, 0, 10, 0)
        data = piece([PLAIN, PLAIN | {"topic": "U"}], first=0)
        quick = compiled().usual_records([data], BASE, True, queues.map, told)
        self.assertEqual(told, [queues.by_name["T", 0]])
        self.assertEqual([run.topic for run in quick.runs], ["U"])

    def test_topics_that_no_usual_record_has_are_kept_apart(self) -> None:
        found = Queues(compiled())
        for topic in ("\xe4", "\udcff", "", "T\0"):
            found.add(topic, 0, 0, 10, 0)
            self.assertIs(found.by_name[topic, 0].topic, topic)
        quick = compiled().usual_records([piece([PLAIN], first=0)], BASE, True, found.map, [])
        self.assertEqual([run.topic for run in quick.runs], ["T"])
        for queue in list(found.by_name.values()):
            found.map.remove(queue)
        self.assertEqual(dict(found.by_name), {})

    def test_a_name_is_there_once_and_goes_with_its_queue(self) -> None:
        for twin in (pure, compiled()):
            queues, others = Queues(twin), Queues(twin)
            queue, other = queues.add("T", 0, 0, 10, 0), others.add("T", 0, 0, 10, 0)
            for refused in (queue, other):
                with self.assertRaises(KeyError):
                    queues.map.put(refused)
            with self.assertRaises(KeyError):
                queues.map.remove(other)
            self.assertEqual(dict(queues.by_name), {("T", 0): queue})
            queues.map.remove(queue)
            with self.assertRaises(KeyError):
                queues.map.remove(queue)
            with self.assertRaises(TypeError):
                queues.by_name["T", 0] = queue
            queues.map.put(other)
            self.assertEqual(dict(queues.by_name), {("T", 0): other})

    def test_a_queue_keeps_its_name(self) -> None:
        queue = Queues(compiled()).add("T", 0, 0, 10, 0)
        with self.assertRaises(TypeError):
            queue.__init__("U", 0, print)
        with self.assertRaises(AttributeError):
            queue.topic = "U"


class Queues:
    """Tails of one twin, without files; what was asked of them."""

    def __init__(self, twin: Any) -> None:
        self.map = twin.QueueMap()
        self.by_name = self.map.by_name
        self.begun: list[tuple[str, int]] = []
        self.said: list[bool] = []
        self._twin = twin

    def add(
        self, topic: str, queue_id: int, begin: int, room: int, physical: int, on_tail: Any = None
    ) -> Any:
        """A queue that is empty from index `begin` on, with a file for `room` entries more."""
        queue = self._twin.QueueTail(topic, queue_id, on_tail or self._begun)
        queue._end = queue._written = begin * layout.QUEUE_ENTRY_SIZE
        queue._file_end = queue._end + room * layout.QUEUE_ENTRY_SIZE
        queue.max_offset, queue.max_physical = begin, physical
        self.map.put(queue)
        return queue

    def _begun(self, queue: Any) -> None:
        self.begun.append((queue.topic, queue.queue_id))

    def gather(self, run: pure.QueueRun) -> bool:
        queue = self.by_name.get((run.topic, run.queue_id))
        return queue is not None and bool(queue.gather(run.queue_offset, run.entries, run.physical_offset))

    def state(self) -> list[tuple[Any, ...]]:
        return [
            (name, queue.max_offset, queue.max_physical, queue._end, queue._written, bytes(queue._tail))
            for name, queue in self.by_name.items()
        ]
