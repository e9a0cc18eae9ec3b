"""What came over the link last is dispatched from memory, with the same results as from the log."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.dispatch.dispatcher import STEP
from hatwisted.store.dispatch.reput import BUSY_COALESCE, ReputService
from hatwisted.store.interfaces import Buffer
from hatwisted.store.log.recentbytes import MAX_KEPT_BYTES, MAX_KEPT_PIECES, RecentBytes
from tests.support.examples import examples
from tests.support.logbuilder import FILE_SIZE, LogBuilder
from tests.support.samplestore import SampleStore
from tests.unit.store import test_reput


def joined(pieces: Sequence[Buffer]) -> bytes:
    return b"".join(pieces)


def cut(data: bytes, chance: random.Random) -> list[Buffer]:
    """Some of it as views, as frames are."""
    pieces: list[Buffer] = []
    while data:
        size = chance.choice((1, 3, 30, 90, 200, 3000))
        pieces.append(memoryview(data[:size]) if chance.random() < 0.5 else data[:size])
        data = data[size:]
    return pieces


class RecentBytesTests(SynchronousTestCase):
    @examples(100)
    @given(
        st.lists(
            st.one_of(
                st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=4),
                st.tuples(st.integers(0, 40), st.integers(1, 30)),
                st.integers(0, 60),
            ),
            max_size=30,
        )
    )
    def test_a_taker_gets_the_bytes_of_the_log_or_none(
        self, steps: list[list[bytes] | tuple[int, int] | int]
    ) -> None:
        recent, log, least = RecentBytes(), bytearray(), 0
        for step in steps:
            if isinstance(step, int):
                # The log goes on elsewhere, and what is kept isn't of it.
                log += bytes(step)
                least = max(least, recent.end if step else 0)
            elif isinstance(step, list):
                recent.add(len(log), step, sum(map(len, step)))
                log += joined(step)
            else:
                offset, limit = max(least, len(log) - step[0]), step[1]
                taken = joined(recent.take(offset, limit))
                self.assertIn(taken, (b"", bytes(log[offset : min(offset + limit, recent.end)])))
                least = offset

    def test_what_was_added_is_there_until_what_is_behind_it_is_taken(self) -> None:
        recent = RecentBytes()
        recent.add(100, [b"abc", memoryview(b"defg")], 7)
        recent.add(107, [b"h"], 1)
        self.assertEqual([bytes(piece) for piece in recent.take(100, 1000)], [b"abc", b"defg", b"h"])
        self.assertEqual(joined(recent.take(101, 4)), b"bcde")
        self.assertEqual(joined(recent.take(103, 4)), b"defg")
        self.assertEqual(recent.take(100, 4), [])
        self.assertEqual(recent.take(108, 4), [])
        recent.add(200, [b"x"], 1)
        self.assertEqual((recent.take(107, 1), joined(recent.take(200, 1))), ([], b"x"))

    def test_no_more_than_its_bytes_are_kept(self) -> None:
        recent, piece = RecentBytes(), bytes(1 << 20)
        for number in range(MAX_KEPT_BYTES >> 20):
            recent.add(number << 20, [piece], len(piece))
        self.assertEqual(sum(map(len, recent.take(0, 2 * MAX_KEPT_BYTES))), MAX_KEPT_BYTES)
        recent.add(MAX_KEPT_BYTES, [b"x"], 1)
        self.assertEqual(recent.take(0, 1), [])
        recent.add(MAX_KEPT_BYTES + 1, [b"y"], 1)
        self.assertEqual(joined(recent.take(MAX_KEPT_BYTES + 1, 9)), b"y")

    def test_no_more_than_its_pieces_are_kept(self) -> None:
        recent = RecentBytes()
        recent.add(0, [b"x"] * MAX_KEPT_PIECES, MAX_KEPT_PIECES)
        self.assertEqual(len(recent.take(0, MAX_KEPT_BYTES)), MAX_KEPT_PIECES)
        recent.add(recent.end, [b"y"], 1)
        self.assertEqual(recent.take(0, 1), [])


class FromMemoryTests(test_reput.StoreTestCase):
    def test_nothing_is_read_back(self) -> None:
        writer, store = LogBuilder().fill_files(3), self.store()
        self.patch(store.log, "read", lambda offset, size: self.fail(f"{size} bytes read at {offset}"))
        for start in range(0, writer.end, 5000):
            for piece in _within_files(start, min(start + 5000, writer.end)):
                store.log.append_raw(
                    piece.start, cut(bytes(writer.data[piece.start : piece.stop]), random.Random(start))
                )
            store.dispatch_all()
        self.assertDispatched(store, writer.data)

    @examples(15)
    @given(st.integers(0, 1 << 16))
    def test_any_pieces(self, seed: int) -> None:
        chance = random.Random(seed)
        writer, store, at = LogBuilder().fill_files(2), self.store(), 0
        while at < writer.end:
            end = min(writer.end, at + chance.choice((1, 100, 2000, 9000)))
            for piece in _within_files(at, end):
                store.log.append_raw(piece.start, cut(bytes(writer.data[piece.start : piece.stop]), chance))
            at = end
            if chance.random() < 0.4:
                store.dispatch_all()
            if chance.random() < 0.1:
                store.log._recent.forget()
        store.dispatch_all()
        self.assertDispatched(store, writer.data)
        store.close()

    def test_a_step_stays_within_a_file(self) -> None:
        writer, store = LogBuilder().fill_files(2), self.store()
        self.feed(store, writer.data)
        self.assertEqual(joined(store.log.take_recent(0, 1 << 30)), bytes(writer.data[:FILE_SIZE]))
        self.assertEqual(
            joined(store.log.take_recent(FILE_SIZE - 8, 1 << 30)), bytes(writer.data[FILE_SIZE - 8 :][:8])
        )

    def test_a_log_that_is_cut_or_goes_on_otherwise_is_read(self) -> None:
        writer, store = LogBuilder().fill(5), self.store()
        self.feed(store, writer.data)
        store.log.set_end(writer.offsets[3])
        self.assertEqual(store.log.take_recent(writer.offsets[2], 100), [])
        self.feed(store, writer.data[writer.offsets[3] :])
        self.assertNotEqual(store.log.take_recent(writer.offsets[3], 100), [])
        store.log.max_offset += 1
        self.assertEqual(store.log.take_recent(writer.offsets[3], 100), [])

    def test_a_write_that_fails_leaves_nothing_to_dispatch(self) -> None:
        writer, store = LogBuilder().fill(5), self.store()

        def fail(offset: int, buffers: Sequence[Buffer]) -> None:
            raise OSError("disk")

        patch = self.patch(store.files, "write", fail)
        self.assertRaises(OSError, self.feed, store, writer.data)
        patch.restore()
        self.assertEqual(store.log.take_recent(0, 100), [])
        self.feed(store, writer.data)
        store.dispatch_all()
        self.assertDispatched(store, writer.data)

    def test_a_step_s_worth_is_dispatched_at_once(self) -> None:
        store = self.store(file_size=4 * STEP)
        writer = LogBuilder(file_size=4 * STEP)
        service = ReputService(store.clock, store.dispatcher)
        store.log.add_waker(service.wake)
        service.start()
        self.addCleanup(service.stop)
        for _ in range(2):
            for _ in range(50):
                writer.add(body=bytes(100))
            self.feed(store, writer.data[store.log.max_offset :])
            store.clock.advance(BUSY_COALESCE / 4)
        (call,) = store.clock.getDelayedCalls()
        self.assertGreater(call.getTime(), store.clock.seconds())
        writer.add(body=bytes(STEP))
        self.feed(store, writer.data[store.log.max_offset :])
        store.clock.advance(0)
        self.assertEqual(store.dispatcher.behind_bytes, 0)


class Reading(test_reput.StoreTestCase):
    def feed(self, store: SampleStore, data: bytes) -> None:
        """Append, and have the dispatch read it."""
        super().feed(store, data)
        store.log._recent.forget()


class GoldenReadTests(Reading, test_reput.GoldenTests):
    """The same from the log's files."""


class DispatchReadTests(Reading, test_reput.DispatchTests):
    """The same from the log's files."""

    test_any_batches_any_queues = None  # type: ignore[assignment]  # drawn by lot once


def _within_files(start: int, end: int) -> list[range]:
    """As frames are: none across the end of a file."""
    found = []
    while start < end:
        stop = min(end, start - start % FILE_SIZE + FILE_SIZE)
        found.append(range(start, stop))
        start = stop
    return found
