"""The dead letters of an Iceberg table, landed after all: files with such rows are written again, with their
values or without them, and swapped in one snapshot.

That is taken only on top of the snapshot that was read, so where another writer comes between it's done again, and
what was written for it is removed. pyiceberg's own `overwrite` was rejected: it's repeated on top of what it
hasn't seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.io.pyarrow import ArrowScan

from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.iceberg.arrowtypes import plain_schema
from hatwisted.pipeline.iceberg.catalogs import IcebergName, plainly
from hatwisted.pipeline.iceberg.deadletters import settle
from hatwisted.pipeline.iceberg.fileids import FileIds, SnapshotIds
from hatwisted.pipeline.iceberg.icebergfiles import data_files
from hatwisted.pipeline.iceberg.orphans import remove_unmentioned
from hatwisted.pipeline.iceberg.snapshots import ATTEMPTS, noted, swap_files
from hatwisted.pipeline.jobs.land.deltaletters import PLACE

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

Change = Callable[[pa.Table, np.ndarray], pa.Table]
"""Of a file's rows, and the number that each has among those that are looked for, or -1: what it's to have
instead."""


@dataclass
class IcebergLetters:
    """See Letters.

    - place: of the table
    - table: itself
    """

    place: IcebergName
    table: Table

    @classmethod
    def of(cls, table: str) -> IcebergLetters:
        """Raises WrongTable if there's none."""
        place = IcebergName.parse(table)
        found = place.load_if_any()
        if found is None:
            raise WrongTable(f"{place}: there's no table; give the name of a landed one")
        return cls(place, found)

    @property
    def name(self) -> str:
        """See Letters."""
        return str(self.place)

    def settle(self) -> bool:
        """See Letters."""
        settle(self.table, self.place)
        return self.place.beside.load_if_any() is not None

    def widen(self, column: pa.Field) -> pa.Schema:
        """See Letters."""
        there = plain_schema(self.table.schema())
        rows = pa.schema([*(each for each in there if each.name != column.name), column])
        self.table = self.place.prepare(rows)
        return plain_schema(self.table.schema())

    def read(self, columns: Sequence[str], topic: str | None, rows: int) -> Iterator[pa.RecordBatch]:
        """See Letters: the snapshot that is read stays as it is, whatever is taken out of the table meanwhile."""
        chosen: Any = AlwaysTrue() if topic is None else EqualTo("topic", topic)  # type: ignore[call-arg, arg-type]
        name = str(self.place.beside)
        found = self.place.beside.load()
        with plainly(name):
            for batch in found.scan(chosen, tuple(columns)).to_arrow_batch_reader():
                for begin in range(0, batch.num_rows, rows):
                    yield batch.slice(begin, rows)

    def give(self, topic: str, rows: pa.Table) -> None:
        """See Letters."""
        (name,) = (name for name in rows.column_names if name not in PLACE)
        values = rows.column(name)

        def given(there: pa.Table, found: np.ndarray) -> pa.Table:
            number, before = there.column_names.index(name), there.column(name).cast(values.type)
            both = pa.chunked_array([*before.chunks, *values.chunks], values.type)
            at = np.where(found < 0, np.arange(len(found)), len(there) + found)
            return there.set_column(number, name, both.take(pa.array(at)))

        _replace(self.table, self.name, topic, rows, given)

    def take(self, topic: str, rows: pa.Table) -> None:
        """See Letters."""
        beside = self.place.beside
        _replace(
            beside.load(), str(beside), topic, rows, lambda there, found: there.filter(pa.array(found < 0))
        )


def _replace(table: Table, name: str, topic: str, rows: pa.Table, change: Change) -> None:
    """Swap the files that have some rows, in one snapshot.

    - table: which
    - name: of the table, for errors
    - topic: the rows'
    - rows: their PLACE
    - change: what a file is to have instead
    """
    ids = SnapshotIds(table)
    for _ in range(ATTEMPTS):
        with plainly(name):
            table.refresh()
            tasks = list(table.scan(_where(topic, rows)).plan_files())
        old, new = _changed(table, name, tasks, (topic, rows), change, ids)
        if not old or swap_files(table, name, old, new, noted(table)):
            return
        _drop(table, name, new)
    raise WrongTable(f"{name}: no change after {ATTEMPTS} attempts; try again when fewer writers are active")


def _changed(
    table: Table,
    name: str,
    tasks: Sequence[FileScanTask],
    wanted: tuple[str, pa.Table],
    change: Change,
    ids: FileIds,
) -> tuple[list[DataFile], list[DataFile]]:
    """(files that have some of the rows, what is to come in their place).

    - table: which
    - name: of the table, for errors
    - tasks: files that may have some
    - wanted: the rows' topic, and their PLACE
    - change: what a file is to have instead
    - ids: names of new files
    """
    old: list[DataFile] = []
    new: list[DataFile] = []
    try:
        for task in tasks:
            if (_found(*wanted, _read(table, name, task, ("topic", *PLACE))) >= 0).any():
                there = _read(table, name, task)
                changed = change(there, _found(*wanted, there))
                old.append(task.file)
                new += data_files(table, name, changed, ids) if len(changed) else []
    except BaseException:
        _drop(table, name, new)
        raise
    return old, new


def _drop(table: Table, name: str, files: Sequence[DataFile]) -> None:
    with suppress(WrongTable):  # else they stay; nothing mentions them
        remove_unmentioned(table, name, [file.file_path for file in files])


def _where(topic: str, rows: pa.Table) -> Any:
    """Of the files that may have the rows."""
    bounds = pc.min_max(rows.column("physical_offset")).as_py()
    return And(
        EqualTo("topic", topic),  # type: ignore[call-arg, arg-type]  # made by hand in pyiceberg
        GreaterThanOrEqual("physical_offset", bounds["min"]),  # type: ignore[call-arg, arg-type]
        LessThanOrEqual("physical_offset", bounds["max"]),  # type: ignore[call-arg, arg-type]
    )


def _read(table: Table, name: str, task: FileScanTask, columns: Sequence[str] | None = None) -> pa.Table:
    """A file's rows. columns: of the table; None: all."""
    schema = table.schema() if columns is None else table.schema().select(*columns)
    with plainly(name):
        return ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table([task])


def _found(topic: str, rows: pa.Table, there: pa.Table) -> np.ndarray:
    """Of each row of a file the number that it has among others, or -1.

    - topic: theirs
    - rows: the others' PLACE
    - there: the file's
    """
    found = np.full(len(there), -1, np.int64)
    offsets, brokers = there.column("physical_offset").to_numpy(), there.column("broker")
    mine = pc.fill_null(pc.equal(there.column("topic"), topic), False).to_numpy()
    for broker in pc.unique(rows.column("broker")).to_pylist():
        numbers = np.flatnonzero(pc.equal(rows.column("broker"), broker).to_numpy())
        wanted = rows.column("physical_offset").to_numpy()[numbers]
        order = np.argsort(wanted)
        wanted, numbers = wanted[order], numbers[order]
        at = np.searchsorted(wanted, offsets).clip(max=len(wanted) - 1)
        hit = mine & (wanted[at] == offsets) & pc.fill_null(pc.equal(brokers, broker), False).to_numpy()
        found[hit] = numbers[at[hit]]
    return found
