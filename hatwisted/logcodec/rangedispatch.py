"""What a range of the log means to queues and index: the entries of each queue and the items, in log order.

A running broker dispatches to existing queues. A rebuild reads the log first, in ranges, possibly many at once;
where an entry goes is known only once all ranges before it are (`queueplan`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.dispatchscan import dispatch_columns
from hatwisted.logcodec.queueentry import ENTRY_SIZE
from hatwisted.logcodec.queueplan import undeleted
from hatwisted.logcodec.queueruns import QueueName, Run, queue_entries, queue_rows
from hatwisted.logcodec.scan import Records

ITEMS: Final = np.dtype([("hash", "<i4"), ("physical", "<i8"), ("timestamp", "<i8")])
"""Index items: key hash as an index file stores it, physical offset, store timestamp (ms)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchOptions:
    """delay_levels: ms by level, from level 1 on; keys: are messages indexed; deleted: log offset by queue, below
    which no record belongs to a queue of this name any more."""

    delay_levels: tuple[int, ...]
    keys: bool = True
    deleted: Mapping[QueueName, int] = field(default_factory=dict)


class RangeDispatch:
    """A range that grows at its end. records: met; runs: by queue, in log order; entries: their bytes, a piece for
    each run."""

    def __init__(self, options: DispatchOptions) -> None:
        self._options = options
        self._items: list[npt.NDArray[Any]] = []
        self.records = 0
        self.runs: dict[QueueName, list[Run]] = {}
        self.entries: dict[QueueName, list[bytes]] = {}

    def add(self, scan: Records) -> None:
        """The next records."""
        self.records += len(scan)
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
        deleted = self._options.deleted
        for queue, start, run in runs:
            piece = blob[start * ENTRY_SIZE : (start + run.count) * ENTRY_SIZE]
            if queue in deleted:
                run, piece = undeleted(run, piece, deleted[queue])
            if piece:
                self.runs.setdefault(queue, []).append(run)
                self.entries.setdefault(queue, []).append(piece)

    def items(self) -> npt.NDArray[Any]:
        """ITEMS[n] in log order."""
        return np.concatenate(self._items) if self._items else np.empty(0, ITEMS)
