"""Where a log's last record begins, from its bytes alone."""

from __future__ import annotations

from pathlib import Path
from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.lastrecord import SEARCH_CHUNK
from hatwisted.store.log.logfiles import LogFiles
from hatwisted.store.log.put import Put
from hatwisted.wire.hostport import HostPort

HOST = HostPort(b"\x7f\0\0\1", 10911).pack()
FILE_SIZE = 4096


class LastRecordTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1.7e9)
        self.source = self.opened()
        random = Random(3)
        bodies = [random.randbytes(random.randrange(10, 900)) for _ in range(12)]
        self.puts = [Put("T", 0, [(0, body, b"")], HOST, 0) for body in bodies]
        self.source.append(self.puts)
        self.assertGreater(self.source.max_offset, FILE_SIZE + 500)

    def opened(self, file_size: int = FILE_SIZE) -> CommitLog:
        files = FileQueue(PosixFileSystem(), str(Path(self.mktemp()) / "commitlog"), file_size)
        files.load()
        log = CommitLog(files, self.clock, InlineWorker(), HOST)
        self.addCleanup(log.close)
        return log

    def test_whole_or_torn_at_any_byte(self) -> None:
        log = self.opened()
        edges = {edge + near for put in self.puts for edge in (put.offset, put.end) for near in range(-9, 10)}
        at = 0
        for end in sorted(edge for edge in edges if 0 < edge <= self.source.max_offset):
            while at < end:
                piece = self.source.read(at, end - at)
                log.append_raw(at, [piece])
                at += len(piece)
            whole = max((put.offset for put in self.puts if put.end <= end), default=0)
            self.assertEqual(log.last_record_start(), whole, end)

    def test_an_empty_log_ends_where_it_begins(self) -> None:
        self.assertEqual(self.opened().last_record_start(), 0)

    def test_a_record_larger_than_what_is_looked_at_in_one_go(self) -> None:
        log = self.opened(4 * SEARCH_CHUNK)
        sizes = (10, SEARCH_CHUNK + 10, 20, 2 * SEARCH_CHUNK)
        puts = [Put("T", 0, [(0, b"x" * size, b"")], HOST, 0) for size in sizes]
        for put in puts:
            log.append([put])
            self.assertEqual(log.last_record_start(), put.offset)

    def test_many_small_ones_in_more_than_one_go(self) -> None:
        log = self.opened(4 * SEARCH_CHUNK)
        puts = [Put("T", 0, [(0, b"x" * 200, b"")] * 64, HOST, 0) for _ in range(100)]
        log.append(puts)
        self.assertGreater(log.max_offset, SEARCH_CHUNK)
        self.assertEqual(log.last_record_start(), puts[-1].record_offsets[-1])


class LogFilesTests(SynchronousTestCase):
    def test_a_log_is_read_as_far_as_its_known_end(self) -> None:
        files = FileQueue(PosixFileSystem(), str(Path(self.mktemp()) / "commitlog"), FILE_SIZE)
        files.load()
        self.addCleanup(files.close)
        log = CommitLog(files, Clock(), InlineWorker(), HOST)
        log.append_raw(2 * FILE_SIZE, [bytes(range(100))])
        read_only = LogFiles(files, 2 * FILE_SIZE + 90)
        self.assertEqual((read_only.min_offset, read_only.max_offset), (2 * FILE_SIZE, 2 * FILE_SIZE + 90))
        self.assertEqual(read_only.file_size, FILE_SIZE)
        for at, limit, found in ((0, 10, range(10)), (80, 100, range(80, 90)), (89, 1, [89]), (90, 1, [])):
            self.assertEqual(read_only.read(2 * FILE_SIZE + at, limit), bytes(found))
        self.assertEqual(read_only.read(2 * FILE_SIZE + 91, 5), b"")
