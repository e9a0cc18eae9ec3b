"""Dispatch from the log to queues and index, and when it happens."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.fewscan import FEW
from hatwisted.logcodec.scan import MAX_RECORDS
from hatwisted.store.dispatch import dispatcher as dispatcher_module
from hatwisted.store.dispatch import reput as reput_module
from hatwisted.store.dispatch.reput import (
    BUSY_COALESCE,
    COALESCE,
    PROMPT_BURST,
    PROMPT_SLICES,
    RETRY,
    SLICE,
    STOP_LIMIT,
    ReputService,
)
from hatwisted.store.errors import StoreError, StoreFull
from hatwisted.wire import layout
from hatwisted.wire.record import encode_blank, make_record
from tests.support.examples import examples
from tests.support.golden import GOLDEN, GOLDEN_END, log_bytes
from tests.support.logbuilder import FILE_SIZE, START_TIME, LogBuilder
from tests.support.manualworker import ManualWorker
from tests.support.samplestore import ITEMS, SampleStore, entries_of, items_of, queues_of


class StoreTestCase(SynchronousTestCase):
    def store(self, **options: object) -> SampleStore:
        store = SampleStore(self.mktemp(), **options)  # type: ignore[arg-type]
        self.addCleanup(store.close)
        return store

    def feed(self, store: SampleStore, data: bytes) -> None:
        """Append raw log bytes as a slave does."""
        store.log.append_raw(store.log.max_offset, (bytes(data),))

    def small_steps(self) -> None:
        """Steps of 4 KiB at most, from memory or not."""
        self.patch(dispatcher_module, "CHUNK", 4096)
        self.patch(dispatcher_module, "STEP", 4096)

    def assertDispatched(self, store: SampleStore, data: bytes, base: int = 0) -> None:
        """Queues and index hold exactly what these bytes of log call for."""
        entries = entries_of(bytes(data), base, store.files.file_size)
        self.assertEqual(store.contents(), queues_of(entries))
        if store.index is not None:
            self.assertEqual(store.items(), items_of(entries))


def tree(folder: Path) -> dict[str, bytes]:
    """Relative path and content of every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class GoldenTests(StoreTestCase):
    def golden(self, role: str, pieces: list[bytes]) -> None:
        store = self.store()
        for piece in pieces:
            self.feed(store, piece)
            store.dispatch_all()
        store.close()
        golden, ours = GOLDEN / role, Path(store.root)
        for folder in ("consumequeue", "index"):
            expected, found = tree(golden / folder), tree(ours / folder)
            if folder == "index":
                # An index file is named by when it was made.
                expected, found = {"": b"".join(expected.values())}, {"": b"".join(found.values())}
            self.assertEqual(list(found), list(expected))
            self.assertEqual([path for path in expected if found[path] != expected[path]], [])

    def test_golden_master_log_gives_the_golden_queue_and_index_files(self) -> None:
        self.golden("master", [log_bytes("master")[:GOLDEN_END]])

    def test_B93_slave_builds_the_same_from_the_log_alone(self) -> None:
        self.golden("slave", [log_bytes("slave")[:GOLDEN_END]])

    def test_golden_files_whatever_the_pieces_the_log_arrives_in(self) -> None:
        data, choice = log_bytes("master")[:GOLDEN_END], random.Random(5)
        pieces = []
        while data:
            size = choice.choice([1, 7, 100, 3000, 20_000])
            # A log that arrives over the link never crosses a file's end in one piece.
            pieces.append(data[:size])
            data = data[size:]
        self.golden("master", pieces)


