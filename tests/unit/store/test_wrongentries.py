"""Reading a queue: each record says itself whose it is, and an entry that names another one is refused."""

from hatwisted.logcodec.entrychoice import MAX_GAP
from hatwisted.store.errors import WrongEntry
from hatwisted.store.queue.reading import SIFT_COUNT
from tests.support.memorylog import MemoryLog
from tests.unit.store.test_reading import EVERYTHING, WAYS, ReadingCase


class TestOwnRecords(ReadingCase):
    def test_an_entry_that_claims_a_gigabyte_makes_nobody_read_one(self):
        self.log.file_size = 1 << 31
        for _ in range(3):
            self.put()
        self.queue.entries[1] = (100, 1 << 30, 0)
        sizes = []
        read = self.log.read
        self.patch(self.log, "read", lambda offset, limit: sizes.append(limit) or read(offset, limit))
        for wanted in WAYS:
            error = self.assertRaises(WrongEntry, self.get, 1, codes=wanted)
            self.assertEqual((error.index, error.physical), (1, 100))
        self.queue.entries[1] = (50, 1 << 21, 0)  # which isn't read with the one before it
        for wanted in WAYS[:2]:
            error = self.assertRaises(WrongEntry, self.get, 0, size=1 << 31, codes=wanted)
            self.assertEqual((error.index, error.physical), (1, 50))
        self.assertEqual(sizes, [4, 4, 4, 100, 4, 100, 4])

    def test_the_entry_that_is_wrong_is_named(self):
        self.own(6)
        place, right, tag = self.queue.entries[4]
        for size in (right - 1, 0, -1, -right - 50, -(1 << 31)):
            self.queue.entries[4] = place, size, tag
            self.assertEqual(self.outcome(2, count=2), ("FOUND", 4, 2))
            for wanted in WAYS:
                error = self.assertRaises(WrongEntry, self.get, 2, codes=wanted)
                self.assertEqual((error.index, error.physical), (4, place))

    def test_long_records_are_delivered(self):
        self.log = MemoryLog(1 << 24)
        self.own(1, b"")
        self.put(b"f" * (MAX_GAP + 1), queue=False)
        self.own(2, b"b" * (2 << 20))
        for offset in range(3):
            for wanted in WAYS:
                result = self.get(offset, size=1 << 24, codes=wanted)
                self.assertEqual(b"".join(result.buffers), b"".join(self.records[offset:]))

    def test_many_are_looked_into_from_anywhere(self):
        self.own(2 * SIFT_COUNT + 9)
        result = self.get(3, count=999, codes=EVERYTHING)
        self.assertEqual(b"".join(result.buffers), b"".join(self.records[3:]))
        self.assertEqual((result.count, result.behind_bytes), (2 * SIFT_COUNT + 6, len(self.records[-1])))

    def test_between_others_that_are_there_one_is_gone(self):
        self.own(6)
        self.log.expire(len(self.records[0]))
        self.queue.entries[3] = (0, 50, 0)
        for wanted in WAYS:
            result = self.get(0, codes=wanted)
            self.assertEqual(b"".join(result.buffers), b"".join(self.records[1:3] + self.records[4:]))
            self.assertEqual((result.count, result.next_begin_offset), (4, 6))

    def test_behind_removed_ones_each_is_the_one_of_its_own_offset(self):
        self.own(4)
        self.log.expire(2 * len(self.records[0]))
        for wanted in WAYS:
            result = self.get(0, codes=wanted)
            self.assertEqual(b"".join(result.buffers), b"".join(self.records[2:]))
            self.assertEqual((result.count, result.next_begin_offset), (2, 4))
