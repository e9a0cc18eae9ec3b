"""Ranges of a log in use, read beside it: their bytes, their digests, and where a record begins."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.errors import OutsideLog
from hatwisted.store.interfaces import IFile, IFileSystem
from hatwisted.store.log import logranges
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.logranges import LogRanges
from hatwisted.wire.layout import file_name
from hatwisted.wire.logrange import DIGEST_SIZE, LogRange
from tests.support.logbuilder import LogBuilder
from tests.support.manualworker import ManualWorker

FILE_SIZE = 4096
BASE = 2 * FILE_SIZE
"""The files before have expired."""


def digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_SIZE).digest()


@implementer(IFileSystem)
class ReadOnlyDisk(PosixFileSystem):
    """A disk that opens nothing for writing, and knows what is open."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[IFile] = []
        self.closed = 0

    def open(self, path: str, create: bool = False, read_only: bool = False) -> IFile:
        assert read_only is True
        file = super().open(path, create, read_only)
        close = file.close

        def closing() -> None:
            self.closed += 1
            close()

        file.close = closing  # type: ignore[method-assign]
        self.opened.append(file)
        return file


class LogRangesTests(SynchronousTestCase):
    def setUp(self) -> None:
        log = LogBuilder(BASE, FILE_SIZE)
        while len(log.data) < FILE_SIZE + 500:
            log.add(body=bytes(200))
        self.built, self.end = log, log.end
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        for start in (0, FILE_SIZE):
            piece = bytes(log.data[start : start + FILE_SIZE])
            (self.folder / file_name(BASE + start)).write_bytes(piece.ljust(FILE_SIZE, b"\0"))
        files = FileQueue(PosixFileSystem(), str(self.folder), FILE_SIZE)
        files.load()
        self.worker, self.disk = ManualWorker(), ReadOnlyDisk()
        commit_log = CommitLog(files, Clock(), ManualWorker(), bytes(8))
        commit_log.set_end(self.end)
        self.addCleanup(files.close)
        self.ranges = LogRanges(commit_log, self.disk, self.worker)

    def bytes_of(self, begin: int, end: int) -> bytes:
        return bytes(self.built.data[begin - BASE : end - BASE])

    def read(self, begin: int, end: int) -> bytes:
        done = self.ranges.read(LogRange(begin, end))
        self.worker.work()
        return self.successResultOf(done)

    def test_it_holds_what_the_log_holds(self) -> None:
        self.assertEqual(self.ranges.held, LogRange(BASE, self.end))

    def test_bytes_end_with_their_file_and_with_the_log(self) -> None:
        second = BASE + FILE_SIZE
        for begin, end, found in (
            (BASE, BASE + 1, BASE + 1),
            (BASE + 100, BASE + 300, BASE + 300),
            (second - 50, self.end, second),
            (second, self.end, self.end),
            (self.end - 1, self.end, self.end),
        ):
            self.assertEqual(self.read(begin, end), self.bytes_of(begin, found), (begin, end))

    def test_nothing_is_read_in_the_reactors_thread_and_nothing_stays_open(self) -> None:
        done = self.ranges.read(LogRange(BASE, BASE + 10))
        self.assertEqual((len(self.worker), self.disk.opened), (1, []))
        self.worker.work()
        self.successResultOf(done)
        self.assertEqual((len(self.disk.opened), self.disk.closed), (1, 1))

    def test_what_the_log_does_not_hold_is_refused(self) -> None:
        for begin, end, expired in (
            (BASE - 1, BASE + 10, True),
            (self.end - 10, self.end + 1, False),
            (BASE + 10, BASE + 10, False),
            (self.end, self.end + 1, False),
        ):
            for done in (
                self.ranges.read(LogRange(begin, end)),
                self.ranges.digests(LogRange(begin, end), 100),
            ):
                error = self.failureResultOf(done, OutsideLog).value
                self.assertEqual(error.expired, expired, (begin, end))
                self.assertIn(
                    f"offset {begin} isn't in the log, which holds {BASE} to {self.end}", str(error)
                )

    def test_a_file_that_retention_has_removed_meanwhile_is_outside(self) -> None:
        reading = self.ranges.read(LogRange(BASE, BASE + 10))
        digesting = self.ranges.digests(LogRange(BASE + FILE_SIZE - 1, self.end), 100)
        (self.folder / file_name(BASE)).unlink()
        self.worker.work()
        self.failureResultOf(reading, OutsideLog)
        self.failureResultOf(digesting, OutsideLog)

    def test_each_block_has_its_digest_and_the_last_one_may_be_shorter(self) -> None:
        self.patch(logranges, "CHUNK", 64)
        begin, block = BASE + 7, 1000
        done = self.ranges.digests(LogRange(begin, self.end), block)
        self.worker.work()
        expected = [
            digest(self.bytes_of(at, min(at + block, self.end))) for at in range(begin, self.end, block)
        ]
        self.assertEqual(self.successResultOf(done), b"".join(expected))
        self.assertEqual(len(expected), 5)

    def test_a_record_begins_at_or_before_what_is_asked_for(self) -> None:
        offsets = self.built.offsets
        second_file = next(at for at in offsets if at >= BASE + FILE_SIZE)
        for asked, found in (
            (offsets[0], offsets[0]),
            (offsets[1] - 1, offsets[0]),
            (offsets[3], offsets[3]),
            (offsets[3] + 40, offsets[3]),
            (second_file + 1, second_file),
            (self.end - 1, offsets[-1]),
        ):
            done = self.ranges.record_start(asked)
            self.worker.work()
            self.assertEqual(self.successResultOf(done), found, asked)
        self.failureResultOf(self.ranges.record_start(self.end), OutsideLog)
