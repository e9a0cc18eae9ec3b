"""A batch of messages gets a column per schema; rows that don't fit are told apart, and have null there.

Every row stays in the batch: the table is the whole log, whatever the schemas say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.schemas.topicschemas import TopicSchema
from hatwisted.pipeline.schemas.values import CHECKSUM, WRONG_VALUE, BodyDecoder, Misfit

NEEDED: Final = ("topic", "body", "body_crc_ok")
"""Columns of the log by which a batch is decoded."""
WHY: Final = pa.schema([("reason", pa.string()), ("detail", pa.string()), ("value_schema", pa.string())])
"""What is known about a row that doesn't fit."""
DETAIL_CHARACTERS: Final = 500
FIRST_TIME: Final = (datetime.min - datetime(1970, 1, 1)) // timedelta(microseconds=1)
LAST_TIME: Final = (datetime.max - datetime(1970, 1, 1)) // timedelta(microseconds=1)
"""In microseconds since 1970."""


@dataclass
class Misfits:
    """Rows of a batch that don't fit, in its order, and why."""

    rows: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)

    def add(self, row: int, misfit: Misfit, schema: str) -> None:
        """One more.

        - row: its number in the batch
        - misfit: why
        - schema: which one it doesn't fit
        """
        self.rows.append(row)
        self.reasons.append(misfit.reason)
        self.details.append(str(misfit)[:DETAIL_CHARACTERS].encode(errors="replace").decode())
        self.schemas.append(schema)

    def counts(self) -> Counter[str]:
        return Counter(self.reasons)

    def of(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """The rows themselves, with WHY.

        - batch: that they were found in
        - names: its columns to keep
        """
        kept = batch.select(list(names)).take(pa.array(self.rows, pa.int64()))
        why = (self.reasons, self.details, self.schemas)
        for item, values in zip(WHY, why, strict=True):
            kept = kept.append_column(item, pa.array(values, item.type))
        return kept


class TypedColumns:
    """The columns of some schemas.

    - schemas: what is declared
    - table: the table's columns, which may have more fields than a schema, or not exist yet
    """

    def __init__(self, schemas: Sequence[TopicSchema], table: pa.Schema | None = None) -> None:
        self._topics = [_Topic(schema, table) for schema in schemas]

    @property
    def fields(self) -> list[pa.Field]:
        return [pa.field(topic.schema.column, topic.type) for topic in self._topics]

    def apply(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Misfits]:
        """The batch with its columns, and which rows don't fit. batch: has NEEDED."""
        misfits = Misfits()
        columns = [topic.column(batch, misfits) for topic in self._topics]
        for item, column in zip(self.fields, columns, strict=True):
            batch = batch.append_column(item, column)
        return batch, misfits


class _Topic:
    """One topic's column."""

    def __init__(self, schema: TopicSchema, table: pa.Schema | None) -> None:
        self.schema = schema
        self._decoder: BodyDecoder = schema.decoder()
        self.type: pa.DataType = self._decoder.type
        if table is not None and schema.column in table.names:
            self.type = table.field(schema.column).type

    def column(self, batch: pa.RecordBatch, misfits: Misfits) -> pa.Array:
        mine = pc.fill_null(pc.equal(batch.column("topic"), self.schema.topic), False)
        rows = np.flatnonzero(mine.to_numpy(zero_copy_only=False))
        if not len(rows):
            return pa.nulls(batch.num_rows, self.type)
        chosen = batch.select(list(NEEDED)).take(pa.array(rows))
        values: list[Mapping[str, Any] | None] = []
        for row, body, whole in zip(
            rows.tolist(),
            chosen.column("body").to_pylist(),
            chosen.column("body_crc_ok").to_pylist(),
            strict=True,
        ):
            values.append(self._value(row, body, whole, misfits))
        places = np.full(batch.num_rows, -1, np.int64)
        places[rows] = np.arange(len(rows))
        return self._array(values, rows.tolist(), misfits).take(pa.array(places, mask=places < 0))

    def _value(
        self, row: int, body: bytes | None, whole: bool | None, misfits: Misfits
    ) -> Mapping[str, Any] | None:
        try:
            if whole is False:
                raise Misfit(CHECKSUM, "the stored body's checksum is wrong")
            return self._decoder.decode(body or b"")
        except Misfit as misfit:
            misfits.add(row, misfit, self.schema.digest)
            return None

    def _array(self, values: list[Mapping[str, Any] | None], rows: list[int], misfits: Misfits) -> pa.Array:
        try:
            return _made(values, self.type)
        except _UNFIT:
            return self._one_by_one(values, rows, misfits)

    def _one_by_one(
        self, values: list[Mapping[str, Any] | None], rows: list[int], misfits: Misfits
    ) -> pa.Array:
        """Which of the values is it that the column's type can't hold?"""
        for number, value in enumerate(values):
            try:
                _made([value], self.type)
            except _UNFIT as error:
                values[number] = None
                misfits.add(
                    rows[number], Misfit(WRONG_VALUE, " ".join(str(error).split())), self.schema.digest
                )
        return pa.array(values, self.type)


def _made(values: list[Mapping[str, Any] | None], kind: pa.DataType) -> pa.Array:
    """The column; one of _UNFIT if the type, or those who read tables, can't hold a value."""
    made = pa.array(values, kind)
    _check_times(made)
    return made


def _check_times(column: pa.Array) -> None:
    """A zone's offset leads out of the years 1 to 9999, which are all that readers have; raises OverflowError."""
    if pa.types.is_struct(column.type):
        for part in column.flatten():
            _check_times(part)
    elif pa.types.is_map(column.type):
        _check_times(column.items)
    elif pa.types.is_list(column.type):
        _check_times(column.values)
    elif pa.types.is_timestamp(column.type):
        found = pc.min_max(column.cast(pa.int64())).as_py()
        if found["min"] is not None and not FIRST_TIME <= found["min"] <= found["max"] <= LAST_TIME:
            raise OverflowError("a time is outside of the years 1 to 9999 in UTC")


_UNFIT: Final = (pa.ArrowException, OverflowError, ValueError, TypeError)
"""What pyarrow raises for a value that a type can't hold; UnicodeError is a ValueError."""
