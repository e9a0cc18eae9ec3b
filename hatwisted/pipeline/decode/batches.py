"""Records to record batches: conditions first, then only the columns wanted, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from hatwisted.logcodec.scan import Records
from hatwisted.pipeline.decode.arrowschema import COLUMNS, check_columns
from hatwisted.pipeline.decode.columns import Columns
from hatwisted.pipeline.decode.conditions import Condition, Filter

BATCH_ROWS: Final = 16_384
"""Rows of a batch, at most: some megabytes of small messages, which suits the users of a reader
best."""

_EARLY: Final = frozenset(
    {
        *(
            "topic",
            "queue_id",
            "queue_offset",
            "physical_offset",
            "size",
            "store_timestamp",
            "born_timestamp",
        ),
        *("flag", "sys_flag", "reconsume_times", "transaction", "prepared_transaction_offset"),
        *("body_crc", "broker", "file"),
    }
)
"""Columns that cost next to nothing: conditions on them decide whether the others are built."""

BadRecord = Callable[[int, int, str], None]
"""Called with a record that can't become a row: its physical offset, that of its end, and why."""


class BatchBuilder:
    """Makes batches from the records of one broker.

    - broker: its name, for the column
    - columns: which; None: all
    - where: conditions that rows must meet
    - rows: of a batch at most
    """

    def __init__(
        self,
        broker: str,
        columns: Sequence[str] | None = None,
        where: Sequence[Condition] = (),
        rows: int = BATCH_ROWS,
    ) -> None:
        self.columns = COLUMNS if columns is None else check_columns(columns)
        self._broker = broker
        self._filter = Filter(where)
        self._early = tuple(name for name in self._filter.columns if name in _EARLY)
        self._late = tuple(name for name in self._filter.columns if name not in _EARLY)
        self._rows = rows

    def batches(self, records: Records, file: str, bad: BadRecord) -> Iterator[pa.RecordBatch]:
        """The records' batches, none of them empty.

        - records: whole ones
        - file: where they lie, for the column
        - bad: called for a body that can't be decompressed
        """
        records = self._filtered(records, file, self._early)
        start = 0
        while start < len(records):
            part = records.take(slice(start, start + self._rows))
            start += len(part)
            part = self._filtered(part, file, self._late)
            while len(part):
                columns = Columns(part, self._broker, file)
                done = len(columns.bodies.values) if "body" in self.columns else len(part)
                if done < len(part):
                    columns = columns.head(done)
                yield from self._built(columns, bad)
                part = part.take(slice(done, None))

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows from another origin that meet the conditions, as a batch of the columns; `batch` has all
        columns."""
        mask = self._filter.mask({name: batch.column(name) for name in self._filter.columns})
        return (batch if mask is None else batch.filter(mask)).select(list(self.columns))

    def _filtered(self, records: Records, file: str, names: Sequence[str]) -> Records:
        if not names or not len(records):
            return records
        columns = Columns(records, self._broker, file)
        mask = self._filter.mask({name: columns.array(name) for name in names})
        rows = (
            np.flatnonzero(mask.to_numpy(zero_copy_only=False)) if mask is not None else range(len(records))
        )
        return records if len(rows) == len(records) else records.take(np.asarray(rows))

    def _built(self, columns: Columns, bad: BadRecord) -> Iterator[pa.RecordBatch]:
        if "body" in self.columns and (broken := columns.bodies.bad):
            begins, sizes = columns.records.physical_offsets, columns.records.sizes
            for row, reason in broken.items():
                bad(int(begins[row]), int(begins[row] + sizes[row]), reason)
            columns = columns.without(list(broken))
        if len(columns.records):
            yield columns.batch(self.columns)
