"""What one part of the log means to queues and index, put aside on disk until every part has been read.

Where an entry goes is known only when all parts before it are: whether its queue already has that index, in which
index file an item's number falls. So the first pass over the log writes entries and items to two files per part
and returns where they are; the second builds queue and index files from those, which together are a fiftieth of
the log. (Rejected: to have the first pass write entries straight to their place, which can't tell a topic that was
deleted and made anew; and to shuffle them through Spark, which sorts what is sorted.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import join
from typing import Any, Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.dispatchscan import dispatch_columns
from hatwisted.logcodec.queueentry import ENTRY_SIZE
from hatwisted.logcodec.queueruns import QueueName, Run, queue_entries, queue_rows
from hatwisted.logcodec.scan import Records
from hatwisted.pipeline.jobs.rangecompare import BadRange
from hatwisted.pipeline.jobs.rangewalk import Filler, WalkedLog, edge, walk_range

ITEMS: Final = np.dtype([("hash", "<i4"), ("physical", "<i8"), ("timestamp", "<i8")])
"""Index items: key hash as an index file stores it, physical offset, store timestamp (ms)."""


@dataclass(frozen=True, slots=True)
class SpooledRun:
    """A run whose entries lie in the file of part `part`, from byte `at` on."""

    part: int
    at: int
    run: Run


@dataclass(frozen=True, slots=True)
class SpooledPart:
    """What part number `part` put aside. records: met; items: index items; queues: runs in log order."""

    part: int
    records: int
    items: int
    queues: dict[QueueName, list[SpooledRun]]
    bad: tuple[BadRange, ...]


def entries_path(folder: str, part: int) -> str:
    """Where a part's queue entries are."""
    return join(folder, f"entries-{part:06d}")


def items_path(folder: str, part: int) -> str:
    """Where a part's index items are."""
    return join(folder, f"items-{part:06d}")


@contextmanager
def written_whole(folder: str, path: str) -> Iterator[str]:
    """A name in `folder` to write to; what was written gets its path when it's whole. Spark may run a task twice,
    even at the same time, and kill the slower one."""
    temporary = join(folder, uuid4().hex)
    yield temporary
    os.replace(temporary, path)


@dataclass(frozen=True, slots=True)
class SpoolOptions:
    """delay_levels: ms by level, from level 1 on; keys: are messages indexed; check_crc: of bodies."""

    delay_levels: tuple[int, ...]
    keys: bool = True
    check_crc: bool = False


def spool_part(
    log: WalkedLog, part: int, cuts: tuple[int, int], log_end: int, folder: str, options: SpoolOptions
) -> SpooledPart:
    """Read the part between two cuts and write its two files. Running it again writes the same again."""
    spool = _Spool(part, options)
    begin, end = (edge(log, cut, log_end) for cut in cuts)
    bad: list[BadRange] = []
    for step in walk_range(log, begin, end, check_crc=options.check_crc):
        if step.records is not None:
            spool.add(step.records)
        elif step.filler is not Filler.BLANK and step.begin == step.start:
            bad.append(BadRange(0, step.begin, step.end, step.reason))
        elif step.filler is not Filler.BLANK:
            bad[-1] = BadRange(0, bad[-1].begin, step.end, step.reason)
    return spool.saved(folder, tuple(bad))


class _Spool:
    """Collects a part's entries by queue and its items in log order."""

    def __init__(self, part: int, options: SpoolOptions) -> None:
        self._part = part
        self._options = options
        self._records = 0
        self._runs: dict[QueueName, list[Run]] = {}
        self._entries: dict[QueueName, list[bytes]] = {}
        self._items: list[npt.NDArray[Any]] = []

    def add(self, scan: Records) -> None:
        """The next records."""
        self._records += len(scan)
        columns = dispatch_columns(scan, self._options.delay_levels, keys=self._options.keys)
        rows = columns.item_rows
        items = np.empty(len(rows), ITEMS)
        items["hash"] = columns.item_hashes
        items["physical"] = scan.physical_offsets[rows]
        items["timestamp"] = scan.store_timestamps[rows]
        self._items.append(items)
        self._add_entries(scan, columns.tags_codes)

    def _add_entries(self, scan: Records, tags_codes: npt.NDArray[Any]) -> None:
        rows, runs = queue_rows(scan)
        blob = queue_entries(scan, rows, tags_codes).tobytes()
        for queue, start, run in runs:
            self._runs.setdefault(queue, []).append(run)
            piece = blob[start * ENTRY_SIZE : (start + run.count) * ENTRY_SIZE]
            self._entries.setdefault(queue, []).append(piece)

    def saved(self, folder: str, bad: tuple[BadRange, ...]) -> SpooledPart:
        """Write the files."""
        queues: dict[QueueName, list[SpooledRun]] = {}
        at = 0
        with (
            written_whole(folder, entries_path(folder, self._part)) as path,
            open(path, "wb") as file,
        ):
            for queue, pieces in self._entries.items():
                queues[queue] = []
                for run in self._runs[queue]:
                    _join(queues[queue], SpooledRun(self._part, at, run))
                    at += run.count * ENTRY_SIZE
                file.writelines(pieces)
        items = np.concatenate(self._items) if self._items else np.empty(0, ITEMS)
        with written_whole(folder, items_path(folder, self._part)) as path:
            items.tofile(path)
        return SpooledPart(self._part, self._records, len(items), queues, bad)


def _join(runs: list[SpooledRun], later: SpooledRun) -> None:
    """Append a run; it becomes part of the last one if it continues that."""
    last = runs[-1] if runs else None
    if last is None or last.run.next != later.run.first:
        runs.append(later)
        return
    whole = Run(last.run.first, last.run.count + later.run.count, last.run.begin, later.run.end)
    runs[-1] = SpooledRun(last.part, last.at, whole)


def read_items(folder: str, counts: Sequence[int], first: int, count: int) -> npt.NDArray[Any]:
    """Index items number `first` to `first` + `count` of the whole log; counts: items of each part."""
    pieces = [np.empty(0, ITEMS)]
    for part, size in enumerate(counts):
        begin, end = max(first, 0), min(first + count, size)
        if begin < end:
            path = items_path(folder, part)
            pieces.append(np.fromfile(path, ITEMS, end - begin, offset=begin * ITEMS.itemsize))
        first -= size
    return np.concatenate(pieces)
