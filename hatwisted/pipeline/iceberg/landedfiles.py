"""The files of a batch: those of an Iceberg table and, where topics have schemas, those of its dead letters.

They are written by `RowFiles`, here or in tasks of Spark's, which have no catalog (tasktables.py) and hand over
what they wrote. `LandedBatch` is what all of them together bring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from hatwisted.pipeline.delta.deadletters import dead_letter_schema
from hatwisted.pipeline.delta.landedfiles import typed_schema
from hatwisted.pipeline.delta.reach import Reach
from hatwisted.pipeline.iceberg.arrowtypes import plain_schema
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.iceberg.deadletters import Promise, keep, promise, remove_unpromised
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.icebergfiles import IcebergFiles
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
    - rows: columns that land
    - schemas: of topics
    - beside: the table of dead letters
    """

    name: IcebergName
    table: Table
    rows: pa.Schema
    schemas: Sequence[TopicSchema] = ()
    beside: Table | None = None

    @classmethod
    def prepare(cls, name: IcebergName, rows: pa.Schema, schemas: Sequence[TopicSchema] = ()) -> LandedTables:
        """Make or widen the tables. Raises WrongSchema, WrongTable.

        - name: of the table
        - rows: columns that land
        - schemas: of topics
        """
        table = name.prepare(rows)
        beside = name.beside.prepare(dead_letter_schema()) if schemas else None
        return cls(name, table, rows, tuple(schemas), beside)

    @classmethod
    def of_log(
        cls, name: IcebergName, columns: Sequence[str] | None, schemas: Sequence[TopicSchema] = ()
    ) -> LandedTables:
        """The same for rows of a log. Raises BadSchema, too.

        - name: of the table
        - columns: of the log that land; None: all
        - schemas: of topics
        """
        return cls.prepare(name, typed_schema(columns, schemas), schemas)


@dataclass
class WrittenFiles:
    """Whole files of both tables that no snapshot mentions yet; picklable.

    - files: of the table
    - dead: of the table of dead letters
    - counts: of dead letters by reason
    - rows: of the table
    - log_bytes: of their records
    - reach: where they lie in the logs
    """

    files: list[DataFile] = field(default_factory=list)
    dead: list[DataFile] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    log_bytes: int = 0
    reach: Reach = field(default_factory=Reach)

    def __iadd__(self, other: WrittenFiles) -> WrittenFiles:
        self.files += other.files
        self.dead += other.dead
        self.counts += other.counts
        self.rows += other.rows
        self.log_bytes += other.log_bytes
        self.reach += other.reach
        return self


class RowFiles:
    """Writes rows: `write`, then `close` for the finished files, or `drop`.

    - into: the tables
    - ids: names of the files
    """

    def __init__(self, into: LandedTables, ids: FileIds) -> None:
        self._into = into
        self._rows = IcebergFiles(into.table, str(into.name), ids)
        self._counts = Counter[str]()
        if into.beside is not None:
            self._typed = TypedColumns(into.schemas, plain_schema(into.table.schema()))
            self._beside = IcebergFiles(into.beside, str(into.name.beside), ids)

    def write(self, rows: pa.RecordBatch) -> None:
        """Rows with their date and, if topics have schemas, with the columns for decoding."""
        if self._into.beside is not None:
            rows, misfits = self._typed.apply(rows)
            if misfits.rows:
                self._counts += misfits.counts()
                self._beside.write(misfits.of(rows, _dead_names()))
            rows = rows.select(self._into.rows.names)
        self._rows.write(rows)

    def close(self) -> WrittenFiles:
        """Every file, whole; they are the caller's from now on. Raises Fenced if one is gone."""
        rows = self._rows
        rows.finish()  # or it fails when those of the other table aren't to be dropped any more
        dead = [] if self._into.beside is None else self._beside.close()
        return WrittenFiles(rows.close(), dead, self._counts, rows.rows, rows.log_bytes, rows.reach)

    def drop(self) -> None:
        """Remove what isn't closed: no snapshot mentions it."""
        self._rows.drop()
        if self._into.beside is not None:
            self._beside.drop()


class LandedBatch:
    """Whole files, which stay from now on, whatever becomes of their commit, but for `remove`. Once the table has
    them, `keep`.

    - into: the tables
    - written: the files
    - ids: names of the run's files
    """

    def __init__(self, into: LandedTables, written: WrittenFiles, ids: FileIds) -> None:
        self._into = into
        self.written = written
        self._promised: Promise | None = None
        if written.dead and into.beside is not None:
            name = str(into.name.beside)
            self._promised = promise(into.beside, name, written.dead, ids, written.counts)
        self._settled = ids.note

    @property
    def note(self) -> dict[str, str]:
        """For the snapshot that brings the files."""
        return self._settled | ({} if self._promised is None else self._promised.note)

    def keep(self) -> None:
        """The table has the files: what their snapshot promises comes beside."""
        if self._promised is not None and self._into.beside is not None:
            keep(self._into.beside, str(self._into.name.beside), self._promised)

    def remove(self) -> None:
        """The table doesn't take the files, and never will."""
        into = self._into
        remove_unmentioned(into.table, str(into.name), _paths(self.written.files))
        if self._promised is not None and into.beside is not None:
            dead = _paths(self.written.dead)
            remove_unpromised(into.table, into.beside, str(into.name.beside), self._promised, dead)


def _paths(files: Sequence[DataFile]) -> list[str]:
    return [file.file_path for file in files]


def _dead_names() -> tuple[str, ...]:
    return tuple(name for name in dead_letter_schema().names if name not in WHY.names)
