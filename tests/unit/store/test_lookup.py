"""Times of messages, places by time, records by offset: what look-ups, resets and statistics ask a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hatwisted.store.dispatch import recordproof
from hatwisted.store.interfaces import GrownQueue
from hatwisted.store.log.put import Put
from hatwisted.store.messagestore import HOT_DISTANCE, MessageStore
from hatwisted.wire.layout import BODY_AT
from hatwisted.wire.record import encode_record, make_record
from tests.unit.store.test_messagestore import FILE_SIZE, HOST, StoreTestCase

STEP = 10
"""Seconds between two messages."""


class LookupCase(StoreTestCase):
    def filled(self, count: int = 5, **options: object) -> tuple[MessageStore, list[Put], list[int]]:
        """A store with messages of queue T-0, and their times (ms)."""
        store, _ = self.opened(**options)
        puts, times = [], []
        for number in range(count):
            self.clock.advance(STEP)
            times.append(int(self.clock.seconds() * 1000))
            puts.append(Put("T", 0, ((0, b"%d" % number * 100, b""),), HOST, 1))
            store.append(puts[-1:])
        self.clock.pump([0.006] * 5)
        return store, puts, times

    def around(self, puts: list[Put]) -> Iterator[int]:
        """Offsets at which no record begins."""
        for put in puts:
            yield put.offset + 1
            yield put.end - 1
        yield puts[-1].end


class TimeTests(LookupCase):
    def test_the_first_message_stored_at_a_time_or_later(self) -> None:
        store, _, times = self.filled()
        for number, time in enumerate(times):
            self.assertEqual(store.offset_by_time("T", 0, time), number)
            self.assertEqual(store.offset_by_time("T", 0, time - 1), number)
            self.assertEqual(
                store.offset_by_time("T", 0, time + 1), min(number + 1, 4), "the last, after all"
            )
        self.assertEqual((store.offset_by_time("T", 0, 0), store.offset_by_time("T", 0, 1 << 62)), (0, 4))

    def test_of_a_queue_that_has_lost_its_first_messages(self) -> None:
        store, puts, times = self.filled()
        store.queues.expire(puts[2].offset)
        self.assertEqual(store.queue_offsets("T", 0), (2, 5))
        self.assertEqual([store.offset_by_time("T", 0, each) for each in times], [2, 2, 2, 3, 4])
        self.assertEqual(store.earliest_store_time("T", 0), times[2])
        self.assertEqual([store.message_time("T", 0, n) for n in range(5)], [-1, -1, *times[2:]])
        store.queues.expire(puts[-1].end)
        self.assertEqual((store.offset_by_time("T", 0, times[4]), store.earliest_store_time("T", 0)), (0, -1))

    def test_times_of_messages_and_none_where_there_are_none(self) -> None:
        store, _, times = self.filled()
        self.assertEqual([store.message_time("T", 0, number) for number in range(-1, 6)], [-1, *times, -1])
        self.assertEqual((store.earliest_store_time("T", 0), store.earliest_message_time()), (times[0],) * 2)
        self.assertEqual((store.queue_end("T", 0), store.queue_offsets("T", 0)), (5, (0, 5)))
        for topic, queue_id in (("T", 1), ("U", 0)):
            self.assertEqual(store.offset_by_time(topic, queue_id, times[0]), 0)
            self.assertEqual(store.earliest_store_time(topic, queue_id), -1)
            self.assertEqual(store.message_time(topic, queue_id, 0), -1)
            self.assertEqual(
                (store.queue_end(topic, queue_id), store.queue_offsets(topic, queue_id)), (0, (0, 0))
            )

    def test_a_log_without_a_message_has_no_time(self) -> None:
        store, _ = self.opened()
        self.assertEqual(store.earliest_message_time(), -1)


class RecordTests(LookupCase):
    def test_a_record_by_its_offset_and_by_no_other(self) -> None:
        store, puts, times = self.filled()
        for number, put in enumerate(puts):
            record = store.record_at(put.offset)
            assert record is not None
            self.assertEqual((record.body, record.store_timestamp), (b"%d" % number * 100, times[number]))
            self.assertEqual((record.queue_offset, record.physical_offset), (number, put.offset))
            self.assertEqual(store.look_message(put.offset), store.log.read(put.offset, put.end - put.offset))
        for offset in (-1, *self.around(puts), 1 << 40):
            self.assertIsNone(store.record_at(offset))
            self.assertIsNone(store.look_message(offset))

    def test_undispatched_records_by_the_chain_that_leads_to_them(self) -> None:
        store, puts, _ = self.filled(3)
        for begin, size in ((store.log.max_offset, 3000), (FILE_SIZE, 3000), (2 * FILE_SIZE, 3000)):
            inner = encode_record(make_record("T", b"forged", physical_offset=begin + BODY_AT))
            store.append([put := Put("T", 0, ((0, inner + bytes(size), b""),), HOST, 1)])
            self.assertEqual(put.offset, begin)
            puts.append(put)
        self.assertGreater(store.dispatch_behind_bytes, 6000)
        for offset in (puts[5].offset, puts[3].offset, puts[4].offset, puts[0].offset):
            self.assertIsNotNone(store.record_at(offset), offset)
            if offset >= puts[3].offset:
                self.assertIsNotNone(store.look_message(offset + BODY_AT))
                self.assertIsNone(store.record_at(offset + BODY_AT))
        self.clock.pump([0.006] * 5)
        self.assertEqual(store.dispatch_behind_bytes, 0)
        for put in puts:
            self.assertIsNotNone(store.record_at(put.offset))
            self.assertIsNone(store.record_at(put.offset + BODY_AT))

    def test_a_damaged_body_is_looked_at_and_not_taken_for_a_record(self) -> None:
        store, puts, _ = self.filled(1)
        file = min(self.path("commitlog").iterdir())
        with file.open("r+b") as damaged:
            damaged.seek(puts[0].offset + 100)
            damaged.write(b"?")
        self.assertIsNone(store.record_at(puts[0].offset))
        self.assertIsNotNone(store.look_message(puts[0].offset))


class HotTests(LookupCase):
    def test_a_queue_starts_hot_if_its_first_message_is_within_the_share_of_memory(self) -> None:
        store, puts, _ = self.filled()
        behind = store.get_messages("T", 0, 0, 1, 1).behind_bytes
        self.assertGreater(behind, 0)
        self.kill()
        for memory, hot in ((int(behind / HOT_DISTANCE) + 3, True), (int(behind / HOT_DISTANCE) - 3, False)):
            store, _ = self.opened(memory_bytes=memory)
            self.assertEqual(store.starts_hot("T", 0), hot)
            self.kill()

    def test_one_without_a_message_does_and_one_that_has_lost_its_first_doesnt(self) -> None:
        store, puts, _ = self.filled()
        for topic, queue_id in (("T", 1), ("U", 0)):
            self.assertTrue(store.starts_hot(topic, queue_id))
        store.queues.expire(puts[1].offset)
        self.assertFalse(store.starts_hot("T", 0))


class ListenerTests(LookupCase):
    def test_who_listens_hears_of_each_queue_until_he_doesnt(self) -> None:
        store, _ = self.opened()
        heard: list[tuple[str, int, int]] = []

        def listen(grown: Sequence[GrownQueue]) -> None:
            heard.extend((queue.topic, queue.queue_id, queue.max_offset) for queue in grown)

        store.add_arrival_listener(listen)
        self.put(store, 2)
        self.assertEqual(sorted(heard), [("T", 0, 1), ("T", 1, 1)])
        store.remove_arrival_listener(listen)
        self.put(store)
        self.assertEqual(len(heard), 2)


class AheadTests(LookupCase):
    def test_of_undispatched_log_so_much_is_walked_over_and_no_more(self) -> None:
        store, _, _ = self.filled(1)
        puts = [Put("T", 0, ((0, bytes(500), b""),), HOST, 1) for _ in range(4)]
        for put in puts:
            store.append([put])
        self.assertGreater(store.log.max_offset, store.dispatcher.reput_offset)
        self.patch(recordproof, "MOST_AHEAD", puts[2].offset - puts[0].offset)
        found = [store.record_at(put.offset) is not None for put in puts]
        self.assertEqual(found, [True, True, False, False])
        self.clock.pump([0.006] * 5)
        self.assertTrue(all(store.record_at(put.offset) is not None for put in puts))
