"""A keyed Iceberg table: files with rows that are replaced are written again without those, and new ones beside.

One snapshot swaps the files, and says up to where the landed table is merged; it's taken only on top of the one
that was looked at, so a merge that loses against another writer looks again. What a lost merge wrote is removed;
what a killed one wrote no snapshot mentions, and the next merge removes it.

pyiceberg's own `upsert` was rejected: it compares every column of every row in Python, has no notion of which of
two rows is later, and is repeated by pyiceberg on top of what it hasn't seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.io.pyarrow import ArrowScan

from hatwisted.pipeline.delta.errors import NoRoom, WrongTable
from hatwisted.pipeline.iceberg.catalogs import IcebergName, plainly
from hatwisted.pipeline.iceberg.fileids import SnapshotIds
from hatwisted.pipeline.iceberg.icebergfiles import data_files
from hatwisted.pipeline.iceberg.orphans import remove_left, remove_passed, remove_unmentioned
from hatwisted.pipeline.iceberg.snapshots import ATTEMPTS, line, set_properties, summary_of, swap_files
from hatwisted.pipeline.iceberg.upkeep import compact, expire
from hatwisted.pipeline.jobs.latest.keymatches import KeyMatches
from hatwisted.pipeline.jobs.latest.lastrows import KEY
from hatwisted.pipeline.jobs.latest.mergednotes import (
    FILE_BYTES,
    PARTITION_BY,
    PROPERTY,
    Merged,
    check_property,
    property_text,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

MERGED: Final = "hatwisted.latest"
"""Key of a snapshot's summary: up to where the table is merged. The snapshots after it carry that on."""


@dataclass
class _Change:
    """Files for others. inserted: keys that are new; updated: that have another message."""

    old: list[DataFile] = field(default_factory=list)
    new: list[DataFile] = field(default_factory=list)
    inserted: int = 0
    updated: int = 0