class DispatchTests(StoreTestCase):
    def test_few_and_many_records_give_the_same(self) -> None:
        for count in (1, FEW, FEW + 1, 300):
            store, writer = self.store(), LogBuilder().fill(count)
            self.feed(store, writer.data)
            store.dispatch_all()
            self.assertDispatched(store, writer.data)
            self.assertEqual(store.dispatcher.reput_offset, writer.end)
            self.assertEqual(store.dispatcher.behind_bytes, 0)

    @examples(10)
    @given(st.lists(st.integers(1, 120), min_size=1, max_size=12), st.integers(0, 3), st.integers(1, 6))
    def test_any_batches_any_queues(self, batches: list[int], seed: int, topics: int) -> None:
        store, writer, choice = self.store(), LogBuilder(), random.Random(seed)
        for count in batches:
            for _ in range(count):
                writer.add(f"T{choice.randrange(topics)}", choice.randrange(4), bytes(choice.randrange(300)))
            self.feed(store, bytes(writer.data[store.log.max_offset :]))
            store.dispatch_all()
        self.assertDispatched(store, writer.data)
        store.close()

    def test_more_records_than_one_scan_takes(self) -> None:
        store = self.store(file_size=1 << 20)
        writer = LogBuilder(file_size=1 << 20)
        for _ in range(MAX_RECORDS + 50):
            writer.add(raw=b"")
        self.feed(store, writer.data)
        store.dispatch_all()
        self.assertDispatched(store, writer.data)

    def test_a_record_longer_than_a_chunk_is_read_whole(self) -> None:
        self.small_steps()
        store, writer = self.store(), LogBuilder().fill(3)
        writer.add(body=bytes(9000))
        writer.fill(200)
        self.feed(store, writer.data)
        store.dispatch_all()
        self.assertDispatched(store, writer.data)

    def test_B94_half_a_record_waits_for_the_rest(self) -> None:
        store, writer = self.store(), LogBuilder().fill(5)
        whole = writer.end
        writer.add(body=bytes(500))
        for cut in (3, 8, 60, 400, writer.end - whole - 1):
            self.feed(store, writer.data[store.log.max_offset : whole + cut])
            store.dispatch_all()
            self.assertEqual(store.dispatcher.reput_offset, whole)
        self.feed(store, writer.data[store.log.max_offset :])
        store.dispatch_all()
        self.assertDispatched(store, writer.data)

    def test_half_a_blank_waits_for_the_rest(self) -> None:
        store, writer = self.store(), LogBuilder().fill_files(2)
        blank = next(at for at in reversed(writer.offsets) if at < FILE_SIZE)
        blank += int.from_bytes(writer.data[blank : blank + 4], "big")
        self.feed(store, writer.data[: blank + 20])
        store.dispatch_all()
        self.assertEqual(store.dispatcher.reput_offset, blank)
        self.feed(store, writer.data[blank + 20 :])
        store.dispatch_all()
        self.assertDispatched(store, writer.data)

    def test_log_that_begins_in_mid_stream(self) -> None:
        writer = LogBuilder().fill_files(3)
        store, base = self.store(), FILE_SIZE
        store.log.append_raw(base, (bytes(writer.data[base : 2 * base]),))
        self.feed(store, writer.data[2 * base :])
        store.dispatcher.begin_at(base)
        store.dispatch_all()
        entries = entries_of(bytes(writer.data[base:]), base)
        self.assertEqual(store.contents(), queues_of(entries))
        queue = store.queues.get("Topic0", 0)
        first = next(entry for entry in entries if (entry.topic, entry.queue_id) == ("Topic0", 0))
        self.assertEqual(queue.min_offset, first.queue_offset)
        self.assertGreater(first.queue_offset, 0)

    def test_a_log_begin_that_has_moved_past_the_dispatch_is_followed(self) -> None:
        writer = LogBuilder().fill_files(3)
        store = self.store()
        self.feed(store, writer.data[:FILE_SIZE])
        self.feed(store, writer.data[FILE_SIZE:])
        store.files.delete_before(FILE_SIZE)
        store.dispatch_all()
        self.assertEqual(store.contents(), queues_of(entries_of(bytes(writer.data[FILE_SIZE:]), FILE_SIZE)))

    def test_repeated_records_change_nothing(self) -> None:
        store, writer = self.store(), LogBuilder().fill(200)
        self.feed(store, writer.data)
        store.dispatch_all()
        for start in (0, writer.offsets[50], writer.offsets[190]):
            store.dispatcher.begin_at(start)
            store.dispatch_all()
            self.assertDispatched(store, writer.data)

    def test_dispatch_again_fills_only_what_is_missing(self) -> None:
        writer = LogBuilder().fill(400)
        for few in (True, False):
            store = self.store()
            self.feed(store, writer.data)
            store.dispatch_all()
            store.queues.get("Topic1", 2).truncate(writer.offsets[150])
            assert store.index is not None
            store.index.truncate(writer.offsets[100])
            store.dispatcher.begin_at(0)
            if few:
                self.patch(dispatcher_module, "FEW", 1 << 20)
            store.dispatch_all()
            self.assertDispatched(store, writer.data)

    def test_half_and_rolled_back_messages_get_no_queue_entry(self) -> None:
        for count in (1, 10):
            store, writer = self.store(), LogBuilder()
            for _ in range(count):
                for flag in (0, 4, 8, 12):
                    writer.add(sys_flag=flag)
            self.feed(store, writer.data)
            store.dispatch_all()
            self.assertDispatched(store, writer.data)
            self.assertEqual(store.queues.get("TopicA", 0).max_offset, 2 * count)

    def test_B97_delayed_messages_carry_their_deliver_time(self) -> None:
        raw = b"DELAY\x013\x02REAL_TOPIC\x01T\x02TAGS\x01x\x02REAL_QID\x010"
        for count in (1, 50):
            store, writer = self.store(), LogBuilder()
            for _ in range(count):
                writer.add(layout.SCHEDULE_TOPIC, 2, raw=raw)
            self.feed(store, writer.data)
            store.dispatch_all()
            entry = store.queues.get(layout.SCHEDULE_TOPIC, 2).read(count - 1, 1)
            due = START_TIME + 10 * (count - 1) + 10_000
            self.assertEqual(layout.QUEUE_ENTRY.unpack(entry)[2], due)

    def test_without_index(self) -> None:
        store, writer = self.store(index=False), LogBuilder().fill(100)
        self.feed(store, writer.data)
        store.dispatch_all()
        self.assertDispatched(store, writer.data)

    def test_arrivals_are_reported_once_per_queue_and_step(self) -> None:
        store, writer = self.store(), LogBuilder().fill(120)
        self.feed(store, writer.data)
        store.dispatch_all()
        expected = {(topic, queue_id, 20) for topic in ("Topic0", "Topic1") for queue_id in range(3)}
        self.assertEqual(len(store.arrivals), 6)
        self.assertEqual(set(store.arrivals), expected)

    def test_timestamps_for_the_checkpoint(self) -> None:
        for count in (3, 60):
            store, writer = self.store(), LogBuilder().fill(count)
            writer.add(sys_flag=layout.SYS_TRANSACTION_PREPARED)
            self.feed(store, writer.data)
            store.dispatch_all()
            self.assertEqual(store.dispatcher.logics_timestamp, START_TIME + 10 * (count - 1))
            self.assertEqual(store.dispatcher.dispatched_timestamp, START_TIME + 10 * count)

    def test_a_clock_that_was_set_back_is_followed(self) -> None:
        """Whichever way records are dispatched: few or many, as the compiled twin does it or not."""
        for usual in {None, dispatcher_module.usual_records}:
            self.patch(dispatcher_module, "usual_records", usual)
            for count in (3, 60):
                store, writer = self.store(), LogBuilder().fill(count)
                self.feed(store, writer.data)
                store.dispatch_all()
                before, later = len(writer.data), START_TIME - 5000
                for _ in range(count):
                    writer.add(store_timestamp=later)
                self.feed(store, bytes(writer.data[before:]))
                store.dispatch_all()
                self.assertEqual(store.dispatcher.logics_timestamp, later)
                self.assertEqual(store.dispatcher.dispatched_timestamp, later)

    def test_a_topic_that_is_no_folder_name_keeps_nobody_else_waiting(self) -> None:
        for count in (2, 60):
            store, writer = self.store(), LogBuilder()
            bad = writer.add("../evil").physical_offset
            for _ in range(count):
                writer.add("Good")
            self.feed(store, writer.data)
            store.dispatch_all()
            self.assertEqual(store.queues.get("Good", 0).max_offset, count)
            offsets = [event["offset"] for event in self.events if event["log_level"] is LogLevel.error]
            self.assertEqual(offsets, [bad])
            self.events.clear()

    def test_a_queue_offset_that_no_queue_can_have_keeps_nobody_else_waiting(self) -> None:
        for count in (2, 60):
            for index in (1 << 58, 1 << 62, (1 << 63) - 1):
                store, writer = self.store(), LogBuilder()
                bad = writer.place(make_record("Odd", b"x", queue_offset=index)).physical_offset
                for _ in range(count):
                    writer.add("Good")
                self.feed(store, writer.data)
                store.dispatch_all()
                self.assertEqual(store.queues.get("Good", 0).max_offset, count)
                self.assertEqual(store.queues.get("Odd", 0).max_offset, 0)
                said = [event["offset"] for event in self.events if event["log_level"] is LogLevel.error]
                self.assertEqual(said, [bad])
                self.events.clear()

    def setUp(self) -> None:
        self.events: list[dict[str, object]] = []
        globalLogPublisher.addObserver(self.events.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.events.append)


