"""Dead letters looked at, and landed after all once their schema is mended.

The table has their rows already, with null in the column. So those that fit now get their value there first, and
then leave the table beside: killed in between, the next run gives them the same value again. Both are commits
which readers and landings bear (deltaletters.py, icebergletters.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.delta.fulldisk import telling_full
from hatwisted.pipeline.iceberg.catalogs import is_iceberg
from hatwisted.pipeline.jobs.land.deltaletters import PLACE, DeltaLetters
from hatwisted.pipeline.schemas.topicschemas import TopicSchema, check_schemas
from hatwisted.pipeline.schemas.typedcolumns import TypedColumns
from hatwisted.pipeline.schemas.values import CHECKSUM

SHOWN: Final = 10
"""Of each topic and reason, letters that are told one by one."""
BATCH_ROWS: Final = 65_536
"""Letters that are decoded at a time; with their bodies they are held in memory."""


class Letters(Protocol):
    """A table, and that of its dead letters."""

    @property
    def name(self) -> str:
        """The table's, as it's told."""

    def settle(self) -> bool:
        """Make up for what a killed landing has left to do; is there a table of dead letters?"""

    def widen(self, column: pa.Field) -> pa.Schema:
        """The columns of the table, with this one as wide as it needs to be."""

    def read(self, columns: Sequence[str], topic: str | None, rows: int) -> Iterator[pa.RecordBatch]:
        """The dead letters that there are when this is called.

        - columns: theirs
        - topic: whose; None: all
        - rows: so many at a time at most
        """

    def give(self, topic: str, rows: pa.Table) -> None:
        """Rows of the table get values. rows: PLACE, and the values' column."""

    def take(self, topic: str, rows: pa.Table) -> None:
        """Dead letters leave the table beside. rows: PLACE."""


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """One of them."""

    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    reason: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class DeadLetterResult:
    """`landed`: rows that fit now, and got their value; `left` by topic and reason, with a few of each."""

    table: str
    landed: int
    left: Mapping[str, Mapping[str, int]]
    letters: tuple[DeadLetter, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def dead_letters(table: str, schemas: Sequence[TopicSchema] = ()) -> DeadLetterResult:
    """What a table's dead letters are; those that fit a mended schema land first.

    - table: folder of the table into which they were landed, its address at an object store, or
      `iceberg:CATALOG.NAMESPACE.TABLE`
    - schemas: the mended ones

    Raises PipelineError: WrongTable, WrongSchema naming the column, BadSchema, NoRoom.
    """
    check_schemas(schemas)
    letters = _letters(table)
    with telling_full(letters.name):
        if not letters.settle():
            return DeadLetterResult(table=letters.name, landed=0, left={}, letters=())
        landed = sum(_land(letters, schema) for schema in schemas)
    left, shown = _left(letters)
    return DeadLetterResult(table=letters.name, landed=landed, left=left, letters=shown)


def _letters(table: str) -> Letters:
    if not is_iceberg(table):
        return DeltaLetters.of(table)
    from hatwisted.pipeline.jobs.land.icebergletters import IcebergLetters

    return IcebergLetters.of(table)


def _land(letters: Letters, schema: TopicSchema) -> int:
    """Those of one topic."""
    (column,) = TypedColumns([schema]).fields
    typed, landed = TypedColumns([schema], letters.widen(column)), 0
    for batch in letters.read(["topic", *PLACE, "body", "reason"], schema.topic, BATCH_ROWS):
        fit = _fit(typed, batch, schema)
        if fit.num_rows:
            letters.give(schema.topic, fit)
            letters.take(schema.topic, fit.select(list(PLACE)))
            landed += fit.num_rows
    return landed


def _fit(typed: TypedColumns, batch: pa.RecordBatch, schema: TopicSchema) -> pa.Table:
    """Places and values of those that fit."""
    whole = pc.not_equal(batch.column("reason"), CHECKSUM)
    topic = pa.array([schema.topic] * batch.num_rows, pa.string())
    letters = pa.record_batch(
        [topic, *(batch.column(name) for name in PLACE), batch.column("body").cast(pa.binary()), whole],
        names=["topic", *PLACE, "body", "body_crc_ok"],
    )
    values, misfits = typed.apply(letters)
    fits = pa.array([True] * batch.num_rows).to_numpy(zero_copy_only=False).copy()
    fits[misfits.rows] = False
    return pa.Table.from_batches([values.select([*PLACE, schema.column])]).filter(pa.array(fits))


def _left(source: Letters) -> tuple[dict[str, dict[str, int]], tuple[DeadLetter, ...]]:
    counts: dict[str, Counter[str]] = {}
    letters: list[DeadLetter] = []
    names = [*DeadLetter.__dataclass_fields__]
    for batch in source.read(names, None, BATCH_ROWS):
        for row in batch.to_pylist():
            of_topic = counts.setdefault(row["topic"], Counter())
            of_topic[row["reason"]] += 1
            if of_topic[row["reason"]] <= SHOWN:
                letters.append(DeadLetter(**row))
    left = {topic: dict(sorted(counts[topic].items())) for topic in sorted(counts)}
    return left, tuple(sorted(letters, key=lambda each: (each.topic, each.reason, each.physical_offset)))