class IcebergKeyed:
    """See KeyedRows.

    - name: of the table
    - what: it's of
    """

    def __init__(self, name: str, what: Mapping[str, Any]) -> None:
        self._name = name
        self._what = what
        self._ids = _NotingIds(None)
        self._opened: Table | None = None
        self._seen: int | None = None
        """The snapshot that this run knows the table by."""

    def prepare(self, columns: pa.Schema) -> pa.Schema:
        """See KeyedRows."""
        place, said = IcebergName.parse(self._name), {PROPERTY: property_text(self._what)}
        there = place.load_if_any()
        if there is not None:
            self._check(there)  # before it's widened
        self._opened = self._ids.table = place.prepare(columns, PARTITION_BY, said)
        for _ in range(ATTEMPTS):
            self._refresh()
            if self._check(self._table):
                types = self._table.schema().as_arrow()
                return pa.schema([pa.field(name, types.field(name).type) for name in columns.names])
            set_properties(self._table, self._name, said)
        raise WrongTable(f"{self._name}: can't be made; try again when fewer writers are active")

    def merged(self) -> Merged | None:
        """See KeyedRows."""
        self._refresh()
        self._look()
        return self._noted()

    def merge(self, rows: pa.Table, reached: Merged | None) -> tuple[int, int]:
        """See KeyedRows."""
        for _ in range(ATTEMPTS):
            self._refresh()
            self._check_line()
            self._ids.merged = self._noted() if reached is None else reached
            change = self._changed(rows)
            if not change.new and reached is None:
                return 0, 0
            if self._swapped(change):
                self._look()
                return change.inserted, change.updated
        raise WrongTable(
            f"{self._name}: no merge after {ATTEMPTS} attempts; try again when fewer writers are active"
        )

    def tidy(self) -> None:
        """See KeyedRows."""
        self._refresh()
        self._ids.merged = self._noted()
        compact(self._table, self._name, FILE_BYTES, self._ids)
        expire(self._table, self._name)
        with suppress(WrongTable, NoRoom):  # the next one tries again
            remove_passed(self._table, self._name)

    # ---- what the table says

    @property
    def _table(self) -> Table:
        assert self._opened is not None  # prepared
        return self._opened

    def _refresh(self) -> None:
        with plainly(self._name):
            self._table.refresh()

    def _look(self) -> None:
        snapshot = self._table.current_snapshot()
        self._seen = None if snapshot is None else snapshot.snapshot_id

    def _check(self, table: Table) -> bool:
        with plainly(self._name):
            is_empty = next(iter(table.scan().plan_files()), None) is None
        return check_property(self._name, table.properties.get(PROPERTY), self._what, is_empty)

    def _check_line(self) -> None:
        """Raises WrongTable if it was rolled back since this run has seen it: rows that were merged may be gone,
        and what is noted with later ones has to be true of all."""
        if self._seen is not None and self._seen not in {each.snapshot_id for each in line(self._table)}:
            raise WrongTable(f"{self._name}: was rolled back to an earlier snapshot meanwhile; try again")

    def _noted(self) -> Merged | None:
        said = (summary_of(snapshot).get(MERGED) for snapshot in line(self._table))
        text = next((each for each in said if each is not None), None)
        return None if text is None else Merged.parse(json.loads(text))

    # ---- its files

    def _changed(self, rows: pa.Table) -> _Change:
        change = _Change()
        if not len(rows):
            return change
        matches, replaced = KeyMatches(rows), []
        with plainly(self._name):
            for task in self._tasks(rows):
                if sum(matches.look(each) for each in self._rows(task, matches.columns)):
                    replaced.append(task)
        change.inserted, change.updated = matches.inserted, matches.updated
        try:
            for task in replaced:
                change.old.append(task.file)
                change.new += self._without(task, matches)
            if len(news := matches.news):
                change.new += data_files(self._table, self._name, news, self._ids)
        except BaseException:
            self._clear()
            raise
        return change

    def _swapped(self, change: _Change) -> bool:
        try:
            done = swap_files(self._table, self._name, change.old, change.new, self._ids.note)
        except NoRoom:  # for what a commit writes before it takes effect
            self._clear()
            raise
        if not done:
            with suppress(WrongTable, NoRoom):  # else they stay; nothing mentions them
                files = [file.file_path for file in change.new]
                remove_unmentioned(self._table, self._name, files)
        return done

    def _clear(self) -> None:
        """Remove what this run has written since its last commit, while no other one is under way; but for what
        pyiceberg's threads are still writing."""
        with suppress(WrongTable, NoRoom):
            remove_left(self._table, self._name, [self._ids.run])

    def _tasks(self, rows: pa.Table) -> Iterator[FileScanTask]:
        """The files that may have their keys."""
        keys = pc.min_max(rows.column(KEY)).as_py()
        theirs: Any = And(
            In("topic", pc.unique(rows.column("topic")).to_pylist()),  # type: ignore[call-arg, arg-type]
            GreaterThanOrEqual(KEY, keys["min"]),  # type: ignore[call-arg, arg-type]
            LessThanOrEqual(KEY, keys["max"]),  # type: ignore[call-arg, arg-type]
        )
        return iter(self._table.scan(theirs).plan_files())

    def _rows(self, task: FileScanTask, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        schema = self._table.schema() if columns is None else self._table.schema().select(*columns)
        scan = ArrowScan(self._table.metadata, self._table.io, schema, AlwaysTrue())
        return (pa.Table.from_batches([batch]) for batch in scan.to_record_batches([task]))

    def _without(self, task: FileScanTask, matches: KeyMatches) -> list[DataFile]:
        """A file again, without the rows that are replaced."""
        with plainly(self._name):
            kept = [rows.filter(pa.array(~matches.replaced(rows))) for rows in self._rows(task)]
        rows = pa.concat_tables(kept, promote_options="permissive")
        return data_files(self._table, self._name, rows, self._ids) if len(rows) else []


class _NotingIds(SnapshotIds):
    """Names of a run's files, and what its snapshots say."""

    merged: Merged | None = None

    @property
    def note(self) -> dict[str, str]:
        if self.merged is None:
            return super().note
        return super().note | {MERGED: json.dumps(self.merged.as_json())}