class BadBytesTests(StoreTestCase):
    def test_bytes_that_are_no_record_stop_the_dispatch_at_their_offset(self) -> None:
        for count in (3, 60):
            store, writer = self.store(), LogBuilder().fill(count)
            good = writer.end
            writer.fill(10)
            writer.data[good + 4] ^= 1
            self.feed(store, writer.data)
            error = self.assertRaises(StoreError, store.dispatch_all)
            self.assertIn(f"offset {good}", str(error))
            self.assertEqual(store.dispatcher.reput_offset, good)
            self.assertDispatched(store, writer.data[:good])

    def test_record_that_would_cross_its_files_end(self) -> None:
        store, writer = self.store(), LogBuilder().fill(3)
        good = writer.end
        writer.add()
        writer.data[good : good + 4] = (FILE_SIZE).to_bytes(4, "big")
        self.feed(store, writer.data)
        self.assertRaises(StoreError, store.dispatch_all)
        self.assertRaises(StoreError, store.dispatch_all)
        self.assertEqual(store.dispatcher.reput_offset, good)

    def test_blank_that_does_not_end_with_its_file(self) -> None:
        store, writer = self.store(), LogBuilder().fill(3)
        self.feed(store, bytes(writer.data) + encode_blank(100) + bytes(200))
        error = self.assertRaises(StoreError, store.dispatch_all)
        self.assertIn("100 bytes", str(error))


