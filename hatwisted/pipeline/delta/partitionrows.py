"""Rows of a batch told apart by partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def grouped(
    batch: pa.RecordBatch, columns: Sequence[pa.Array]
) -> list[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """The rows of each combination of values in their order, with the values: one stable sort, and one gathering.

    - batch: the rows
    - columns: what they are told apart by, a value for each row
    """
    code = np.zeros(batch.num_rows, np.int64)
    choices: list[list[Any]] = []
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        values = encoded.dictionary.to_pylist()
        code = code * len(values) + encoded.indices.to_numpy(zero_copy_only=False)
        choices.append(values)
    present, counts = np.unique(code, return_counts=True)
    if len(present) > 1:
        batch = batch.take(pa.array(np.argsort(code, kind="stable")))
    begins = np.cumsum(counts) - counts
    return [
        (_decode(number, choices), batch.slice(begin, count))
        for number, begin, count in zip(present.tolist(), begins.tolist(), counts.tolist(), strict=True)
    ]


def _decode(number: int, choices: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Values of a code, the last column being the lowest digit."""
    values: list[Any] = []
    for column in reversed(choices):
        number, digit = divmod(number, len(column))
        values.append(column[digit])
    return tuple(reversed(values))
