"""Log files into record batches: one split, or whole stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.decode.storefolder import Split

Mode = Literal["failfast", "skip-and-report", "permissive"]
BATCH_ROWS: Final = 16_384


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [begin, end) (physical offsets) of a broker's log file that aren't records, and why."""

    broker: str
    file: str
    begin: int
    end: int
    reason: str


def read_split(
    split: Split,
    columns: Sequence[str] | None = None,
    *,
    where: Sequence[Condition] = (),
    mode: Mode = "failfast",
    damages: Callable[[Damage], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """The records that start in the split, in log order."""
    raise NotImplementedError


def read_arrow(
    paths: Sequence[str] | str,
    columns: Sequence[str] | None = None,
    where: Sequence[Condition] = (),
    mode: Mode = "failfast",
    begin: int | None = None,
    end: int | None = None,
) -> pa.RecordBatchReader:
    """Stores as one stream of record batches, one store after the other."""
    raise NotImplementedError
