"""Consume queues against the log: has every record its entry, and every entry its record?

The log is the truth. Scanned records are grouped by queue, and each group is compared with one read of that
queue's entries, column by column. What lies outside of the compared range is looked at once at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hatwisted.cli.log.findings import Findings
from hatwisted.logcodec.dispatchscan import DispatchColumns
from hatwisted.logcodec.octets import Longs
from hatwisted.logcodec.queueentry import ENTRY, ENTRY_SIZE, place
from hatwisted.logcodec.queueruns import queue_entries
from hatwisted.logcodec.scan import Records
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire import layout


class QueueComparison:
    """Feed it every scan of the log in order, then call `finish`.

    table: loaded and recovered, read-only; None compares nothing but the order of the queue offsets.
    """

    def __init__(self, table: ConsumeQueueTable | None, findings: Findings) -> None:
        self._table = table
        self._findings = findings
        self._bounds: dict[tuple[str, int], tuple[int, int]] = {}
        self.entries = 0
        """Entries compared."""

    def __len__(self) -> int:
        """Queues that the log has records of."""
        return len(self._bounds)

    def take(self, scan: Records, columns: DispatchColumns) -> None:
        """Compare the entries of these records."""
        kinds = scan.sys_flags & layout.SYS_TRANSACTION_MASK
        dispatched = (kinds == layout.SYS_TRANSACTION_NONE) | (kinds == layout.SYS_TRANSACTION_COMMIT)
        for rows in _groups(scan, np.flatnonzero(dispatched)):
            topic, queue_id = scan.topics[scan.topic_rows[rows[0]]], int(scan.queue_ids[rows[0]])
            if self._table is not None:
                rows = rows[scan.physical_offsets[rows] >= self._table.deleted.reached(topic, queue_id)]
                if not len(rows):
                    continue
            indexes = scan.queue_offsets[rows]
            self._check_order(topic, queue_id, indexes, scan.physical_offsets[rows])
            if self._table is not None:
                self._compare(topic, queue_id, indexes, queue_entries(scan, rows, columns.tags_codes))

    def _check_order(self, topic: str, queue_id: int, indexes: Longs, physical: Longs) -> None:
        """Queue offsets rise one by one along the log."""
        first, expected = self._bounds.get((topic, queue_id), (int(indexes[0]), int(indexes[0])))
        steps = np.diff(indexes, prepend=expected - 1)
        for row in np.flatnonzero(steps != 1).tolist():
            before, here = int(indexes[row] - steps[row]), int(indexes[row])
            where = f"{topic}/{queue_id}: queue offset {here} at log offset {physical[row]} follows {before}"
            if here > before:
                self._findings.add("queue offsets without a record in the log", where, here - before - 1)
            else:
                self._findings.add("queue offsets out of order in the log", where)
        self._bounds[topic, queue_id] = min(first, int(indexes.min())), int(indexes.max()) + 1

    def _compare(self, topic: str, queue_id: int, indexes: Longs, wanted: npt.NDArray[Any]) -> None:
        first = int(indexes.min())
        found = self._entries(topic, queue_id, first, int(indexes.max()) + 1 - first)
        at = indexes - first
        there = at < len(found)
        self.entries += int(np.count_nonzero(there))
        if not there.all():
            row = int(np.argmin(there))
            self._findings.add(
                "records without a queue entry",
                f"{topic}/{queue_id}[{indexes[row]}] for log offset {wanted['physical'][row]}",
                int(np.count_nonzero(~there)),
            )
        found, wanted, indexes = found[at[there]], wanted[there], indexes[there]
        same = (found["physical"] == wanted["physical"]) & (found["size"] == wanted["size"])
        if topic != layout.SCHEDULE_TOPIC:  # there it's the due time, which depends on the broker's settings
            same &= found["tags"] == wanted["tags"]
        if not same.all():
            row = int(np.argmin(same))
            where = f"{topic}/{queue_id}[{indexes[row]}]"
            self._findings.add(
                "queue entries that differ from the log",
                f"{where} is {found[row].tolist()}, by the log {wanted[row].tolist()}",
                int(np.count_nonzero(~same)),
            )

    def _entries(self, topic: str, queue_id: int, index: int, count: int) -> npt.NDArray[Any]:
        """Up to `count` entries from `index`; none if the queue doesn't exist or begins after it."""
        queue = self._table.find(topic, queue_id) if self._table is not None else None
        return np.frombuffer(queue.read(index, count) if queue is not None else b"", ENTRY)

    def finish(self, log_min: int, log_end: int) -> None:
        """Look at the entries that no record was compared with."""
        for queue in self._table or ():
            name = f"{queue.topic}/{queue.queue_id}"
            first, end = self._bounds.get((queue.topic, queue.queue_id), (queue.max_offset, queue.max_offset))
            if queue.max_offset > end:
                physical, _ = place(queue.read(end, 1))
                self._findings.add(
                    "queue entries without a record in the log",
                    f"{name}[{end}] names log offset {physical}; the log ends at {log_end}",
                    queue.max_offset - end,
                )
            before = queue.read(first - 1, 1) if first > queue.min_offset else b""
            if len(before) == ENTRY_SIZE and place(before)[0] >= log_min:
                self._findings.add(
                    "queue entries without a record in the log",
                    f"{name}[{first - 1}] names log offset {place(before)[0]}; the log begins at {log_min}",
                )


def _groups(scan: Records, rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """The rows of each queue, in log order."""
    if not len(rows):
        return
    order = np.lexsort((rows, scan.queue_ids[rows], scan.topic_rows[rows]))
    rows = rows[order]
    topics, queues = scan.topic_rows[rows], scan.queue_ids[rows]
    starts = np.flatnonzero((np.diff(topics) != 0) | (np.diff(queues) != 0)) + 1
    pieces: Sequence[npt.NDArray[Any]] = np.split(rows, starts)
    yield from pieces
