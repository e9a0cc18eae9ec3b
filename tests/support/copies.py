"""Stores for the tests of audit and reindex: small logs, copies of them, and damage put at chosen bytes."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar
from unittest import TestCase

from hatwisted.pipeline.decode.storefolder import LogFile
from hatwisted.pipeline.jobs.locallog import LocalLog
from hatwisted.wire.storedrecord import Record
from tests.support.logbuilder import LogBuilder

FILE_SIZE = 8192
TOPICS = ("Orders", "Events", "%RETRY%group", "Größen")


def write_store(
    folder: Path, count: int, *, base: int = 0, file_size: int = FILE_SIZE, seed: int = 1
) -> list[Record]:
    """A log of random topics, queues and bodies.

    - folder: the store
    - count: of records
    - base: where the log begins, a file's start
    - file_size: bytes of a file
    - seed: for chance
    """
    random_, log = random.Random(seed), LogBuilder(base, file_size)
    for _ in range(count):
        topic, queue_id = random_.choice(TOPICS), random_.randrange(3)
        log.add(topic, queue_id, random_.randbytes(random_.choice((0, 1, 20, 300, 900))))
    log.save(folder)
    return log.records


def copy_store(source: Path, target: Path) -> Path:
    """Another copy of a store's log."""
    return Path(shutil.copytree(source, target))


def log_files(folder: Path) -> list[LogFile]:
    """The files of a store's log."""
    paths = sorted((folder / "commitlog").iterdir())
    return [LogFile(int(path.name), str(path), path.stat().st_size) for path in paths]


def log_bytes(*folders: Path) -> Sequence[LocalLog]:
    """Readers of the logs of these stores; close them."""
    return [LocalLog(log_files(folder)) for folder in folders]


def end_of(records: Sequence[Record]) -> int:
    """Where a log of these ends."""
    return records[-1].physical_offset + records[-1].total_size


def patch(folder: Path, offset: int, data: bytes) -> None:
    """Put bytes over the log, within one file."""
    file = next(file for file in log_files(folder) if file.base <= offset < file.base + file.size)
    with open(file.path, "r+b") as opened:
        opened.seek(offset - file.base)
        opened.write(data)


def flip(folder: Path, offset: int) -> None:
    """Change one byte of the log."""
    file = next(file for file in log_files(folder) if file.base <= offset < file.base + file.size)
    with open(file.path, "r+b") as opened:
        opened.seek(offset - file.base)
        byte = opened.read(1)[0]
        opened.seek(offset - file.base)
        opened.write(bytes([byte ^ 0x5A]))


def files_of(folder: Path) -> dict[str, bytes]:
    """Content of every file in a folder, by relative path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class TwoCopiesCase(TestCase):
    """A master's store and its slave's, which are the same at first. COUNT: of their records."""

    COUNT: ClassVar[int]

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.master, self.slave = self.folder / "master", self.folder / "slave"
        self.records = write_store(self.master, self.COUNT)
        self.end = end_of(self.records)
        copy_store(self.master, self.slave)
