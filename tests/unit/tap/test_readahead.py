"""What a start reads of thousands of queues, several at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.queue.queuescan import RECHECKED_FILES
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.tap import readahead
from hatwisted.tap.readahead import SAMPLED, SHARE, is_in_memory, read_queues_ahead

TOPICS, QUEUES, FILES = 4, SAMPLED // 2, RECHECKED_FILES + 1
ALL = TOPICS * QUEUES
LENGTH = 4000
ON_DISK = "/var/tmp"  # other temporary files may be in memory alone


class ReadAheadTests(SynchronousTestCase):
    skip = None if hasattr(os, "posix_fadvise") else "this system reads nothing ahead"

    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        for topic in range(TOPICS):
            for queue in range(QUEUES):
                folder = self.folder / f"topic{topic}" / str(queue)
                folder.mkdir(parents=True)
                for number in range(FILES):
                    (folder / f"{number * LENGTH:020}").write_bytes(b"q" * LENGTH)
        self.asked: list[str] = []

    def read(self, absent: int = 1 << 20) -> int:
        """With so many of those that are asked for not in memory."""

        def in_memory(path: str) -> bool:
            self.asked.append(path)
            return len(self.asked) > absent

        return read_queues_ahead(self.folders(), in_memory)

    def folders(self, root: str | None = None) -> Iterator[str]:
        """Of all queues under `root`, or under the test's own."""
        root = root or str(self.folder)
        table = ConsumeQueueTable(PosixFileSystem(), root, LENGTH, read_only=True)
        return (os.path.join(root, topic, str(queue_id)) for topic, queue_id in table.stored())

    def test_all_queues_are_read_if_some_are_on_the_disk_alone(self) -> None:
        self.assertEqual(self.read(SAMPLED // SHARE + 1), ALL)
        self.assertEqual(len(self.asked), SAMPLED)
        names = {os.path.basename(path) for path in self.asked}
        self.assertEqual(
            names, {f"{LENGTH:020}"}, "the search for a queue's end begins with the last but two"
        )

    def test_nothing_is_read_that_is_in_memory(self) -> None:
        self.assertEqual((self.read(0), len(self.asked)), (0, SAMPLED))

    def test_a_few_on_the_disk_are_no_reason(self) -> None:
        self.assertEqual(self.read(SAMPLED // SHARE), 0)

    def test_few_queues_arent_asked_for(self) -> None:
        for topic in range(1, TOPICS):
            (self.folder / f"topic{topic}").rename(self.folder.with_name(f"{self.folder.name}-{topic}"))
        self.assertEqual((self.read(), self.asked), (0, []))

    def test_what_cant_be_read_is_left_to_the_store(self) -> None:
        (self.folder / "a file").write_bytes(b"")
        (self.folder / "topic0" / "another").write_bytes(b"")
        (self.folder / "empty" / "0").mkdir(parents=True)
        (self.folder / "topic1" / "77").mkdir()
        (self.folder / "topic1" / "77" / "nowhere").symlink_to("gone")
        self.assertEqual(self.read(), ALL)

    def test_a_pipe_among_the_files_holds_nothing_up(self) -> None:
        for queue in (self.folder / "topic2").iterdir():
            for path in queue.iterdir():
                path.unlink()
            os.mkfifo(queue / f"{0:020}")
        self.assertEqual(self.read(), ALL - QUEUES)
        self.assertTrue(is_in_memory(str(self.folder / "topic2" / "0" / f"{0:020}")))

    def test_a_system_without_threads_starts_as_well(self) -> None:
        with patch.object(
            readahead, "ThreadPoolExecutor", side_effect=RuntimeError("can't start new thread")
        ):
            self.assertEqual(self.read(), 0)

    def test_there_may_be_no_store_yet(self) -> None:
        self.assertEqual(read_queues_ahead(self.folders(str(self.folder / "none"))), 0)

    def test_the_system_says_what_is_in_memory(self) -> None:
        folder = TemporaryDirectory(dir=ON_DISK)
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "file"
        path.write_bytes(b"q" * LENGTH)
        self.assertTrue(is_in_memory(str(path)), "it has just been written")
        self.assertTrue(is_in_memory(str(self.folder / "none")), "that can't be known")
        with path.open("rb+") as file:
            os.fsync(file)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if is_in_memory(str(path)):
            raise SkipTest("this file system keeps its files in memory, or can't say whether it does")
        path.read_bytes()
        self.assertTrue(is_in_memory(str(path)))
