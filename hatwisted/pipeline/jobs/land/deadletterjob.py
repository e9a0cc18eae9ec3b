"""Dead letters looked at, and landed after all once their schema is mended.

The table has their rows already, with null in the column. So those that fit now get their value there first, and
then leave the table beside: killed in between, the next run gives them the same value again. Both are merges of
delta-rs, which readers and landings bear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from hatwisted.pipeline.delta.deadletters import dead_letter_table, settle
from hatwisted.pipeline.delta.deltatable import ATTEMPTS, is_table, open_table, prepare_table, table_rows
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.fulldisk import telling_full
from hatwisted.pipeline.delta.landedrows import PARTITION_BY, landed_schema
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.schemas.topicschemas import TopicSchema, check_schemas
from hatwisted.pipeline.schemas.typedcolumns import TypedColumns
from hatwisted.pipeline.schemas.values import CHECKSUM

SHOWN: Final = 10
"""Of each topic and reason, letters that are told one by one."""
PLACE: Final = ("broker", "physical_offset")
"""What a row is known by."""
BATCH_ROWS: Final = 65_536
"""Letters that are decoded at a time; with their bodies they are held in memory."""


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

    - table: folder of the table into which they were landed, or its address at an object store
    - schemas: the mended ones

    Raises PipelineError: WrongTable, WrongSchema naming the column, BadSchema, NoRoom.
    """
    check_schemas(schemas)
    path = table_path(table)
    if not is_table(path):
        raise WrongTable(f"{path}: there's no table; give the folder of a landed one")
    with telling_full(path):
        settle(path)
        if not is_table(dead_letter_table(path)):
            return DeadLetterResult(table=path, landed=0, left={}, letters=())
        landed = sum(_land(path, schema) for schema in schemas)
    left, letters = _left(dead_letter_table(path))
    return DeadLetterResult(table=path, landed=landed, left=left, letters=letters)


def _land(path: str, schema: TopicSchema) -> int:
    """Those of one topic."""
    beside, keys = dead_letter_table(path), landed_schema(("topic",))
    rows = pa.schema([*(keys.field(name) for name in PARTITION_BY), *TypedColumns([schema]).fields])
    typed = TypedColumns([schema], prepare_table(path, rows, PARTITION_BY))
    chosen = pc.field("topic") == schema.topic
    landed, column = 0, '"' + schema.column.replace('"', '""') + '"'
    # The version that is read here stays as it is, whatever is taken out of the table meanwhile.
    found = table_rows(open_table(beside), beside)
    for batch in found.to_batches(
        columns=["topic", *PLACE, "body", "reason"], filter=chosen, batch_size=BATCH_ROWS
    ):
        fit = _fit(typed, batch, schema)
        if fit.num_rows:
            where = _where(schema.topic, fit)
            _merge(path, fit, where, {column: f"s.{column}"})
            _merge(beside, fit.select(list(PLACE)), where, None)
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


def _where(topic: str, rows: pa.Table) -> str:
    """The same places; by literals, so that only files with such rows are read."""
    bounds = pc.min_max(rows.column("physical_offset")).as_py()
    quoted = topic.replace("'", "''")
    return (
        f"t.topic = '{quoted}' AND t.physical_offset >= {bounds['min']} AND t.physical_offset <= {bounds['max']}"
        " AND t.broker = s.broker AND t.physical_offset = s.physical_offset"
    )


def _merge(path: str, rows: pa.Table, where: str, values: dict[str, str] | None) -> None:
    """One merge, again if somebody else's commit comes between.

    - path: of the table
    - rows: merged into it
    - where: which rows of the table they are
    - values: of those rows' columns; None: they are deleted
    """
    refusal: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            merge = open_table(path).merge(rows, where, source_alias="s", target_alias="t")
            (merge.when_matched_delete() if values is None else merge.when_matched_update(values)).execute()
        except CommitFailedError as error:
            refusal = error
            continue
        return
    raise WrongTable(
        f"{path}: no change after {ATTEMPTS} attempts: {refusal}; try again when fewer writers are active"
    )


def _left(beside: str) -> tuple[dict[str, dict[str, int]], tuple[DeadLetter, ...]]:
    counts: dict[str, Counter[str]] = {}
    letters: list[DeadLetter] = []
    names = [*DeadLetter.__dataclass_fields__]
    for batch in table_rows(open_table(beside), beside).to_batches(columns=names, batch_size=BATCH_ROWS):
        for row in batch.to_pylist():
            of_topic = counts.setdefault(row["topic"], Counter())
            of_topic[row["reason"]] += 1
            if of_topic[row["reason"]] <= SHOWN:
                letters.append(DeadLetter(**row))
    left = {topic: dict(sorted(counts[topic].items())) for topic in sorted(counts)}
    return left, tuple(sorted(letters, key=lambda each: (each.topic, each.reason, each.physical_offset)))