class ReputTests(StoreTestCase):
    def running(self, **options: object) -> tuple[SampleStore, ReputService, LogBuilder]:
        store = self.store(**options)
        service = ReputService(store.clock, store.dispatcher)
        store.log.add_waker(service.wake)
        service.start()
        store.clock.advance(0)
        return store, service, LogBuilder()

    def more(self, store: SampleStore, writer: LogBuilder, count: int = 1) -> None:
        writer.fill(count)
        self.feed(store, bytes(writer.data[store.log.max_offset :]))

    def test_an_append_is_dispatched_right_after_the_turn_that_made_it(self) -> None:
        store, service, writer = self.running()
        store.clock.advance(1)
        self.more(store, writer)
        self.assertEqual(service.behind_bytes, writer.end)
        store.clock.advance(0)
        self.assertEqual(service.behind_bytes, 0)
        self.assertEqual(store.arrivals, [("Topic0", 0, 1)])

    def test_appends_that_trickle_in_are_dispatched_at_once(self) -> None:
        store, service, writer = self.running()
        for _ in range(3 * PROMPT_BURST):
            self.more(store, writer)
            store.clock.advance(0)
            self.assertEqual(service.behind_bytes, 0)
            store.clock.advance(1 / PROMPT_SLICES)

    def test_appends_close_together_share_a_slice(self) -> None:
        store, service, writer = self.running()
        store.clock.advance(1)
        for _ in range(PROMPT_BURST + 1):
            self.more(store, writer)
            store.clock.advance(0)
        slices = service.slices_total
        for _ in range(5):
            self.more(store, writer)
            store.clock.advance(COALESCE / 100)
        self.assertEqual(service.slices_total, slices)
        store.clock.advance(COALESCE)
        self.assertEqual((service.slices_total, service.behind_bytes), (slices + 1, 0))

    def test_under_load_slices_lie_further_apart(self) -> None:
        store, service, writer = self.running()
        store.clock.advance(1)
        self.more(store, writer, FEW + 1)
        store.clock.advance(0)
        self.more(store, writer, FEW + 1)
        store.clock.advance(COALESCE)
        self.assertGreater(service.behind_bytes, 0)
        store.clock.advance(BUSY_COALESCE)
        self.assertEqual(service.behind_bytes, 0)

    def test_nothing_runs_while_nothing_is_appended(self) -> None:
        store, _, writer = self.running()
        self.more(store, writer, 10)
        store.clock.advance(1)
        self.assertEqual(store.clock.getDelayedCalls(), [])

    def slow_steps(self, store: SampleStore, seconds: float) -> None:
        """Let every step of the dispatch take this long on the clock."""
        step = store.dispatcher._step

        def slow() -> Iterator[None]:
            yield from step()
            store.clock.rightNow += seconds

        self.patch(store.dispatcher, "_step", slow)

    def test_a_slice_is_bounded_in_time_and_leaves_the_link_its_share(self) -> None:
        self.small_steps()
        store, service, writer = self.running()
        store.clock.advance(60)
        self.slow_steps(store, SLICE * 0.6)
        self.more(store, writer, 300)
        store.clock.advance(0)
        self.assertEqual(service.slices_total, 2)
        self.assertLessEqual(store.dispatcher.reput_offset, 2 * 4096)
        (call,) = store.clock.getDelayedCalls()
        pause = call.getTime() - store.clock.seconds()
        self.assertAlmostEqual(1.2 * SLICE / (1.2 * SLICE + pause), reput_module.CATCH_UP_SHARE, 2)

    def slow_queues(self, store: SampleStore, seconds: float) -> None:
        """Let every write to a queue's files take this long on the clock."""
        append = store.queues.append

        def slow(*args: object) -> object:
            store.clock.rightNow += seconds
            return append(*args)  # type: ignore[arg-type]

        self.patch(store.queues, "append", slow)

    def new_topics(self, count: int) -> LogBuilder:
        """One message of each."""
        writer = LogBuilder()
        for number in range(count):
            writer.add(f"T{number}")
        return writer

    def test_many_new_queues_are_made_in_many_slices(self) -> None:
        for count in (FEW, FEW + 1, 300):
            for pure in (False, True):
                with self.subTest(count=count, pure=pure):
                    if pure:
                        self.patch(dispatcher_module, "usual_records", None)
                    store, service, _ = self.running()
                    writer = self.new_topics(count)
                    store.clock.advance(60)
                    self.slow_queues(store, SLICE * 0.4)
                    made = service.slices_total
                    self.feed(store, writer.data[store.log.max_offset :])
                    service.wake()
                    store.clock.advance(0)
                    self.assertLess(service.slices_total - made, 3)
                    self.assertLessEqual(len(store.contents()), 3 * (service.slices_total - made))
                    before = -1
                    while service.behind_bytes and len(store.contents()) > before:
                        before = len(store.contents())
                        store.clock.advance(1)
                    self.assertGreaterEqual(service.slices_total - made, count // 3)
                    self.assertDispatched(store, writer.data)
                    self.assertEqual(service.behind_bytes, 0)

    def test_a_step_that_fails_in_its_midst_comes_again(self) -> None:
        for pure in (False, True):
            with self.subTest(pure=pure):
                if pure:
                    self.patch(dispatcher_module, "usual_records", None)
                store, service, _ = self.running()
                writer = self.new_topics(100)
                self.slow_queues(store, SLICE * 0.4)
                self.feed(store, writer.data[store.log.max_offset :])
                service.wake()
                store.clock.advance(0)
                slow = store.queues.append

                def full(*_args: object) -> object:
                    raise StoreFull("no room for queue files")

                self.patch(store.queues, "append", full)
                store.clock.advance(1)
                self.assertEqual(service.stalled_reason, "no room for queue files")
                self.assertFalse(store.dispatcher.under_way)
                store.queues.append = slow  # type: ignore[method-assign]
                for _ in range(100):
                    store.clock.advance(RETRY)
                self.assertIsNone(service.stalled_reason)
                self.assertDispatched(store, writer.data)

    def test_dispatch_begins_anew_elsewhere_whatever_was_under_way(self) -> None:
        store = self.store()
        self.slow_queues(store, SLICE)
        writer = self.new_topics(50)
        self.feed(store, writer.data)
        store.dispatcher.dispatch_some(1 << 20, SLICE)
        self.assertTrue(store.dispatcher.under_way)
        store.dispatcher.begin_at(0)
        self.assertFalse(store.dispatcher.under_way)
        store.dispatch_all()
        self.assertDispatched(store, writer.data)

    def test_a_rest_of_less_than_a_step_is_dispatched_with_the_next_step_that_comes(self) -> None:
        self.small_steps()
        self.patch(reput_module, "STEP", 4096)
        store, service, writer = self.running()
        store.clock.advance(60)
        self.slow_steps(store, SLICE)
        while service.behind_bytes < 4096 + 1000:
            self.more(store, writer, 1)
        store.clock.advance(0)
        self.assertEqual(service.slices_total, 2)
        self.assertIn(service.behind_bytes, range(1, 4096))
        (call,) = store.clock.getDelayedCalls()
        self.assertGreater(call.getTime(), store.clock.seconds())
        while service.behind_bytes < 4096:
            self.more(store, writer, 1)
        store.clock.advance(0)
        self.assertEqual(service.slices_total, 3)

    def test_beyond_the_backlog_limit_dispatch_takes_the_larger_share(self) -> None:
        self.small_steps()
        self.patch(reput_module, "BACKLOG_LIMIT", 10_000)
        store, _, writer = self.running()
        store.clock.advance(1)
        self.slow_steps(store, SLICE)
        self.more(store, writer, 300)
        store.clock.advance(0)
        (call,) = store.clock.getDelayedCalls()
        pause = call.getTime() - store.clock.seconds()
        self.assertAlmostEqual(SLICE / (SLICE + pause), reput_module.BOUNDING_SHARE, 2)

    def test_todays_load_is_dispatched_with_the_larger_share(self) -> None:
        self.small_steps()
        for age, share in ((1, reput_module.BOUNDING_SHARE), (60, reput_module.CATCH_UP_SHARE)):
            store, _, writer = self.running()
            store.clock.advance(age)
            self.slow_steps(store, SLICE)
            self.more(store, writer, 300)
            store.clock.advance(0)
            (call,) = store.clock.getDelayedCalls()
            pause = call.getTime() - store.clock.seconds()
            self.assertAlmostEqual(SLICE / (SLICE + pause), share, 2, f"records stored {age} s ago")

    def test_a_process_that_was_stopped_in_the_midst_of_a_slice_is_not_taken_for_busy(self) -> None:
        """By SIGSTOP, or with its machine, for a minute."""
        self.small_steps()
        store, service, writer = self.running()
        store.clock.advance(1)
        self.slow_steps(store, 60)
        self.more(store, writer, 300)
        store.clock.advance(0)
        (call,) = store.clock.getDelayedCalls()
        self.assertGreater(service.behind_bytes, 0)
        self.assertEqual(call.getTime() - store.clock.seconds(), reput_module.UTMOST_PAUSE)

    def test_once_the_log_rests_the_backlog_is_worked_off_without_pauses(self) -> None:
        self.small_steps()
        store, service, writer = self.running()
        store.clock.advance(1)
        self.slow_steps(store, SLICE)
        self.more(store, writer, 300)
        store.clock.advance(1)
        first_pause = SLICE * (1 / reput_module.CATCH_UP_SHARE - 1)
        store.clock.pump([first_pause + 1e-6] + [0] * 20)
        self.assertEqual(service.behind_bytes, 0)

    def test_dispatch_waits_for_an_index_file_made_in_the_worker(self) -> None:
        worker = ManualWorker()
        store, service, writer = self.running(worker=worker)
        os.makedirs(store.files.directory)
        store.files.create(0)
        self.more(store, writer, 50)
        store.clock.advance(1)
        self.assertEqual(store.dispatcher.reput_offset, 0)
        self.more(store, writer, 10)
        store.clock.advance(1)
        self.assertEqual(store.items(), [])
        worker.work(len(worker))
        store.clock.pump([0, BUSY_COALESCE])
        self.assertDispatched(store, writer.data)
        self.assertEqual(service.behind_bytes, 0)

    def test_rolling_to_an_index_file_that_is_not_ready_loses_and_repeats_nothing(self) -> None:
        worker = ManualWorker()
        store, _, writer = self.running(worker=worker)
        os.makedirs(store.files.directory)
        for start in range(0, 20 * FILE_SIZE, FILE_SIZE):
            store.files.create(start)
        while len(items_of(entries_of(bytes(writer.data)))) < ITEMS + 500:
            self.more(store, writer, 100)
            store.clock.advance(1)
        for _ in range(10):
            worker.work(len(worker))
            store.clock.pump([0, 1])
        self.assertDispatched(store, writer.data)
        assert store.index is not None
        self.assertEqual(len(store.index.files), 2)

    def test_full_disk_is_said_once_and_dispatch_goes_on_when_space_returns(self) -> None:
        store, service, writer = self.running()
        self.more(store, writer, 30)
        real = store.queues.get

        def full(topic: str, queue_id: int) -> object:
            raise StoreFull("no room for queue files")

        self.patch(store.queues, "get", full)
        store.clock.pump([BUSY_COALESCE, RETRY, RETRY])
        self.assertEqual(service.stalled_reason, "no room for queue files")
        self.patch(store.queues, "get", real)
        store.clock.advance(RETRY)
        self.assertIsNone(service.stalled_reason)
        self.assertDispatched(store, writer.data)

    def test_a_fault_of_ours_is_logged_and_does_not_end_the_service(self) -> None:
        store, service, writer = self.running()
        self.more(store, writer)

        def broken() -> None:
            raise ZeroDivisionError("a fault of ours")

        patch = self.patch(store.dispatcher, "_step", broken)
        store.clock.pump([COALESCE])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(service.stalled_reason, "a fault of ours")
        patch.restore()
        store.clock.advance(RETRY)
        self.assertDispatched(store, writer.data)

    def test_stop_dispatches_what_is_left(self) -> None:
        self.small_steps()
        store, service, writer = self.running()
        self.slow_steps(store, SLICE)
        self.more(store, writer, 300)
        stopped = service.stop()
        self.assertNoResult(stopped)
        store.clock.pump([BUSY_COALESCE, *[0] * 20])
        self.assertTrue(self.successResultOf(stopped))
        self.assertDispatched(store, writer.data)
        self.assertEqual(store.clock.getDelayedCalls(), [])
        self.more(store, writer, 1)
        self.assertEqual(store.clock.getDelayedCalls(), [])

    def test_stop_with_half_a_record_at_the_end_is_complete(self) -> None:
        store, service, writer = self.running()
        writer.fill(3)
        self.feed(store, writer.data[:-10])
        store.clock.advance(1)
        stopped = service.stop()
        store.clock.advance(0)
        self.assertTrue(self.successResultOf(stopped))

    def test_stop_gives_up_at_its_limit(self) -> None:
        worker = ManualWorker()
        store, service, writer = self.running(worker=worker)
        os.makedirs(store.files.directory)
        store.files.create(0)
        self.more(store, writer, 30)
        store.clock.advance(1)
        stopped = service.stop()
        self.assertNoResult(stopped)
        store.clock.advance(STOP_LIMIT)
        self.assertFalse(self.successResultOf(stopped))
        self.assertEqual(store.clock.getDelayedCalls(), [])
