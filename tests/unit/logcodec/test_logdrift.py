"""Two copies of a log, one of them rotten: what differs, in which records, and whose copy is the bad one."""

from __future__ import annotations

from hashlib import blake2b
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.logdrift import FINE, SPAN, DriftedRecord, Rotten, differing_ranges, judged_records
from hatwisted.logcodec.recordsearch import RecordSearch
from hatwisted.logcodec.window import file_end
from hatwisted.wire.logrange import DIGEST_SIZE, LogRange
from tests.support.logbuilder import FILE_SIZE, LogBuilder


class MemoryCopy:
    """One side's log."""

    file_size = FILE_SIZE

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.capacity_end = len(data)

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self.data[offset : min(offset + size, file_end(offset, self.file_size))])

    def digests(self, span: LogRange, block: int) -> bytes:
        pieces = (self.data[at : min(at + block, span.end)] for at in range(span.begin, span.end, block))
        return b"".join(blake2b(piece, digest_size=DIGEST_SIZE).digest() for piece in pieces)

    def record_start(self, offset: int) -> int:
        return RecordSearch(self, offset, min(self.capacity_end, file_end(offset, FILE_SIZE))).at_or_before(
            offset
        )


class MemoryPair:
    """A LogPair whose answers are there at once. sent: bytes of log that were read for the other side."""

    def __init__(self, log: bytes) -> None:
        self.master, self.slave = MemoryCopy(bytearray(log)), MemoryCopy(bytearray(log))
        self.sent = 0

    async def digests(self, span: LogRange, block: int) -> tuple[bytes, bytes]:
        return self.master.digests(span, block), self.slave.digests(span, block)

    async def read(self, span: LogRange) -> tuple[bytes, bytes]:
        size = span.end - span.begin
        self.sent += size
        return self.master.read(span.begin, size), self.slave.read(span.begin, size)

    async def record_starts(self, offset: int) -> tuple[int, int]:
        return self.master.record_start(offset), self.slave.record_start(offset)


def finished(work):
    """What a coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class DriftTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.log = LogBuilder().fill_files(4)
        self.pair = MemoryPair(bytes(self.log.data))
        self.whole = LogRange(0, self.log.end)

    def flip(self, copy: MemoryCopy, offset: int, mask: int = 1) -> None:
        copy.data[offset] ^= mask

    def ranges(self) -> list[LogRange]:
        return finished(differing_ranges(self.pair, self.whole))

    def records(self, found: LogRange) -> list[DriftedRecord]:
        return finished(judged_records(self.pair, found))

    def drifted(self, number: int, rotten: Rotten) -> DriftedRecord:
        record = self.log.records[number]
        begin = record.physical_offset
        place = record.topic, record.queue_id, record.queue_offset
        return DriftedRecord(begin, begin + record.total_size, rotten, *place)

    def test_equal_copies_have_no_differing_range_and_no_byte_is_sent(self) -> None:
        self.assertEqual(self.ranges(), [])
        self.assertEqual(self.pair.sent, 0)

    def test_one_flipped_bit_is_found_to_the_byte_wherever_it_is(self) -> None:
        for offset in (0, 1, FINE - 1, FINE, FILE_SIZE - 1, FILE_SIZE, self.log.end - 1):
            self.flip(self.pair.slave, offset)
            self.assertEqual(self.ranges(), [LogRange(offset, offset + 1)])
            self.flip(self.pair.slave, offset)

    def test_a_rotten_body_is_the_slaves_or_the_masters(self) -> None:
        for number in (0, 57, len(self.log.records) - 1):
            at = self.log.offsets[number] + 95
            for copy, rotten in ((self.pair.slave, Rotten.SLAVE), (self.pair.master, Rotten.MASTER)):
                self.flip(copy, at)
                self.assertEqual(self.records(LogRange(at, at + 1)), [self.drifted(number, rotten)])
                self.flip(copy, at)

    def test_a_rotten_head_is_found_by_the_other_copys_chain(self) -> None:
        begin = self.log.offsets[57]
        for at in (begin, begin + 3, begin + 4, begin + 10, begin + 30, begin + 87):
            for copy, rotten in ((self.pair.slave, Rotten.SLAVE), (self.pair.master, Rotten.MASTER)):
                self.flip(copy, at, 0x40)
                self.assertEqual(self.records(LogRange(at, at + 1)), [self.drifted(57, rotten)], at)
                self.flip(copy, at, 0x40)

    def test_a_property_that_differs_is_not_judged(self) -> None:
        at = self.log.offsets[57] + self.log.records[57].total_size - 1
        self.flip(self.pair.slave, at)
        self.assertEqual(self.records(LogRange(at, at + 1)), [self.drifted(57, Rotten.UNDECIDED)])

    def test_the_same_record_rotten_on_both_sides(self) -> None:
        at = self.log.offsets[57] + 95
        self.flip(self.pair.slave, at)
        self.flip(self.pair.master, at + 1)
        (found,) = self.ranges()
        self.assertEqual(found, LogRange(at, at + 2))
        (record,) = self.records(found)
        self.assertIs(record.rotten, Rotten.BOTH)

    def test_a_page_of_zeros_names_each_of_its_records(self) -> None:
        begin, end = 2 * FINE, 3 * FINE
        self.pair.slave.data[begin:end] = bytes(FINE)
        (found,) = self.ranges()
        self.assertTrue(begin <= found.begin < found.end <= end)
        spoilt = [
            number
            for number, record in enumerate(self.log.records)
            if record.physical_offset < found.end and record.physical_offset + record.total_size > found.begin
        ]
        self.assertEqual(self.records(found), [self.drifted(number, Rotten.SLAVE) for number in spoilt])

    def test_what_fills_a_files_end_belongs_to_no_record(self) -> None:
        at = FILE_SIZE - 1
        self.assertEqual(self.log.data[at], 0)
        self.flip(self.pair.slave, at)
        (record,) = self.records(LogRange(at, at + 1))
        self.assertEqual((record.rotten, record.topic, record.end), (Rotten.UNDECIDED, None, FILE_SIZE))

    def test_a_large_record_is_read_whole(self) -> None:
        log = LogBuilder(file_size=1 << 20)
        log.fill(3)
        large = log.add(body=Random(1).randbytes(300_000))
        log.fill(3)
        pair = MemoryPair(bytes(log.data))
        pair.master.file_size = pair.slave.file_size = 1 << 20
        at = large.physical_offset + 200_000
        pair.slave.data[at] ^= 1
        self.assertEqual(finished(differing_ranges(pair, LogRange(0, log.end))), [LogRange(at, at + 1)])
        (record,) = finished(judged_records(pair, LogRange(at, at + 1)))
        self.assertEqual((record.begin, record.rotten), (large.physical_offset, Rotten.SLAVE))
        self.assertLess(log.end, SPAN)

    def test_flips_at_chance_are_all_found(self) -> None:
        random = Random(7)
        for _ in range(30):
            places = sorted({random.randrange(self.log.end) for _ in range(3)})
            for at in places:
                self.flip(random.choice((self.pair.master, self.pair.slave)), at)
            ranges = self.ranges()
            for at in places:
                self.assertTrue(any(each.begin <= at < each.end for each in ranges), (places, ranges))
            for each in ranges:
                self.assertTrue(each.begin in places and each.end - 1 in places)
                self.records(each)
            self.pair = MemoryPair(bytes(self.log.data))
