"""The files of a batch: those of an Iceberg table and, where topics have schemas, those of its dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hatwisted.pipeline.delta.deadletters import dead_letter_schema
from hatwisted.pipeline.delta.landedfiles import typed_schema
from hatwisted.pipeline.iceberg.arrowtypes import plain_schema
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.iceberg.deadletters import Promise, keep, promise, remove_unpromised
from hatwisted.pipeline.iceberg.icebergfiles import FileIds, IcebergFiles
from hatwisted.pipeline.iceberg.orphans import remove_unmentioned
from hatwisted.pipeline.schemas.topicschemas import TopicSchema
from hatwisted.pipeline.schemas.typedcolumns import WHY, TypedColumns

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table


@dataclass(frozen=True)
class LandedTables:
    """A table, prepared, and that of its dead letters, if topics have schemas.

    - name: of the table
    - table: itself
    - columns: of the log that land; None: all
    - schemas: of topics
    - beside: the table of dead letters
    """

    name: IcebergName
    table: Table
    columns: Sequence[str] | None = None
    schemas: Sequence[TopicSchema] = ()
    beside: Table | None = None

    @classmethod
    def prepare(
        cls, name: IcebergName, columns: Sequence[str] | None, schemas: Sequence[TopicSchema]
    ) -> LandedTables:
        """Make or widen the tables. Raises WrongSchema, WrongTable, BadSchema.

        - name: of the table
        - columns: of the log that land; None: all
        - schemas: of topics
        """
        table = name.prepare(typed_schema(columns, schemas))
        beside = name.beside.prepare(dead_letter_schema()) if schemas else None
        return cls(name, table, columns, schemas, beside)


class LandedFiles:
    """Writes a batch: `write`, then `close` and, once the table has the files, `keep`; `drop` if it failed.

    - into: the tables
    - ids: names of the run's files
    """

    def __init__(self, into: LandedTables, ids: FileIds) -> None:
        self._into = into
        self._ids = ids
        self.rows = IcebergFiles(into.table, str(into.name), ids)
        self.counts = Counter[str]()
        """Of dead letters, by reason."""
        self._promised: Promise | None = None
        self._finished: list[DataFile] = []
        self._dead: list[DataFile] = []
        if into.beside is not None:
            self._typed = TypedColumns(into.schemas, plain_schema(into.table.schema()))
            self._names = typed_schema(into.columns, into.schemas).names
            self._beside = IcebergFiles(into.beside, str(into.name.beside), ids)

    def write(self, rows: pa.RecordBatch) -> None:
        """Rows with their date and, if topics have schemas, with the columns for decoding; of one broker, which
        follow those before them in its log."""
        if self._into.beside is not None:
            rows, misfits = self._typed.apply(rows)
            if misfits.rows:
                self.counts += misfits.counts()
                self._beside.write(misfits.of(rows, _dead_names()))
            rows = rows.select(self._names)
        self.rows.write(rows)

    def close(self) -> list[DataFile]:
        """Every file of the table, whole, as are those of dead letters; they stay from now on, whatever becomes of
        their commit, but for `remove`."""
        if self._into.beside is not None:
            self._dead = self._beside.close()
            if self._dead:
                name = str(self._into.name.beside)
                self._promised = promise(self._into.beside, name, self._dead, self._ids, self.counts)
        self._finished = self.rows.close()
        return self._finished

    @property
    def note(self) -> dict[str, str]:
        """For the snapshot that brings the files."""
        return self._ids.note | ({} if self._promised is None else self._promised.note)

    def keep(self) -> None:
        """The table has the files: what their snapshot promises comes beside."""
        if self._promised is not None and self._into.beside is not None:
            keep(self._into.beside, str(self._into.name.beside), self._promised)

    def remove(self) -> None:
        """The table doesn't take the files, and never will."""
        into = self._into
        remove_unmentioned(into.table, str(into.name), _paths(self._finished))
        if self._promised is not None and into.beside is not None:
            dead = _paths(self._dead)
            remove_unpromised(into.table, into.beside, str(into.name.beside), self._promised, dead)

    def drop(self) -> None:
        """Remove what isn't closed: no snapshot mentions it."""
        self.rows.drop()
        if self._into.beside is not None:
            self._beside.drop()


def _paths(files: Sequence[DataFile]) -> list[str]:
    return [file.file_path for file in files]


def _dead_names() -> tuple[str, ...]:
    return tuple(name for name in dead_letter_schema().names if name not in WHY.names)
