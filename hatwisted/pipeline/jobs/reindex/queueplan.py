"""Where the entries of a consume queue go, from the runs of queue offsets that the log holds for it.

Entry i names the record with queue offset i, at byte 20*i of the queue's stream. Usually a queue is one run that
starts at 0. What else there is, and what becomes of it, is as in a running broker:

- a queue whose first record isn't offset 0 (the log begins in mid-stream) starts in the file that offset lies in,
  with blank entries up to it;
- an offset that doesn't follow its predecessor leaves blank entries between them, so that entry i stays that of
  offset i (RocketMQ puts the entry behind the last one whatever its offset, and consumers then get the wrong
  messages); a jump of more than GAP_LIMIT is no gap but a foreign record, which gets no entry;
- an offset that's there already is passed over: the first record keeps it;
- offset 0 again means that the topic was deleted and made anew: the queue begins with that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hatwisted.logcodec.queueentry import ENTRY_SIZE, GAP_LIMIT
from hatwisted.logcodec.queueruns import Run


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
    def end(self) -> int:
        """Index behind the last entry."""
        return self.ranges[-1].index + self.ranges[-1].count if self.ranges else 0

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
        if run.first < 0:
            refused += run.count
            continue
        if run.first == 0 and ranges:
            ranges, end = [], 0
        elif ranges and run.first < end:
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
