"""The progress of a broadcasting member, in a file of its own."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.errors import ClientError
from hatwisted.clientcore.offsets import LocalOffsets
from hatwisted.clientcore.process import LocalFile
from hatwisted.clientcore.tasks import Task
from hatwisted.wire.messagequeue import MessageQueue

QUEUE, OTHER = (MessageQueue(topic="T", broker_name="b", queue_id=number) for number in (0, 1))
PATH = Path("offsets.json")


class FileInMemory:
    def __init__(self, data: bytes | None = None) -> None:
        self.data = data
        self.error: OSError | None = None

    def read(self) -> bytes | None:
        return self.data

    def replace(self, data: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.data = data


class LocalOffsetsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = FileInMemory()

    def file(self, path: Path) -> FileInMemory:
        return self.disk

    def opened(self, path: Path | None = PATH) -> LocalOffsets:
        driver: Any = self
        return LocalOffsets(driver, path)

    def known(self, offsets: LocalOffsets) -> list[int | None]:
        return [Task(offsets.read(queue)).result() for queue in (QUEUE, OTHER)]

    def test_what_was_written_is_read_again(self) -> None:
        offsets = self.opened()
        self.assertEqual(self.known(offsets), [None, None])
        self.assertEqual(Task(offsets.write([QUEUE], lambda queue: 5)).result(), [])
        self.assertEqual(Task(offsets.write([OTHER], lambda queue: 7)).result(), [])
        self.assertEqual(self.known(self.opened()), [5, 7])

    def test_a_disk_that_fails_costs_no_progress(self) -> None:
        offsets = self.opened()
        self.disk.error = OSError(errno.ENOSPC, "no space")
        self.assertEqual(Task(offsets.write([QUEUE], lambda queue: 5)).result(), [self.disk.error])
        self.assertEqual(self.known(offsets), [5, None])
        self.disk.error = None
        self.assertEqual(Task(offsets.write([OTHER], lambda queue: 7)).result(), [])
        self.assertEqual(self.known(self.opened()), [5, 7])

    def test_a_file_of_something_else_is_refused_by_name(self) -> None:
        for data in (b"", b"[]", b"{}", b"offsets"):
            self.disk.data = data
            self.assertIn(
                "offsets.json: not a file of offsets", str(self.assertRaises(ClientError, self.opened))
            )

    def test_without_a_file_it_is_kept_while_it_runs(self) -> None:
        offsets = self.opened(None)
        self.assertEqual(Task(offsets.write([QUEUE], lambda queue: 5)).result(), [])
        self.assertEqual(self.known(offsets), [5, None])
        self.assertIsNone(self.disk.data)


class LocalFileTests(SynchronousTestCase):
    def test_it_is_replaced_as_a_whole_and_its_folder_made(self) -> None:
        path = Path(self.mktemp()) / "a" / "offsets.json"
        file = LocalFile(path)
        self.assertIsNone(file.read())
        for data in (b"one", b"two"):
            file.replace(data)
            self.assertEqual(file.read(), data)
        self.assertEqual([each.name for each in path.parent.iterdir()], [path.name])
