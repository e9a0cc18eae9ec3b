"""The dead letters of a Delta table, landed after all: merges of delta-rs, which find out by themselves whether
another writer has replaced the files that they have read (compactions of ours among them), and fail then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from hatwisted.pipeline.delta.deadletters import dead_letter_table, settle
from hatwisted.pipeline.delta.deltatable import ATTEMPTS, is_table, open_table, prepare_table, table_rows
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.landedrows import PARTITION_BY, landed_schema
from hatwisted.pipeline.delta.tablefolder import table_path

PLACE: Final = ("broker", "physical_offset")
"""What a row is known by."""


@dataclass(frozen=True)
class DeltaLetters:
    """See Letters. name: path of the table."""

    name: str

    @classmethod
    def of(cls, table: str) -> DeltaLetters:
        """Raises WrongTable if there's none."""
        path = table_path(table)
        if not is_table(path):
            raise WrongTable(f"{path}: there's no table; give the folder of a landed one")
        return cls(path)

    @property
    def beside(self) -> str:
        """Path of the table of dead letters."""
        return dead_letter_table(self.name)

    def settle(self) -> bool:
        """See Letters."""
        settle(self.name)
        return is_table(self.beside)

    def widen(self, column: pa.Field) -> pa.Schema:
        """See Letters."""
        keys = landed_schema(("topic",))
        rows = pa.schema([*(keys.field(name) for name in PARTITION_BY), column])
        return prepare_table(self.name, rows, PARTITION_BY)

    def read(self, columns: Sequence[str], topic: str | None, rows: int) -> Iterator[pa.RecordBatch]:
        """See Letters: the version that is read stays as it is, whatever is taken out of the table meanwhile."""
        chosen = None if topic is None else pc.field("topic") == topic
        found = table_rows(open_table(self.beside), self.beside)
        yield from found.to_batches(columns=list(columns), filter=chosen, batch_size=rows)

    def give(self, topic: str, rows: pa.Table) -> None:
        """See Letters."""
        (name,) = (name for name in rows.column_names if name not in PLACE)
        column = '"' + name.replace('"', '""') + '"'
        _merge(self.name, rows, _where(topic, rows), {column: f"s.{column}"})

    def take(self, topic: str, rows: pa.Table) -> None:
        """See Letters."""
        _merge(self.beside, rows, _where(topic, rows), None)


def _where(topic: str, rows: pa.Table) -> str:
    """The same places; by literals, so that only files with such rows are read."""
    bounds = pc.min_max(rows.column("physical_offset")).as_py()
    quoted = topic.replace("'", "''")
    return (
        f"t.topic = '{quoted}' AND t.physical_offset >= {bounds['min']} AND t.physical_offset <= {bounds['max']}"
        " AND t.broker = s.broker AND t.physical_offset = s.physical_offset"
    )


def _merge(path: str, rows: pa.Table, where: str, values: Mapping[str, str] | None) -> None:
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
            if values is None:
                merge.when_matched_delete().execute()
            else:
                merge.when_matched_update(dict(values)).execute()
        except CommitFailedError as error:
            refusal = error
            continue
        return
    raise WrongTable(
        f"{path}: no change after {ATTEMPTS} attempts: {refusal}; try again when fewer writers are active"
    )
