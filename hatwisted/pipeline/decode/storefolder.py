"""A store's folder: which log files it has, where its log ends, and how to cut it into pieces to read.

A store is read as it is, whether a running broker's or a copy. Its log's end is found without reading the
log (see `endprobe`). Pieces are cut at any byte, because a reader finds its first record by itself: a plan for
terabytes reads nothing. Real boundaries, as a stream's offsets need them, are found one by one on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os.path import abspath
from typing import Final

from hatwisted.logcodec.onerecord import NO_TIME, store_timestamp_at
from hatwisted.logcodec.recordsearch import RecordSearch
from hatwisted.pipeline.decode import storebytes
from hatwisted.pipeline.decode.endprobe import EndProbe, Tail
from hatwisted.pipeline.decode.filebytes import FileBytes
from hatwisted.pipeline.decode.queueentries import QueueEntries
from hatwisted.pipeline.errors import NotAStore, WrongLogFile
from hatwisted.wire.layout import parse_file_name
from hatwisted.wire.storenames import LOG_FOLDER, LOST_AND_FOUND

EVERY_STORE: Final = (LOG_FOLDER, "store")
"""RocketMQ's names of a store's folder and of the log's in it: they don't distinguish brokers."""
SPLIT_BYTES: Final = (64 << 20, 256 << 20)
"""Bytes of a piece: the default, the least and the most. Spark's own cost of a task is some 50 ms: as much as
reading one column of 100 MiB, and little compared with 256."""
SPLITS: Final = 16
"""Pieces of a log by default, while they are between these sizes."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a log: physical offset of its first byte, its path and its bytes."""

    base: int
    path: str
    size: int

    @property
    def name(self) -> str:
        """As the column `file` has it."""
        return self.path.rpartition("/")[2]

    @property
    def end(self) -> int:
        """Physical offset after its last byte."""
        return self.base + self.size


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of one log file, small enough to be sent to a worker: the records that start in [begin, end)
    belong to it.

    begin, end: physical offsets, at any byte. aligned: a record is known to start at `begin`. limit: the log's
    end where it lies in this file, as it was when the split was made; else None.
    """

    store: str
    broker: str
    path: str
    base: int
    file_size: int
    begin: int
    end: int
    aligned: bool
    limit: int | None = None


@dataclass(slots=True)
class LogStore:
    """The log of one broker: its folder, the broker's name, and its files in order of their offsets."""

    path: str
    broker: str
    files: list[LogFile]
    _tail: Tail | None = field(default=None, repr=False)

    @classmethod
    def open(cls, path: str, broker: str | None = None) -> LogStore:
        """The store in a folder, or whose `commitlog` folder it is. broker: what the column says; by default the
        name of the store's folder, or of the one around it if that is `store`. Raises NotAStore, WrongLogFile."""
        path = path.rstrip("/") or "/"
        store = cls(path, broker or _broker_of(path), _log_files(_log_folder(path)))
        if store.files:
            with _finder(store.files[0]) as finder:
                finder.check_first_record()
        return store

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte still held."""
        return self.files[0].base if self.files else 0

    def end(self) -> int:
        """Physical offset after the last whole, valid record there is now; lists the files again. A later call
        starts where the last one ended."""
        self.files = _log_files(_log_folder(self.path))
        self._tail = self._find_tail()
        return self._tail.end

    def splits(
        self, begin: int | None = None, end: int | None = None, split_bytes: int | None = None
    ) -> list[Split]:
        """Pieces that together hold the records of a range, as far as the log reaches. Reads next to nothing,
        as each reader finds its first record by itself.

        - begin: records start from here on; None: the log's first offset
        - end: and before here; None: the log's end
        - split_bytes: of a piece, about; None: chosen by the amount there is
        """
        if split_bytes is not None and split_bytes < 1:
            raise ValueError(f"a split needs at least one byte, not {split_bytes}")
        log_end = self.end()
        begin = self.min_offset if begin is None else begin
        end = log_end if end is None else min(end, log_end)
        size = split_bytes or min(max((end - begin) // SPLITS, SPLIT_BYTES[0]), SPLIT_BYTES[1])
        return [
            Split(
                *(self.path, self.broker, file.path, file.base, file.size, first, last),
                aligned=first == file.base,
                limit=log_end if log_end < file.end else None,
            )
            for file in self.files
            for first, last in _cut(max(begin, file.base), min(end, file.end), size)
        ]

    def boundary_at_or_after(self, offset: int) -> int:
        """The nearest place at or after `offset` where a record starts, or the log's end."""
        return self._boundary(offset, RecordSearch.at_or_after)

    def boundary_at_or_before(self, offset: int) -> int:
        """The nearest place at or before `offset` where a record or a blank starts, or the log ends."""
        return self._boundary(offset, RecordSearch.at_or_before)

    def record_before(self, offset: int) -> tuple[int, int] | None:
        """Where the record starts that ends at `offset`, and its store time in ms; None, where none does, or it's
        deleted."""
        if self._tail is not None and self._tail.end == offset and self._tail.stored != NO_TIME:
            return self._tail.last, self._tail.stored
        if not self.min_offset < offset:
            return None
        start = self.boundary_at_or_before(offset - 1)
        stored = self.stored_at(start)
        return None if stored is None or stored == NO_TIME else (start, stored)

    def stored_at(self, offset: int) -> int | None:
        """Store time in ms of the record that starts at `offset`; NO_TIME, where none does; None, where the log
        has been deleted.
        """
        for file in self.files:
            if file.base <= offset < file.end:
                with storebytes.open_file(file.path) as opened:
                    return store_timestamp_at(FileBytes(opened, file.base, file.size), offset)
        return None if offset < self.min_offset else NO_TIME

    def stored_from(self, offset: int) -> int | None:
        """Store time in ms of the first record at or after a boundary; None, if that can't be told."""
        for place in (offset, *(file.base for file in self.files if file.base > offset)):
            stored = self.stored_at(place)
            if stored != NO_TIME:
                return stored
        return None

    def _boundary(self, offset: int, look: Callable[[RecordSearch, int], int]) -> int:
        log_end = self.end()
        if offset <= self.min_offset or offset >= log_end:
            return max(self.min_offset, min(offset, log_end))
        file = self.files[(offset - self.min_offset) // self.files[0].size]
        with storebytes.open_file(file.path) as opened:
            log = FileBytes(opened, file.base, file.size)
            return look(RecordSearch(log, file.base, min(log_end, file.end)), offset)

    def _find_tail(self) -> Tail:
        known = self._tail
        for file in reversed(self.files):
            with _finder(file, QueueEntries(self.path)) as finder:
                if not finder.is_unwritten():
                    return finder.tail(known if known and file.base <= known.last < file.end else None)
        return Tail(self.min_offset, self.min_offset)


@contextmanager
def _finder(file: LogFile, queues: QueueEntries | None = None) -> Iterator[EndProbe]:
    with storebytes.open_file(file.path) as opened:
        yield EndProbe(opened, file.path, file.base, file.size, queues)


def _cut(begin: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """[begin, end) in pieces of nearly equal size, at most `size`."""
    if begin < end:
        count = -(-(end - begin) // size)
        edges = [begin + (end - begin) * index // count for index in range(count + 1)]
        yield from zip(edges[:-1], edges[1:], strict=True)


def _log_folder(path: str) -> str:
    """Where the log files of a store are."""
    entries = storebytes.list_folder(path)
    if entries is None:
        raise NotAStore(f"{path}: no such folder")
    if any(entry.name == LOG_FOLDER and entry.size is None for entry in entries):
        return storebytes.join(path, LOG_FOLDER)
    is_log = any(parse_file_name(entry.name) is not None and entry.size is not None for entry in entries)
    if is_log or path.rpartition("/")[2] == LOG_FOLDER:
        return path
    raise NotAStore(f"{path}: not a store: it has neither a folder {LOG_FOLDER} nor log files in it")


def _broker_of(path: str) -> str:
    """The last name in a store's path that isn't one every store has."""
    whole = path if storebytes.is_remote(path) else abspath(path)
    parts = [part for part in whole.split("/") if part]
    while len(parts) > 1 and parts[-1] in EVERY_STORE:
        parts.pop()
    return parts[-1] if parts else path


def _log_files(folder: str) -> list[LogFile]:
    """The log's files, without an empty last one, which its broker is just making."""
    entries = storebytes.list_folder(folder)
    if entries is None:
        raise NotAStore(f"{folder}: no longer exists")
    files = []
    for name, size in entries:
        if name.startswith(".") or name == LOST_AND_FOUND:
            continue
        path = storebytes.join(folder, name)
        base = parse_file_name(name)
        if base is None or size is None:
            raise WrongLogFile(
                f"{path}: not a log file: their names are the 20 digits of an offset; move it elsewhere"
            )
        files.append(LogFile(base, path, size))
    if files and not files[-1].size:
        files.pop()
    _check_sizes(files)
    return files


def _check_sizes(files: list[LogFile]) -> None:
    for previous, file in zip([None, *files], files, strict=False):
        if previous is None:
            if not file.size or file.base % file.size:
                raise WrongLogFile(
                    f"{file.path}: {file.size} bytes from offset {file.base} on are not a whole log file: "
                    "was it cut? Copy it again"
                )
        elif file.size != files[0].size:
            raise WrongLogFile(
                f"{file.path}: has {file.size} bytes and {files[0].path} {files[0].size}: all files of a log have "
                "one size; copy it again, or read the files of each size from a folder of their own"
            )
        elif file.base != previous.end:
            raise WrongLogFile(f"{file.path}: the file from offset {previous.end} on is missing before it")
