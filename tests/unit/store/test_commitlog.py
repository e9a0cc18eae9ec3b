"""Appending to the commit log: bytes, rolls, limits and what a failing disk leaves behind."""

import errno
import struct
from glob import glob

from twisted.internet.task import Clock
from twisted.logger import Logger, capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.errors import OffsetGap, StoreFull
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.fileallocation import FileAllocation
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import decode_record
from hatwisted.wire.storedrecord import Blank, Record
from tests.support.faultyfs import FaultyFileSystem
from tests.support.manualworker import ManualWorker

FILE_SIZE = 4096
HOST = HostPort(b"\x7f\0\0\1", 10911).pack()
BORN = HostPort(b"\x7f\0\0\1", 40000).pack()


@implementer(IFileSystem)
class FullDisk(PosixFileSystem):
    """A real file system that refuses new files, or writes, when told to."""

    full = False
    broken = False

    def open(self, path: str, create: bool = False, read_only: bool = False):  # type: ignore[no-untyped-def]
        if create and self.full:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        file = super().open(path, create, read_only)
        real = file.pwrite

        def pwrite(buffers, offset):  # type: ignore[no-untyped-def]
            if self.broken:
                real([b"".join(buffers)[: len(b"".join(buffers)) // 2]], offset)
                raise OSError(errno.EIO, "Input/output error", path)
            return real(buffers, offset)

        file.pwrite = pwrite  # type: ignore[method-assign]
        return file


def put(body: bytes, topic: str = "T", queue_id: int = 0, properties: bytes = b"", **more: object) -> Put:
    return Put(topic, queue_id, ((7, body, properties),), BORN, 1234, **more)  # type: ignore[arg-type]


class CommitLogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fs = FullDisk()
        self.folder = self.mktemp() + "/commitlog"
        self.clock = Clock()
        self.clock.advance(1000)
        self.log = self.open()

    def open(self, host: bytes = HOST, file_size: int = FILE_SIZE) -> CommitLog:
        files = FileQueue(self.fs, self.folder, file_size)
        files.load()
        log = CommitLog(files, self.clock, InlineWorker(), host)
        self.addCleanup(log.close)
        return log

    def open_faulty(self) -> FaultyFileSystem:
        """Go on with the same log on a disk that takes orders to fail."""
        end, offsets = self.log.max_offset, self.log.queue_offsets
        self.log.close()
        self.fs = fs = FaultyFileSystem()  # type: ignore[assignment]
        self.log = self.open()
        self.log.set_end(end)
        self.log.queue_offsets = offsets
        return fs

    def records(self) -> list[Record | Blank]:
        found: list[Record | Blank] = []
        at = self.log.min_offset
        while at < self.log.max_offset:
            chunk = self.log.read(at, FILE_SIZE)
            item = decode_record(chunk, 0)
            assert isinstance(item, Record | Blank)
            found.append(item)
            at += item.total_size
        return found

    def test_a_put_is_read_back_as_it_was_given(self) -> None:
        one = put(b"hello", queue_id=3, properties=b"TAGS\x01a", reconsume_times=2)
        self.log.append([one])
        (record,) = self.records()
        assert isinstance(record, Record)
        self.assertEqual((record.topic, record.body, record.queue_id, record.flag), ("T", b"hello", 3, 7))
        self.assertEqual(record.properties, {"TAGS": "a"})
        self.assertEqual((record.store_timestamp, record.born_timestamp), (1_000_000, 1234))
        self.assertEqual(
            (record.store_host, record.born_host), (HostPort.unpack(HOST), HostPort.unpack(BORN))
        )
        self.assertEqual((one.offset, one.end, one.status), (0, self.log.max_offset, None))
        self.assertEqual(record.reconsume_times, 2)

    def test_queue_offsets_count_per_topic_and_queue(self) -> None:
        puts = [put(b"1"), put(b"2", queue_id=1), put(b"3"), put(b"4", topic="U")]
        self.log.append(puts)
        self.assertEqual([one.queue_offset for one in puts], [0, 0, 1, 0])

    def test_prepared_and_rolled_back_messages_take_no_queue_offset(self) -> None:
        puts = [put(b"1", sys_flag=layout.SYS_TRANSACTION_PREPARED), put(b"2")]
        self.log.append(puts)
        self.assertEqual([one.queue_offset for one in puts], [0, 0])
        self.assertEqual([record.queue_offset for record in self.records()], [0, 0])  # type: ignore[union-attr]

    def test_a_batch_has_consecutive_offsets_and_one_time(self) -> None:
        batch = Put("T", 0, [(0, b"a", b""), (0, b"bb", b""), (0, b"", b"")], BORN, 5)
        self.log.append([put(b"x"), batch])
        records = self.records()[1:]
        self.assertEqual([record.physical_offset for record in records], batch.record_offsets)  # type: ignore[union-attr]
        self.assertEqual([record.queue_offset for record in records], [1, 2, 3])  # type: ignore[union-attr]
        self.assertEqual(records[2].body_crc, 0)  # type: ignore[union-attr]

    def test_B87_a_record_that_does_not_fit_starts_the_next_file_behind_a_blank(self) -> None:
        self.log.append([put(b"x" * 2500), put(b"y" * 2500)])
        first, blank, second = self.records()
        assert isinstance(blank, Blank) and isinstance(second, Record)
        self.assertEqual(first.total_size + blank.total_size, FILE_SIZE)
        self.assertEqual(second.physical_offset, FILE_SIZE)

    def test_a_record_that_would_fit_exactly_still_moves_on(self) -> None:
        room = FILE_SIZE - layout.FIXED_SIZE - 1
        self.log.append([put(b"x" * (room - 8))])
        self.assertEqual(self.log.max_offset, FILE_SIZE - 8)
        self.log.append([put(b"y")])
        self.assertEqual(len(self.records()), 3)

    def test_a_batch_lands_in_one_file(self) -> None:
        self.log.append([put(b"x" * 3000)])
        batch = Put("T", 0, [(0, b"a" * 500, b""), (0, b"b" * 500, b"")], BORN, 5)
        self.log.append([batch])
        self.assertEqual(batch.record_offsets[0], FILE_SIZE)

    def test_fault_too_big_for_any_file_is_refused_not_answered_put_ok(self) -> None:
        size_limit = FILE_SIZE - layout.FIXED_SIZE - 1 - 8
        fits, too_big = put(b"x" * size_limit), put(b"x" * (size_limit + 1))
        self.log.append([fits, too_big])
        self.assertIsNone(fits.status)
        self.assertEqual(too_big.status, PutStatus.MESSAGE_ILLEGAL)
        self.assertEqual(self.log.max_offset, FILE_SIZE - 8)

    def test_limits_name_what_is_too_big(self) -> None:
        self.log = self.open(file_size=FILE_SIZE)
        self.log.limits.max_message_size = 10
        bad = [put(b"x" * 11), put(b"x", topic="t" * 128), put(b"x", topic="")]
        self.log.append(bad)
        self.assertEqual([one.status for one in bad], [PutStatus.MESSAGE_ILLEGAL] * 3)
        self.assertIn("maxMessageSize is 10", bad[0].reason)
        self.assertEqual(self.log.max_offset, 0)

    def test_a_small_put_has_a_topic_of_1_to_127_bytes_too(self) -> None:
        puts = [put(b"x", topic="t" * size) for size in (0, 1, 127, 128)]
        self.log.append(puts)
        self.assertEqual(
            [one.status for one in puts], [PutStatus.MESSAGE_ILLEGAL, None, None, PutStatus.MESSAGE_ILLEGAL]
        )

    def test_full_disk_refuses_at_the_roll_and_recovers_by_itself(self) -> None:
        self.log.append([put(b"x" * 3000)])
        self.log.files.delete_from(FILE_SIZE)
        self.fs.full = True
        small, big = put(b"s"), put(b"b" * 2000)
        self.log.append([big, small])
        self.assertEqual(big.status, PutStatus.SERVICE_NOT_AVAILABLE)
        self.assertIn("No space left", big.reason)
        self.assertIsNone(small.status)
        self.assertEqual(len(self.records()), 2)
        self.fs.full = False
        again = put(b"b" * 2000)
        self.log.append([again])
        self.assertIsNone(again.status)
        self.assertEqual(again.offset, FILE_SIZE)

    def test_B90_a_failed_write_leaves_no_hole_and_no_stale_record(self) -> None:
        self.log.append([put(b"1")])
        end = self.log.max_offset
        self.fs.broken = True
        bad = [put(b"2" * 100), put(b"3" * 100)]
        self.log.append(bad)
        self.assertEqual([one.status for one in bad], [PutStatus.UNKNOWN_ERROR] * 2)
        for one in bad:
            self.assertIn(f"commit log write at offset {end} failed: ", one.reason)
        self.assertEqual(self.log.max_offset, end)
        self.fs.broken = False
        good = put(b"4")
        self.log.append([good])
        self.assertEqual((good.offset, good.queue_offset), (end, 1))
        behind = self.log.files.read(self.log.max_offset, 300)
        self.assertEqual(behind, bytes(300))

    def test_B90_a_write_that_fails_at_a_roll_takes_nothing_else_with_it(self) -> None:
        self.log.append([put(b"1" * 1000)])
        end = self.log.max_offset
        self.open_faulty().fail("pwrite", error=errno.EIO, path="commitlog")
        first, rolls, third, fourth = put(b"a" * 1000), put(b"b" * 2500), put(b"c"), put(b"d" * 2400)
        self.log.append([first, rolls, third, fourth])
        known = [PutStatus.UNKNOWN_ERROR, PutStatus.SERVICE_NOT_AVAILABLE]
        self.assertEqual([first.status, rolls.status], known)
        self.assertIn("Input/output error", rolls.reason)
        self.assertEqual([third.status, fourth.status], [None, None])
        self.assertEqual((third.offset, third.queue_offset, fourth.queue_offset), (end, 1, 2))
        self.assertEqual(
            [record.physical_offset for record in self.records() if isinstance(record, Record)],
            [0, third.offset, fourth.offset],
        )
        self.flushLoggedErrors()

    def test_a_disk_that_fills_under_a_sparse_file_is_reported_and_said_once(self) -> None:
        """Files that RocketMQ made have no blocks yet: the write itself may find no room."""
        self.log.append([put(b"1")])
        told: list[str] = []
        fault = self.open_faulty().fail("pwrite", error=errno.ENOSPC, path="commitlog", times=None)
        self.log._on_full = told.append
        events: list[object] = []
        self.log._log = Logger(observer=events.append)  # type: ignore[arg-type]
        for _ in range(3):
            self.log.append([put(b"2")])
        self.assertEqual(len(told), 3)
        self.assertEqual(len(events), 1)
        fault.lift()
        good = put(b"3")
        self.log.append([good])
        self.assertEqual(good.queue_offset, 1)

    def test_an_append_that_fails_otherwise_gives_each_put_its_status_too(self) -> None:
        """As a failed write: nothing is left over, and what follows is numbered as if it had never come."""
        self.log.append([put(b"1")])
        end = self.log.max_offset
        asked = [put(b"2" * 2500), put(b"3" * 2500), put(b"4"), put(b"5"), put(b"6")]
        asked[3].entries = ((1 << 40, b"5", b""),)
        self.log.append(asked)
        unknown = PutStatus.UNKNOWN_ERROR
        self.assertEqual([one.status for one in asked], [None, unknown, unknown, unknown, unknown])
        self.assertIn(f"at offset {self.log.max_offset} failed: ", asked[1].reason)
        self.assertEqual((asked[0].offset, asked[0].queue_offset), (end, 1))
        self.assertEqual([one.offset for one in asked[1:]], [-1] * 4)
        good = put(b"7")
        self.log.append([good])
        self.assertEqual((good.queue_offset, good.status), (2, None))
        self.assertEqual(len(self.flushLoggedErrors(OverflowError, struct.error)), 1)

    def test_a_refused_put_that_takes_no_queue_offset_gives_none_back(self) -> None:
        self.log.append([put(b"1")])
        self.open_faulty().fail("pwrite", error=errno.EIO, path="commitlog")
        self.log.append([put(b"half", sys_flag=layout.SYS_TRANSACTION_PREPARED)])
        good = put(b"2")
        self.log.append([good])
        self.assertEqual(good.queue_offset, 1)

    def test_what_a_failed_write_left_is_zeroed_on_close(self) -> None:
        self.log.append([put(b"1")])
        end = self.log.max_offset
        self.open_faulty().fail("pwrite", error=errno.EIO, path="commitlog", partial=60)
        self.log.append([put(b"2" * 100)])
        self.log.close()
        self.log = self.open()
        self.assertEqual(self.log.files.read(end, 200), bytes(200))

    def test_a_full_disk_is_said_once_however_many_appends_it_meets(self) -> None:
        fs = self.open_faulty()
        fault = fs.fail("reserve", error=errno.ENOSPC, times=None, nth=2)
        events: list[dict[str, object]] = []
        self.patch(FileAllocation, "_log", Logger(observer=events.append))  # type: ignore[arg-type]
        for _ in range(10):
            self.log.append([put(b"x" * 300)])
        self.assertEqual(fs.count("reserve"), 2)
        for _ in range(10):
            self.log.append([put(b"x" * 300)])
        self.assertEqual(len(events), 2)
        fault.lift()
        good = put(b"x" * 3000)
        self.log.append([good])
        self.assertEqual(good.offset, FILE_SIZE)

    def test_ipv6_hosts(self) -> None:
        v6 = HostPort(bytes(15) + b"\1", 10911).pack()
        self.log = self.open(host=v6)
        one = Put("T", 0, ((0, b"x", b""),), v6, 5, sys_flag=layout.SYS_BORN_HOST_V6)
        self.log.append([one])
        (record,) = self.records()
        assert isinstance(record, Record)
        self.assertTrue(record.store_host.is_ipv6 and record.born_host.is_ipv6)
        self.assertEqual(record.total_size, one.end)

    def test_listeners_get_the_fresh_bytes(self) -> None:
        heard: list[tuple[int, bytes]] = []
        self.log.add_listener(lambda start, blob: heard.append((start, blob)))
        self.log.append([put(b"x" * 2500), put(b"y" * 2500)])
        self.assertEqual([start for start, _ in heard], [0, FILE_SIZE])
        for start, blob in heard:
            self.assertEqual(self.log.read(start, FILE_SIZE), blob)
        self.assertEqual(len(heard[0][1]), FILE_SIZE)

    def test_next_file_is_prepared_ahead_and_removed_on_close(self) -> None:
        self.log.append([put(b"x")])
        self.assertEqual(self.log.files.starts, [0, FILE_SIZE])
        self.log.close()
        self.assertEqual(self.fs.listdir(self.folder), [layout.file_name(0)])

    def test_the_next_file_is_prepared_once_at_a_time_and_a_failure_isnt_repeated(self) -> None:
        self.fs = fs = FaultyFileSystem()  # type: ignore[assignment]
        worker = ManualWorker()
        files = FileQueue(fs, self.mktemp() + "/commitlog", FILE_SIZE)
        files.load()
        log = CommitLog(files, self.clock, worker, HOST)
        self.addCleanup(log.close)
        with capturedLogs() as events:
            for _ in range(3):
                log.append([put(b"x")])
            self.assertEqual((len(worker), files.starts), (1, [0]))
            worker.work(1)
            log.append([put(b"x")])
        self.assertEqual((len(worker), files.starts, events), (0, [0, FILE_SIZE], []))
        fs.fail("reserve", error=errno.ENOSPC, times=None)
        with capturedLogs() as events:
            log.append([put(b"x" * (FILE_SIZE - 300))])
            worker.work(1)
            for _ in range(3):
                log.append([put(b"x")])
        self.assertEqual((len(worker), files.starts), (0, [0, FILE_SIZE]))
        told = [each for each in events if "in advance" in each["log_format"]]
        self.assertEqual(len(told), 1)

    def test_rocketmq_fault_blank_without_a_next_file_is_not_what_a_clean_exit_leaves(self) -> None:
        self.log.append_raw(0, [b"x" * FILE_SIZE])
        self.log.close()
        self.assertEqual(self.fs.listdir(self.folder), [layout.file_name(0), layout.file_name(FILE_SIZE)])
        self.log = self.open()
        self.log.set_end(FILE_SIZE)
        self.log.files.delete_from(FILE_SIZE)
        self.log.close()
        self.assertEqual(self.fs.listdir(self.folder), [layout.file_name(0), layout.file_name(FILE_SIZE)])


class RawAppendTests(SynchronousTestCase):
    """The slave's side."""

    setUp = CommitLogTests.setUp
    open = CommitLogTests.open
    open_faulty = CommitLogTests.open_faulty

    def test_B88_raw_bytes_make_an_identical_log(self) -> None:
        blobs: list[tuple[int, bytes]] = []
        self.log.add_listener(lambda start, blob: blobs.append((start, blob)))
        self.log.append([put(bytes([65 + n]) * 1500, queue_id=n) for n in range(5)])
        self.folder = self.mktemp() + "/commitlog"
        slave = self.open()
        for start, blob in blobs:
            slave.append_raw(start, [blob[:100], blob[100:]])
        self.assertEqual(slave.max_offset, self.log.max_offset)
        for start in self.log.files.starts[:-1]:
            self.assertEqual(slave.read(start, FILE_SIZE), self.log.read(start, FILE_SIZE))

    def test_bytes_may_cross_file_ends(self) -> None:
        data = bytes(range(256)) * 40
        self.log.append_raw(0, [data])
        got = b"".join(self.log.read(at, FILE_SIZE) for at in range(0, len(data), FILE_SIZE))
        self.assertEqual(got, data)

    def test_B62_B154_an_empty_log_takes_any_file_boundary_and_nothing_else(self) -> None:
        self.assertRaises(OffsetGap, self.log.append_raw, FILE_SIZE + 8, [b"x"])
        self.log.append_raw(FILE_SIZE * 3, [b"x"])
        self.assertEqual((self.log.min_offset, self.log.max_offset), (FILE_SIZE * 3, FILE_SIZE * 3 + 1))
        gap = self.assertRaises(OffsetGap, self.log.append_raw, FILE_SIZE * 3 + 2, [b"y"])
        for offset in (FILE_SIZE * 3 + 1, FILE_SIZE * 3 + 2):
            self.assertIn(str(offset), str(gap))

    def test_files_without_a_byte_of_log_bind_it_to_no_place(self) -> None:
        """A master's before its first put; as a slave it gets the other's last file."""
        self.log.append_raw(0, [])
        self.assertEqual(self.log._files.starts[0], 0)
        self.assertRaises(OffsetGap, self.log.append_raw, 8, [b"x"])
        self.log.append_raw(FILE_SIZE * 3, [b"x"])
        self.assertEqual((self.log.min_offset, self.log.max_offset), (FILE_SIZE * 3, FILE_SIZE * 3 + 1))

    def test_B63_an_empty_append_makes_the_first_file(self) -> None:
        self.log.append_raw(FILE_SIZE, [])
        self.assertEqual((self.log.min_offset, self.log.max_offset), (FILE_SIZE, FILE_SIZE))

    def test_B89_stored_whole_or_not_at_all(self) -> None:
        self.log.append_raw(0, [b"a" * 4000])
        self.log.files.delete_from(FILE_SIZE)
        self.fs.full = True
        self.assertRaises(StoreFull, self.log.append_raw, 4000, [b"b" * 200])
        self.assertEqual(self.log.max_offset, 4000)
        self.fs.full = False
        self.log.append_raw(4000, [b"b" * 200])
        self.assertEqual(self.log.read(4000, 96), b"b" * 96)

    def test_a_failed_write_that_reached_into_the_next_file_is_no_hindrance_to_the_end(self) -> None:
        self.log.append_raw(0, [b"a" * 100])
        self.fs.broken = True
        self.assertRaises(OSError, self.log.append_raw, 100, [b"b" * 2 * FILE_SIZE])
        self.fs.broken = False
        self.log.close()
        (path,) = glob(self.folder + "/*")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), (b"a" * 100).ljust(FILE_SIZE, b"\0"))

    def test_B89_a_full_disk_between_two_files_of_one_append_is_got_over(self) -> None:
        self.log.append_raw(0, [b"a" * 100])
        self.open_faulty().fail("pwrite", error=errno.ENOSPC, path="commitlog", nth=2)
        self.assertRaises(StoreFull, self.log.append_raw, 100, [b"b" * 2 * FILE_SIZE])
        self.assertEqual(self.log.max_offset, 100)
        self.log.append_raw(100, [b"c" * 50])
        self.assertEqual(self.log.max_offset, 150)
        for at in (150, FILE_SIZE):
            self.assertEqual(self.log.files.read(at, 500), bytes(500))

    def test_B154_after_a_failed_first_append_any_file_boundary_is_taken(self) -> None:
        fs = self.open_faulty()
        fs.fail("pwrite", error=errno.ENOSPC, path="commitlog")
        self.assertRaises(StoreFull, self.log.append_raw, FILE_SIZE * 3, [b"x"])
        self.assertRaises(OffsetGap, self.log.append_raw, FILE_SIZE * 3 + 1, [b"y"])
        self.log.append_raw(FILE_SIZE * 5, [b"z"])
        self.assertEqual((self.log.min_offset, self.log.max_offset), (FILE_SIZE * 5, FILE_SIZE * 5 + 1))

    def test_reading_below_the_first_byte_is_an_error(self) -> None:
        self.log.append_raw(FILE_SIZE, [b"x" * 10])
        self.assertRaises(LookupError, self.log.read, 0, 10)
        self.assertEqual(self.log.read(FILE_SIZE + 10, 10), b"")
