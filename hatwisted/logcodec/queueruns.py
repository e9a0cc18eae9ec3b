"""Runs of consecutive queue offsets: what a range of the log says about its topics' queues.

Records of one queue carry consecutive queue offsets, so a range of any length is mostly one run per queue.
Runs of adjacent ranges join; where two don't, messages are missing, or the topic was deleted and
created again. Both the audit (which reports such breaks) and the rebuild of queues (which places entries by
them) use them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.queueentry import ENTRY
from hatwisted.logcodec.scan import Records
from hatwisted.wire import layout

QueueName = tuple[str, int]
"""Topic and queue id."""


@dataclass(frozen=True, slots=True)
class Run:
    """`count` records of one queue, in log order, with queue offsets from `first` on.

    begin, end: physical offset of the first record, and after the last one.
    """

    first: int
    count: int
    begin: int
    end: int

    @property
    def next(self) -> int:
        """The queue offset that should come next."""
        return self.first + self.count


class QueueRows(NamedTuple):
    """The records of a scan that have a place in a queue, sorted by queue, in log order within each.

    rows: indices into the scan; each run is of rows[start : start + run.count].
    """

    rows: npt.NDArray[Any]
    runs: list[tuple[QueueName, int, Run]]


def sorted_by_queue(scan: Records) -> tuple[npt.NDArray[Any], list[int]]:
    """Rows of the records that have a place in a queue, by queue and in log order within each; and where among
    them a run begins."""
    unqueued = scan.sys_flags & layout.SYS_UNQUEUED
    rows = np.flatnonzero(unqueued == 0) if unqueued.any() else np.arange(len(scan))
    if not len(rows):
        return rows, []
    codes = queue_codes(scan)[rows]
    if int(codes.min()) != int(codes.max()):
        order = codes.argsort(kind="stable")
        rows, codes = rows[order], codes[order]
    indexes = scan.queue_offsets[rows]
    cuts = ((codes[1:] != codes[:-1]) | (indexes[1:] != indexes[:-1] + 1)).nonzero()[0] + 1
    return rows, [0, *cuts.tolist()]


def queue_rows(scan: Records) -> QueueRows:
    """The runs of a scan as (queue, start among the rows, run)."""
    rows, starts = sorted_by_queue(scan)
    if not len(rows):
        return QueueRows(rows, [])
    lengths = np.diff([*starts, len(rows)]).tolist()
    heads, tails = rows[starts], rows[np.add(starts, lengths) - 1]
    begins = scan.physical_offsets[heads].tolist()
    ends = (scan.physical_offsets[tails] + scan.sizes[tails]).tolist()
    topics = [scan.topics[row] for row in scan.topic_rows[heads].tolist()]
    names = zip(topics, scan.queue_ids[heads].tolist(), strict=True)
    firsts = scan.queue_offsets[heads].tolist()
    runs = map(Run, firsts, lengths, begins, ends)
    return QueueRows(rows, list(zip(names, starts, runs, strict=True)))


def queue_codes(scan: Records) -> npt.NDArray[Any]:
    """A number per record that tells queues apart; 16 bits if that's enough, which sorts in linear time."""
    lowest, highest = int(scan.queue_ids.min()), int(scan.queue_ids.max())
    span = highest - lowest + 1
    codes = scan.topic_rows * span + (scan.queue_ids - lowest)
    return codes.astype(np.uint16) if len(scan.topics) * span <= 1 << 16 else codes


def queue_entries(scan: Records, rows: npt.NDArray[Any], tags_codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """ENTRY[k]: queue entries.

    - scan: the records
    - rows: of which of them, k indices
    - tags_codes: of all records
    """
    entries = np.empty(len(rows), ENTRY)
    entries["physical"] = scan.physical_offsets[rows]
    entries["size"] = scan.sizes[rows]
    entries["tags"] = tags_codes[rows]
    return entries


class QueueRuns:
    """The runs of all queues of a stretch that grows at its end."""

    def __init__(self) -> None:
        self.by_queue: dict[QueueName, list[Run]] = {}

    def add(self, queue: QueueName, run: Run) -> None:
        """The next run of a queue; it joins the last one if it continues it."""
        runs = self.by_queue.setdefault(queue, [])
        if runs and runs[-1].next == run.first:
            last = runs[-1]
            runs[-1] = replace(last, count=last.count + run.count, end=run.end)
        else:
            runs.append(run)

    def add_scan(self, scan: Records) -> None:
        """All runs of a scan."""
        for queue, _, run in queue_rows(scan).runs:
            self.add(queue, run)

    def add_all(self, later: QueueRuns) -> None:
        """All runs of the stretch that follows this one."""
        for queue, runs in later.by_queue.items():
            for run in runs:
                self.add(queue, run)

    @classmethod
    def joined(cls, stretches: Iterable[QueueRuns]) -> QueueRuns:
        """The runs of stretches that follow one another."""
        whole = cls()
        for stretch in stretches:
            whole.add_all(stretch)
        return whole
