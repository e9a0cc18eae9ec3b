"""Writing the files of consume queues from spooled entries, as RocketMQ lays them out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from os.path import join
from typing import Final

from hatwisted.logcodec.queueentry import ENTRY_SIZE, blank_entry
from hatwisted.logcodec.queueplan import QueuePlan, expired_entries
from hatwisted.logcodec.queueruns import QueueName
from hatwisted.pipeline.jobs.reindex.spool import SpooledRun, entries_path
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.wire.layout import file_name, parse_file_name

PIECE: Final = 52_428 * ENTRY_SIZE
"""Bytes copied at once: 1 MiB in whole entries."""


@dataclass(frozen=True, slots=True)
class QueueWork:
    """A queue to be written: its plan, and where the entries of the plan's runs are."""

    queue: QueueName
    plan: QueuePlan
    runs: tuple[SpooledRun, ...]


def write_queue(work: QueueWork, root: str, spool: str, file_size: int) -> None:
    """Write the files of one queue: each has its full length from the beginning, sparse, and there is none
    without an entry.

    - work: which queue
    - root: folder of all queues
    - spool: folder of the first pass's files
    - file_size: bytes per file
    """
    topic, queue_id = work.queue
    folder = join(root, topic, str(queue_id))
    os.makedirs(folder, exist_ok=True)
    at = work.plan.ranges[0].index * ENTRY_SIZE
    with _QueueFiles(folder, file_size) as files:
        for piece in _pieces(work, spool):
            files.write(at, piece)
            at += len(piece)


def carry_over(source: str, target: str, log_begin: int) -> bool:
    """Copy a queue without records in the log, as far as it names records below the log's start; True if
    there were any.

    - source: its folder
    - target: its new folder
    - log_begin: first physical offset of the log
    """
    floor, kept, others = 0, list[tuple[str, int]](), False
    for name in sorted(name for name in os.listdir(source) if parse_file_name(name) is not None):
        data = PosixFileSystem().read(join(source, name))
        expired = expired_entries(data, floor, log_begin)
        floor, others = expired.floor, expired.others
        size = expired.entries * ENTRY_SIZE
        if size or int(name):
            kept.append((name, size))
        if size < len(data):
            break
    if not kept or (others and not floor):
        return False
    os.makedirs(target)
    for name, size in kept:
        path = shutil.copyfile(join(source, name), join(target, name))
        length = os.path.getsize(path)
        os.truncate(path, size)
        os.truncate(path, length)
    return True


def _pieces(work: QueueWork, spool: str) -> Iterator[bytes]:
    """The queue's entries, a piece at a time."""
    for each in work.plan.ranges:
        size = each.count * ENTRY_SIZE
        if each.run < 0:
            blank = blank_entry(each.physical)
            for done in range(0, size, PIECE):
                yield blank * (min(PIECE, size - done) // ENTRY_SIZE)
            continue
        source = work.runs[each.run]
        with open(entries_path(spool, source.part), "rb") as file:
            file.seek(source.at + each.skip * ENTRY_SIZE)
            for done in range(0, size, PIECE):
                yield file.read(min(PIECE, size - done))


class _QueueFiles:
    """The files of one queue as a stream that is written from front to back."""

    def __init__(self, folder: str, file_size: int) -> None:
        self._folder = folder
        self._file_size = file_size
        self._base = -1
        self._fd = -1

    def __enter__(self) -> _QueueFiles:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def write(self, at: int, data: bytes) -> None:
        """Write at a byte of the queue's stream."""
        while data:
            base = at - at % self._file_size
            if base != self._base:
                self._open(base)
            size = min(len(data), base + self._file_size - at)
            written = os.pwrite(self._fd, data[:size], at - base)
            at, data = at + written, data[written:]

    def _open(self, base: int) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        path = join(self._folder, file_name(base))
        self._fd, self._base = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), base
        os.ftruncate(self._fd, self._file_size)
