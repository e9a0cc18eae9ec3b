"""Building index files from spooled items: which item goes into which file follows from its number alone.

A file of N items takes N - 1, and the next one begins wherever the last was full. All that a file has to know of
the one before it is that one's last item, so files can be built at the same time; within a file, chains need
order, and get it from the store's own `IndexFile`, which links a batch by one sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from os.path import join
from typing import Final

from hatwisted.pipeline.jobs.reindex.spool import read_items, written_whole
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.index.indexfile import IndexFile, file_length, file_name_at

BATCH: Final = 1 << 17
"""Items linked at once: some 10 MB of scratch memory."""


@dataclass(frozen=True, slots=True)
class IndexWork:
    """An index file to be built: its name, and the numbers of its items among those of the whole log."""

    name: str
    first: int
    count: int


def plan_index(spool: str, counts: Sequence[int], items: int, now: float) -> list[IndexWork]:
    """The files for all items.

    - spool: folder of the first pass's files
    - counts: items of each part
    - items: of each file
    - now: seconds since the epoch

    A file is named by the store time of its first record, in local time: RocketMQ names it by when it makes
    it, which is hardly later, and orders files by their names. A record from the future names none: the files
    that a broker makes from now on must sort after it.
    """
    total, room, planned = sum(counts), items - 1, list[IndexWork]()
    for first in range(0, total, room):
        stored = int(read_items(spool, counts, first, 1)["timestamp"][0]) / 1000
        name = file_name_at(
            min(max(stored, 0.0), now), datetime.fromtimestamp, planned[-1].name if planned else ""
        )
        planned.append(IndexWork(name, first, min(room, total - first)))
    return planned


def write_index(
    work: IndexWork, folder: str, spool: str, counts: Sequence[int], slots: int, items: int
) -> None:
    """Build one file.

    - work: which
    - folder: where
    - spool: folder of the first pass's files
    - counts: items of each part
    - slots: of the file
    - items: room for items
    """
    with written_whole(spool, join(folder, work.name)) as path:
        _write(path, work, spool, counts, slots, items)


def _write(path: str, work: IndexWork, spool: str, counts: Sequence[int], slots: int, items: int) -> None:
    with closing(PosixFileSystem().open(path, create=True)) as file:
        file.reserve(file_length(slots, items))
        index = IndexFile(file, path, slots, items, reserved=True)
        if work.first:
            before = read_items(spool, counts, work.first - 1, 1)
            index.preset(int(before["timestamp"][0]), int(before["physical"][0]))
        for first in range(work.first, work.first + work.count, BATCH):
            size = min(BATCH, work.first + work.count - first)
            batch = read_items(spool, counts, first, size)
            index.append(batch["hash"], batch["physical"], batch["timestamp"])
        index.datasync()
        index.close()
