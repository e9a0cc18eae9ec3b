"""Which entries a rebuilt consume queue has and where they go, from the runs of queue offsets in the log.

Entry i names the record with queue offset i, at byte 20*i of the queue's stream. Usually a queue is one run that
starts at 0. All other cases are treated as a running broker does:

- a queue whose first record isn't offset 0 (the log begins in mid-stream) starts in the file that offset lies in,
  with blank entries up to it;
- an offset that doesn't follow its predecessor leaves blank entries between them, so that entry i stays that of
  offset i (RocketMQ puts the entry after the last one whatever its offset, and consumers then get the wrong
  messages); a jump of more than GAP_LIMIT isn't a gap but a foreign record, which gets no entry;
- an offset that's there already is skipped: the first record keeps it;
- offset 0 again means that the topic was deleted and created again: the queue begins with that;
- records below the end at which a queue of this name was deleted have no entry any more (`undeleted`);
- a queue whose records have all expired is kept: it says which queue offset comes next (`expired_entries`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hatwisted.logcodec.queueentry import (
    BLANK_RECORD_SIZE,
    ENTRY,
    ENTRY_SIZE,
    GAP_LIMIT,
    count_in_use,
)
from hatwisted.logcodec.queueruns import QueueName, Run
from hatwisted.wire.storedrecord import Record


@dataclass(frozen=True, slots=True)
class EntryRange:
    """`count` entries of run number `run` from its `skip`th on go to index `index`; run -1: blank entries, which
    name `physical` (the end of the record before them, 0 if there is none)."""

    index: int
    count: int
    run: int
    skip: int = 0
    physical: int = 0


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """A queue's ranges, without gaps between them; refused: records that get no entry."""

    ranges: tuple[EntryRange, ...]
    refused: int

    @property
    def entries(self) -> int:
        """How many name a record."""
        return sum(each.count for each in self.ranges if each.run >= 0)


def plan_queue(runs: Sequence[Run], file_size: int) -> QueuePlan:
    """runs: in log order; file_size: bytes of a queue file, which a queue that starts in mid-stream starts at."""
    ranges: list[EntryRange] = []
    end = reached = refused = 0
    for number, run in enumerate(runs):
        skip = 0
        if run.first == 0 and ranges:
            ranges, end = [], 0
        elif run.first < end:
            skip = min(run.count, end - run.first)
            refused += skip
        elif ranges and run.first - end > GAP_LIMIT:
            refused += run.count
            continue
        elif run.first > end:
            begin = end if ranges else run.first - run.first % (file_size // ENTRY_SIZE)
            if run.first > begin:
                ranges.append(EntryRange(begin, run.first - begin, -1, 0, reached))
        if run.count > skip:
            ranges.append(EntryRange(run.first + skip, run.count - skip, number, skip))
            end, reached = run.next, run.end
    return QueuePlan(tuple(ranges), refused)


def undeleted(run: Run, entries: bytes, deleted_end: int) -> tuple[Run, bytes]:
    """What is left of a run whose queue was deleted.

    - run: of the queue
    - entries: its bytes
    - deleted_end: log offset after the deleted queue's last record
    """
    if run.begin >= deleted_end:
        return run, entries
    columns = np.frombuffer(entries, ENTRY)
    ends = columns["physical"].astype(np.int64) + columns["size"]
    gone = int(np.searchsorted(ends, deleted_end, "right"))
    begin = int(columns["physical"][gone]) if gone < run.count else run.end
    return Run(run.first + gone, run.count - gone, begin, run.end), entries[gone * ENTRY_SIZE :]


class ExpiredEntries(NamedTuple):
    """Of one file of a queue without records in the log: how many of its entries stay, the end (log offset) of
    the last record they name (0: none), and whether there are others after them."""

    entries: int
    floor: int
    others: bool


def expired_entries(file: bytes, floor: int, log_begin: int) -> ExpiredEntries:
    """The entries that name expired records, below the log's start. What a queue says about the log that is there
    can't be true when the log has no records of it.

    - file: bytes of one of the queue's files
    - floor: end (log offset) of the last record that the file before names, 0 for the first file
    - log_begin: the log's first offset
    """
    in_use, _ = count_in_use(file, floor)
    entries = np.frombuffer(file, ENTRY, in_use)
    sizes = entries["size"].astype(np.int64)
    ends = entries["physical"] + np.where(sizes == BLANK_RECORD_SIZE, 0, sizes)
    count = int(np.searchsorted(ends, log_begin, "right"))
    last = int(ends[count - 1]) if count else floor
    return ExpiredEntries(count, last, count < in_use)


class PlannedQueues:
    """Evidence for `logwalk` while queues are planned: which places of queues the records met so far hold.

    ranges: the runs of each range of the log by queue; may grow meanwhile.
    """

    def __init__(self, ranges: Collection[Mapping[QueueName, Sequence[Run]]]) -> None:
        self._ranges = ranges

    def was_cut_before(self, record: Record, end: int, last_timestamp: int) -> bool:
        """See Evidence: does a record before `end` hold this one's place, or is this one older than the last
        of these?"""
        queue = record.topic, record.queue_id
        runs = (run for each in self._ranges for run in each.get(queue, ()))
        if any(run.first <= record.queue_offset < run.next for run in runs):
            return True
        return 0 < record.store_timestamp < last_timestamp

    def reaches_over(self, offset: int) -> bool:
        """See Evidence: the runs end where the walk is."""
        return False
