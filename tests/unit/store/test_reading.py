"""Reading a queue: the whole table of outcomes, limits, gaps, filters."""

import struct

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.entrychoice import MAX_GAP
from hatwisted.logcodec.recordplace import QueueRecords
from hatwisted.store.errors import WrongEntry
from hatwisted.store.queue.reading import (
    MAX_SCAN,
    ColdLimits,
    GetStatus,
    ReadLimits,
    RecordTest,
    get_messages,
)
from hatwisted.wire.layout import PRE_BLANK_SIZE
from hatwisted.wire.record import encode_record, make_record
from tests.support.examples import examples
from tests.support.memorylog import MemoryLog

ENTRY = struct.Struct(">qiq")


EVERYTHING = RecordTest(lambda record: True)
WAYS = (None, frozenset({0}), EVERYTHING)
"""To get all of it."""


class AnyRecords:
    """For reads that are about the choice of entries: whatever lies there is a record of the queue."""

    topic = "T"
    raw_topic = b"T"
    queue_id = 0

    def has(self, data, at, size, queue_offset, physical_offset):
        return at + size <= len(data)


class Queue:
    """A consume queue in memory."""

    def __init__(self, min_offset=0):
        self.entries = []
        self.records = AnyRecords()
        self.min_offset = min_offset

    @property
    def max_offset(self):
        return len(self.entries)

    def read(self, index, count):
        assert index >= self.min_offset
        return b"".join(ENTRY.pack(*entry) for entry in self.entries[index : index + count])


odd_first_byte = RecordTest(lambda record: record[0] % 2 == 1)


class ReadingCase(SynchronousTestCase):
    def setUp(self):
        self.log = MemoryLog(1 << 20)
        self.queue = Queue()
        self.records = []

    def put(self, record=b"r" * 100, tag=0, queue=True):
        position = self.log.max_offset
        self.log.append(record)
        if queue:
            self.queue.entries.append((position, len(record), tag))
            self.records.append(record)

    def own(self, count, body=b"body"):
        """Put records that are the queue's by what they say."""
        self.queue.records = QueueRecords("T", 0)
        for _ in range(count):
            index, place = len(self.queue.entries), self.log.max_offset
            self.put(encode_record(make_record("T", body, queue_offset=index, physical_offset=place)))

    def get(self, offset=0, count=32, size=256 * 1024, codes=None, cold=None):
        result = get_messages(self.log, self.queue, offset, ReadLimits(count, size), codes, cold)
        self.assertEqual(result.min_offset, self.queue.min_offset)
        self.assertEqual(result.max_offset, self.queue.max_offset)
        return result

    def outcome(self, *args, **kwargs):
        result = self.get(*args, **kwargs)
        return result.status.name, result.next_begin_offset, result.count


