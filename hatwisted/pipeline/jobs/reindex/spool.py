"""What one part of the log means to queues and index, kept on disk until every part has been read.

Where an entry goes is known only when all parts before it are: whether its queue already has that index, in which
index file an item's number falls. So the first pass over the log writes entries and items to two files per part
and returns where they are; the second builds queue and index files from those, which together are a fiftieth of
the log. (Rejected: having the first pass write entries straight to their place, which can't handle a topic
that was deleted and created again; and shuffling them through Spark, which sorts what is sorted already.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import join
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.logwalk import Damage
from hatwisted.logcodec.queueentry import ENTRY_SIZE
from hatwisted.logcodec.queueruns import QueueName, Run
from hatwisted.logcodec.rangedispatch import ITEMS, DispatchOptions, RangeDispatch
from hatwisted.pipeline.jobs.rangewalk import Filler, WalkedLog, edge, walk_range


@dataclass(frozen=True, slots=True)
class SpooledRun:
    """A run whose entries lie in the file of part `part`, from byte `at` on."""

    part: int
    at: int
    run: Run


@dataclass(frozen=True, slots=True)
class SpooledPart:
    """What part number `part` has spooled. records: met; items: index items; queues: runs in log order;
    damages: the ranges without a valid record."""

    part: int
    records: int
    items: int
    queues: dict[QueueName, list[SpooledRun]]
    damages: tuple[Damage, ...]


def entries_path(folder: str, part: int) -> str:
    """Where a part's queue entries are."""
    return join(folder, f"entries-{part:06d}")


def items_path(folder: str, part: int) -> str:
    """Where a part's index items are."""
    return join(folder, f"items-{part:06d}")


@contextmanager
def written_whole(folder: str, path: str) -> Iterator[str]:
    """A name in `folder` to write to; the file gets its path when it's complete. Spark may run a task twice,
    even at the same time, and kill the slower one."""
    temporary = join(folder, uuid4().hex)
    yield temporary
    os.replace(temporary, path)


def spool_part(
    log: WalkedLog,
    part: int,
    cuts: tuple[int, int, int],
    folder: str,
    options: DispatchOptions,
    *,
    check_crc: bool = False,
) -> SpooledPart:
    """Read a part and write its two files. Running it again writes the same again.

    - log: which
    - part: its number
    - cuts: where it begins and ends, and the log's end
    - folder: for the files
    - options: what is dispatched
    - check_crc: of bodies
    """
    dispatch = RangeDispatch(options)
    begin, end = (edge(log, cut, cuts[2]) for cut in cuts[:2])
    damages: list[Damage] = []
    for step in walk_range(log, begin, end, check_crc=check_crc):
        if step.records is not None:
            dispatch.add(step.records)
        elif step.filler is not Filler.BLANK and step.begin == step.start:
            damages.append(Damage(step.begin, step.end, step.reason))
        elif step.filler is not Filler.BLANK:
            damages[-1] = damages[-1]._replace(resumes_at=step.end)
    return save_part(dispatch, part, folder, damages)


def save_part(dispatch: RangeDispatch, part: int, folder: str, damages: Sequence[Damage] = ()) -> SpooledPart:
    """Write the files of a part.

    - dispatch: what it holds
    - part: its number
    - folder: for the files
    - damages: met in it
    """
    queues: dict[QueueName, list[SpooledRun]] = {}
    at = 0
    with (
        written_whole(folder, entries_path(folder, part)) as path,
        open(path, "wb") as file,
    ):
        for queue, pieces in dispatch.entries.items():
            queues[queue] = []
            for run in dispatch.runs[queue]:
                _join(queues[queue], SpooledRun(part, at, run))
                at += run.count * ENTRY_SIZE
            file.writelines(pieces)
    items = dispatch.items()
    with written_whole(folder, items_path(folder, part)) as path:
        items.tofile(path)
    return SpooledPart(part, dispatch.records, len(items), queues, tuple(damages))


def _join(runs: list[SpooledRun], later: SpooledRun) -> None:
    """Append a run; it becomes part of the last one if it continues that."""
    last = runs[-1] if runs else None
    if last is None or last.run.next != later.run.first:
        runs.append(later)
        return
    whole = Run(last.run.first, last.run.count + later.run.count, last.run.begin, later.run.end)
    runs[-1] = SpooledRun(last.part, last.at, whole)


def read_items(folder: str, counts: Sequence[int], first: int, count: int) -> npt.NDArray[Any]:
    """Index items of the whole log, by number.

    - folder: of the files
    - counts: items of each part
    - first: number of the first
    - count: how many
    """
    pieces = [np.empty(0, ITEMS)]
    for part, size in enumerate(counts):
        begin, end = max(first, 0), min(first + count, size)
        if begin < end:
            path = items_path(folder, part)
            pieces.append(np.fromfile(path, ITEMS, end - begin, offset=begin * ITEMS.itemsize))
        first -= size
    return np.concatenate(pieces)