class TestOutcomes(ReadingCase):
    def test_no_queue(self):
        result = get_messages(self.log, None, 5, ReadLimits(32, 1000))
        self.assertEqual((result.status, result.next_begin_offset), (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0))

    def test_empty_queue(self):
        self.assertEqual(self.outcome(0), ("NO_MESSAGE_IN_QUEUE", 0, 0))
        self.assertEqual(self.outcome(7), ("NO_MESSAGE_IN_QUEUE", 0, 0))

    def test_entries_that_are_gone_by_the_time_they_are_read(self):
        self.put()
        self.put()
        self.patch(self.queue, "read", lambda index, count: b"")
        self.assertEqual(self.outcome(1), ("OFFSET_FOUND_NULL", 1, 0))

    def test_an_entry_of_which_only_a_part_is_there_is_none(self):
        for _ in range(2):
            self.put()
        read = self.queue.read
        for wanted in WAYS:
            self.patch(self.queue, "read", lambda index, count: read(index, count)[:-1])
            self.assertEqual(self.outcome(0, codes=wanted), ("FOUND", 1, 1))
            self.assertEqual(self.get(0, codes=wanted).behind_bytes, 200)
            self.assertEqual(self.outcome(1, codes=wanted), ("OFFSET_FOUND_NULL", 1, 0))

    def test_offsets_outside_the_queue(self):
        for _ in range(5):
            self.put()
        self.queue.min_offset = 2
        self.assertEqual(self.outcome(1), ("OFFSET_TOO_SMALL", 2, 0))
        self.assertEqual(self.outcome(5), ("OFFSET_OVERFLOW_ONE", 5, 0))
        self.assertEqual(self.outcome(6), ("OFFSET_OVERFLOW_BADLY", 5, 0))
        self.assertEqual(self.outcome(2), ("FOUND", 5, 3))

    def test_log_file_just_deleted(self):
        for _ in range(4):
            self.put()
        nothing = (frozenset({1}), RecordTest(lambda record: False))
        self.log.expire(200)
        for wanted in WAYS:
            self.assertEqual(self.outcome(0, codes=wanted), ("FOUND", 4, 2))
        for wanted in nothing:
            self.assertEqual(self.outcome(0, codes=wanted), ("MESSAGE_WAS_REMOVING", 4, 0))
            self.assertEqual(self.outcome(2, codes=wanted), ("NO_MATCHED_MESSAGE", 4, 0))
        self.log.expire(400)
        for wanted in WAYS + nothing:
            self.assertEqual(self.outcome(0, codes=wanted), ("MESSAGE_WAS_REMOVING", 4, 0))
            self.assertEqual(self.get(0, codes=wanted).behind_bytes, 100)

    def test_entries_of_nothing(self):
        """A queue begins with some where it begins behind offset 0."""
        self.queue.entries = [(0, PRE_BLANK_SIZE, 0)] * 3
        self.own(2)
        for wanted in WAYS:
            for size in (9999, 1 << 40):
                self.assertEqual(self.outcome(0, size=size, codes=wanted), ("FOUND", 5, 2))
        for wanted in WAYS[1:]:
            self.assertEqual(self.outcome(0, count=1, codes=wanted), ("FOUND", 4, 1))
        self.assertEqual(self.outcome(0, count=3), ("MESSAGE_WAS_REMOVING", 3, 0))

    def test_queue_entry_that_points_outside_the_log_is_reported(self):
        self.queue.entries.append((0, 100, 0))
        self.assertRaises(WrongEntry, self.get)


class TestLimits(ReadingCase):
    def test_count(self):
        for _ in range(40):
            self.put()
        for wanted in WAYS:
            self.assertEqual(self.outcome(0, count=32, codes=wanted), ("FOUND", 32, 32))
            self.assertEqual(self.outcome(32, count=32, codes=wanted), ("FOUND", 40, 8))

    def test_bytes_but_at_least_one(self):
        for size in (100, 100, 5000, 100):
            self.put(b"r" * size)
        for wanted in WAYS:
            self.assertEqual(self.outcome(0, size=250, codes=wanted), ("FOUND", 2, 2))
            self.assertEqual(self.outcome(2, size=250, codes=wanted), ("FOUND", 3, 1))
            self.assertEqual(self.outcome(0, size=5200, codes=wanted), ("FOUND", 3, 3))

    def test_cold_records_have_smaller_limits(self):
        for _ in range(40):
            self.put()
        for cold, offset, count in (
            (ColdLimits(1500, max_count=8, max_bytes=700), 0, 7),
            (ColdLimits(1500, max_count=8, max_bytes=900), 0, 8),
            (ColdLimits(1500, max_count=8, max_bytes=700), 25, 15),
            (ColdLimits(1500, max_count=8, max_bytes=700), 24, 16),  # the first is cold, those behind aren't
            (ColdLimits(1500, max_count=1, max_bytes=100), 24, 16),
            (ColdLimits(1500, max_count=99, max_bytes=1 << 30), 0, 30),
            (ColdLimits(1500, max_count=99, max_bytes=1 << 30), 25, 15),
        ):
            for wanted in WAYS:
                outcome = self.outcome(offset, count=30, size=3000, cold=cold, codes=wanted)
                self.assertEqual(outcome, ("FOUND", offset + count, count))
                outcome = self.outcome(offset, count=99, size=300, cold=cold, codes=wanted)
                self.assertEqual(outcome, ("FOUND", offset + 3, 3))

    def test_with_cold_limits_too_reads_end_with_their_file_and_removed_ones_are_left_out(self):
        self.log.file_size = 1000
        for _ in range(20):
            self.put()
        self.log.expire(200)
        for wanted in WAYS:
            self.log.reads = 0
            result = self.get(0, cold=ColdLimits(0, 99, 9999), codes=wanted)
            self.assertEqual(b"".join(result.buffers), b"".join(self.records[2:]))
            self.assertEqual(self.log.reads, 2)

    def test_distance_to_the_logs_end(self):
        for _ in range(40):
            self.put()
        for wanted in WAYS:
            self.assertEqual(self.get(0, count=10, codes=wanted).behind_bytes, 31 * 100)


class TestFilter(ReadingCase):
    def test_only_wanted_tags(self):
        for number in range(10):
            self.put(b"%010d" % number, tag=number % 3)
        result = self.get(0, codes=frozenset({1}))
        self.assertEqual((result.status, result.next_begin_offset, result.count), (GetStatus.FOUND, 10, 3))
        self.assertEqual(b"".join(result.buffers), b"000000000100000000040000000007")

    def test_nothing_matches(self):
        for _ in range(MAX_SCAN + 5):
            self.put(b"x", tag=5)
        self.assertEqual(self.outcome(0, codes=frozenset({1})), ("NO_MATCHED_MESSAGE", MAX_SCAN, 0))
        self.assertEqual(
            self.outcome(MAX_SCAN, codes=frozenset({1})), ("NO_MATCHED_MESSAGE", MAX_SCAN + 5, 0)
        )

    def test_codes_are_int32_as_java_casts_them(self):
        self.put(tag=-5)
        self.put(tag=(7 << 32) | 0xFFFFFFFB)
        self.put(tag=(7 << 32) | 5)
        self.assertEqual(self.outcome(0, codes=frozenset({-5})), ("FOUND", 3, 2))


class TestRecordTests(ReadingCase):
    """Filters that look into the records."""

    def test_only_records_that_pass(self):
        for number in range(10):
            self.put(bytes([number]) * 100)
        result = self.get(0, codes=odd_first_byte)
        self.assertEqual((result.status, result.next_begin_offset, result.count), (GetStatus.FOUND, 10, 5))
        self.assertEqual([bytes(buffer[:1])[0] for buffer in result.buffers], [1, 3, 5, 7, 9])
        self.assertEqual(self.log.reads, 1)

    def test_nothing_passes(self):
        for _ in range(MAX_SCAN + 5):
            self.put(b"\0")
        self.assertEqual(self.outcome(0, codes=odd_first_byte), ("NO_MATCHED_MESSAGE", MAX_SCAN, 0))

    def test_the_dearer_the_test_the_fewer_are_looked_at(self):
        for _ in range(MAX_SCAN):
            self.put(b"\0")
        dear = RecordTest(odd_first_byte.passes, 8)
        self.assertEqual(self.outcome(0, codes=dear), ("NO_MATCHED_MESSAGE", MAX_SCAN // 8, 0))
        dearest = RecordTest(odd_first_byte.passes, 10**6)
        self.assertEqual(self.outcome(0, codes=dearest, count=5), ("NO_MATCHED_MESSAGE", 5, 0))

    def test_removed_files_and_entries_without_a_record_are_not_looked_into(self):
        for _ in range(4):
            self.put(b"\1" * 100)
        self.queue.entries.insert(2, (0, 0x7FFFFFFF, 0))
        self.log.expire(200)
        self.assertEqual(self.outcome(0, codes=odd_first_byte), ("FOUND", 5, 2))
        self.log.expire(400)
        self.assertEqual(self.outcome(0, codes=odd_first_byte), ("MESSAGE_WAS_REMOVING", 5, 0))

    def test_little_more_is_read_than_the_answer_holds(self):
        self.log.file_size = 1 << 30
        for _ in range(40):
            self.put(b"\1" * 100_000)
        self.assertEqual(self.outcome(0, count=1, codes=odd_first_byte), ("FOUND", 1, 1))
        self.assertEqual(self.log.reads, 1)
        self.log.reads = 0
        for entry in range(len(self.queue.entries)):
            self.log.overwrite(entry * 100_000, b"\2")
        status, next_offset, _ = self.outcome(0, codes=odd_first_byte)
        self.assertEqual((status, next_offset), ("NO_MATCHED_MESSAGE", 40))
        self.assertEqual(self.log.reads, 20)
        for _ in range(10):
            self.put(b"\2" * 100_000)
        self.assertEqual(self.outcome(0, codes=odd_first_byte), ("NO_MATCHED_MESSAGE", 42, 0))


class TestRuns(ReadingCase):
    def test_neighbours_come_with_one_read_and_one_buffer(self):
        for number in range(32):
            self.put(b"%0100d" % number)
        result = self.get(0)
        self.assertEqual((self.log.reads, len(result.buffers)), (1, 1))
        self.assertEqual(result.buffers[0], b"".join(self.records))

    def test_small_gaps_are_read_along_and_cut_away(self):
        for number in range(8):
            self.put(b"%0100d" % number)
            self.put(b"f" * 700, queue=False)
        result = self.get(0)
        self.assertEqual(self.log.reads, 1)
        self.assertEqual(b"".join(result.buffers), b"".join(self.records))

    def test_large_gaps_are_not(self):
        self.own(2)
        self.put(b"f" * (MAX_GAP + 1), queue=False)
        self.own(2)
        for wanted in WAYS:
            self.log.reads = 0
            self.assertEqual(b"".join(self.get(0, codes=wanted).buffers), b"".join(self.records))
            self.assertEqual(self.log.reads, 2)

    def test_reads_end_with_their_file(self):
        self.log.file_size = 1000
        for _ in range(9):
            self.put()
        self.put(b"blank" * 20, queue=False)
        for _ in range(3):
            self.put(b"second" * 20)
        self.assertEqual(b"".join(self.get(0).buffers), b"".join(self.records))
        self.assertEqual(self.log.reads, 2)

    @examples(30)
    @given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3), st.booleans()), max_size=60), st.data())
    def test_any_log_gives_exactly_the_matching_records_in_order(self, puts, data):
        self.setUp()
        self.log.file_size = data.draw(st.sampled_from([1 << 20, 512]))
        tags = []
        for number, (size, tag, ours) in enumerate(puts):
            room = self.log.file_size - self.log.max_offset % self.log.file_size
            if room < size:
                self.put(b"\0" * room, queue=False)
            self.put(bytes([number]) * size, tag=tag, queue=ours)
            tags += [tag] if ours else []
        codes = data.draw(st.none() | st.frozensets(st.integers(0, 3)) | st.just(odd_first_byte))
        offset, found = 0, []
        while offset < len(self.records):
            result = self.get(
                offset, count=data.draw(st.integers(1, 9)), size=data.draw(st.integers(1, 900)), codes=codes
            )
            self.assertGreater(result.next_begin_offset, offset)
            found.append(b"".join(result.buffers))
            offset = result.next_begin_offset

        def is_wanted(record, tag):
            return codes is None or (codes.passes(record) if isinstance(codes, RecordTest) else tag in codes)

        wanted = [record for record, tag in zip(self.records, tags, strict=True) if is_wanted(record, tag)]
        self.assertEqual(b"".join(found), b"".join(wanted))
