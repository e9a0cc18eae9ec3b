"""Faults that a landing could have: planted in its process, so that a test of landings can show that it sees them.

Each one takes away a single precaution, or does by halves what has to be done at once. Those of Delta tables and
of Iceberg tables have the same names where they are the same. A fault that only a landing's end at one point shows
calls `between` there, where lives are then ended more often than elsewhere.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import Table

from hatwisted.pipeline.delta import commits, compaction, datafiles, orphans, tablefolder, tails
from hatwisted.pipeline.iceberg import icebergfiles, openfiles, snapshots, upkeep
from hatwisted.pipeline.iceberg import orphans as icebergorphans
from hatwisted.pipeline.iceberg.catalogs import is_iceberg
from hatwisted.pipeline.jobs.land import deltalanding, landing, splitrows

Fault = Callable[[], None]
BOTH: dict[str, Fault] = {}
DELTA: dict[str, Fault] = {}
ICEBERG: dict[str, Fault] = {}


def plant(name: str | None, table: str) -> None:
    """In this process, for good.

    - name: of the fault; None: none
    - table: that is landed
    """
    if name is not None:
        (BOTH | (ICEBERG if is_iceberg(table) else DELTA))[name]()


def of(*kinds: dict[str, Fault]) -> Callable[[Fault], Fault]:
    """Faults of these kinds are called like their functions."""

    def add(fault: Fault) -> Fault:
        for kind in kinds:
            kind[fault.__name__.rstrip("_").replace("_", "-")] = fault
        return fault

    return add


def between() -> None:
    """The point at which a fault's landing has to end for it to show: a step that can be drawn (lifesteps.py)."""


# ---- of both


@of(BOTH)
def tail_read_again() -> None:
    """A landing goes on with the last record that the table has, not after it."""
    tails.Tail.end = property(lambda self: self.physical_offset)  # type: ignore[assignment, method-assign]


@of(BOTH)
def last_row_lost() -> None:
    """The last row of a part of the log is left out."""
    read = splitrows.read_split

    def short(*arguments: Any, **more: Any) -> Iterator[pa.RecordBatch]:
        *most, last = list(read(*arguments, **more))
        yield from [*most, last.slice(0, last.num_rows - 1)]

    splitrows.read_split = short


def _rows_by(change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
    dated = splitrows.with_store_date
    splitrows.with_store_date = lambda rows: change(dated(rows))


def _with(rows: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return rows.set_column(rows.schema.names.index(name), name, column)


@of(BOTH)
def bodies_exchanged() -> None:
    """Rows have each other's bodies."""
    _rows_by(lambda rows: _with(rows, "body", rows["body"].take(pa.array(range(rows.num_rows))[::-1])))


@of(BOTH)
def wrong_day() -> None:
    """Rows are filed under the day after."""

    def later(rows: pa.RecordBatch) -> pa.RecordBatch:
        day = pc.add(rows["store_date"].cast(pa.int32()), pa.scalar(1, pa.int32()))
        return _with(rows, "store_date", day.cast(pa.date32()))

    _rows_by(later)


@of(BOTH)
def other_brokers_name() -> None:
    """All rows have the name of one broker."""
    _rows_by(lambda rows: _with(rows, "broker", pa.array(["broker-a"] * rows.num_rows)))


# ---- Delta: the commit


@of(DELTA)
def tails_forgotten() -> None:
    """Each landing begins at the log's begin."""
    deltalanding.landed_tails = lambda *_: {}


@of(DELTA)
def tails_of_rows() -> None:
    """The rows alone say where they end, whatever commits say."""
    tails.noted_tails = lambda *_: {}


@of(DELTA)
def claim_without_tails() -> None:
    """A claim says that brokers' rows end nowhere."""
    commit = commits._commit

    def silent(table: DeltaTable, adds: Any, transactions: Any, note: Any) -> None:
        told = {**note, tails.TAILS: {}} if "claim" in note else note
        commit(table, adds, transactions, told)

    commits._commit = silent


@of(DELTA)
def tails_looked_at_once() -> None:
    """A run looks once at what is noted, and not again after another landing's commit."""
    look, first = commits.noted_tails, list[dict[str, tails.Tail]]()

    def once(notes: Any) -> dict[str, tails.Tail]:
        if not first:
            first.append(look(notes))
        return dict(first[0])

    commits.noted_tails = once


@of(DELTA)
def appended_twice() -> None:
    """A batch's files are in the table twice."""
    commit = commits._commit

    def twice(table: DeltaTable, adds: Any, *more: Any) -> None:
        commit(table, adds, *more)
        again = []
        for add in adds:
            folder, _, _ = add.path.rpartition("/")
            path = f"{folder}/{uuid.uuid4().hex}.parquet"
            shutil.copy(_root(table) / add.path, _root(table) / path)
            again.append(commits.AddAction(path, add.size, add.partition_values, 0, True, add.stats))
        if again:
            commit(DeltaTable(str(_root(table))), again, *more)

    commits._commit = twice


def _root(table: DeltaTable) -> Path:
    return Path(table.table_uri.removeprefix("file://"))


@of(DELTA)
def half_appended() -> None:
    """A batch lacks a file."""
    commit = commits._commit
    commits._commit = lambda table, adds, *more: commit(table, adds[:-1] if len(adds) > 1 else adds, *more)


@of(DELTA)
def batch_in_pieces() -> None:
    """Each file of a batch has a commit of its own."""
    commit = commits._commit

    def each(table: DeltaTable, adds: Any, *more: Any) -> None:
        for number in range(max(1, len(adds))):
            if number:
                between()
            commit(DeltaTable(str(_root(table))), adds[number : number + 1], *more)

    commits._commit = each


@of(DELTA)
def commit_before_files() -> None:
    """Files get their names after the commit that mentions them."""
    later: list[Any] = []
    finish, commit = tablefolder._HiddenFile.finish, commits._commit

    def unnamed(self: Any) -> tuple[int, int]:
        found = self._hidden.stat()
        later.append(lambda: finish(self))
        return found.st_size, found.st_mtime_ns // 1_000_000

    def first(*arguments: Any) -> None:
        commit(*arguments)
        if later:
            between()
        while later:
            later.pop()()

    tablefolder._HiddenFile.finish = unnamed  # type: ignore[method-assign]
    commits._commit = first


@of(DELTA)
def fence_open() -> None:
    """An earlier run's commits are taken."""
    commits.Claim.check = lambda *_: None  # type: ignore[method-assign]


@of(DELTA)
def claim_as_before() -> None:
    """A claim doesn't raise the epoch."""

    def same(path: str, writer: Any, by_queue: bool = False, settled: int | None = None) -> commits.Claim:
        table = commits.open_table(path)
        epochs = [table.transaction_version(commits.FENCE + broker) or 1 for broker in writer.brokers]
        found = commits.Claim(writer, max(epochs), by_queue)
        commits._commit(table, [], found.transactions(), {"claim": found.epoch})
        return found

    landing.claim = same


# ---- Delta: files


@of(DELTA)
def orphans_left() -> None:
    """Files of killed runs stay."""
    landing.remove_orphans = lambda *_: []


@of(DELTA)
def orphans_unasked() -> None:
    """Files of earlier runs are removed, mentioned or not."""
    orphans._active_names = lambda *_: set()
    orphans._mentioned = lambda *_: set()


@of(DELTA)
def rows_left_waiting() -> None:
    """What waits for its row group is forgotten when files are finished."""
    flush = datafiles.DataFiles._flush

    def sometimes(self: Any) -> None:
        if len(self._waiting) > 1:
            self._waiting.popitem()
        flush(self)

    datafiles.DataFiles._flush = sometimes  # type: ignore[method-assign]


@of(DELTA)
def partition_by_folder() -> None:
    """A topic is called like its folder."""
    add = commits._add

    def quoted(file: datafiles.DataFile) -> Any:
        topic = str(file.partition["topic"])
        return add(replace(file, partition={**file.partition, "topic": quote(topic, safe="")}))

    commits._add = quoted


@of(DELTA)
def statistics_too_low() -> None:
    """Of a file's offsets a lower one is told than the highest."""
    stats = datafiles._OpenFile._stats

    def low(self: Any) -> str:
        found = json.loads(stats(self))
        found["maxValues"]["physical_offset"] = found["minValues"]["physical_offset"]
        return json.dumps(found)

    datafiles._OpenFile._stats = low  # type: ignore[method-assign]


# ---- Delta: compaction


def _compaction_by(change: Callable[[DeltaTable, str, pa.Table], None]) -> None:
    """What is done with a partition, of which these are the rows."""

    def compact(version: compaction.Version, partition: dict[str, Any], below: int) -> compaction.Compaction:
        table = version.table
        filters = [(name, "=", str(value)) for name, value in partition.items()]
        where = " AND ".join(f"{name} = '{value}'" for name, value in partition.items())
        change(table, where, table.to_pyarrow_table(partitions=filters))
        return compaction.Compaction(1, 1)

    compaction._compact = compact


@of(DELTA)
def compaction_adds() -> None:
    """The new file is added, and the old ones stay."""
    _compaction_by(lambda table, _, rows: write_deltalake(table, rows, mode="append"))


@of(DELTA)
def compaction_in_two() -> None:
    """The old files go by one commit, the new one comes by the next."""

    def without(table: DeltaTable, where: str) -> DeltaTable:
        table.delete(where)
        between()
        return table

    _compaction_by(lambda table, where, rows: write_deltalake(without(table, where), rows, mode="append"))


@of(DELTA)
def compaction_loses() -> None:
    """The new file lacks a row of the old ones."""
    _compaction_by(
        lambda table, where, rows: write_deltalake(table, rows.slice(1), mode="overwrite", predicate=where)
    )


# ---- Iceberg: the commit


@of(ICEBERG)
def tails_forgotten_() -> None:
    """Each landing begins at the log's begin."""
    snapshots.landed_tails = lambda *_: {}


@of(ICEBERG)
def tails_of_rows_() -> None:
    """The rows alone say where they end, whatever snapshots say."""
    snapshots.noted = lambda _: {}


@of(ICEBERG)
def tails_looked_at_once_() -> None:
    """A run looks once at what is noted, and not again after another landing's commit."""
    first: list[dict[str, str]] = []

    def once(table: Table, moved: Any) -> dict[str, str]:
        if not first:
            first.append(snapshots.noted(table))
        return first[0] | {snapshots.TAIL + broker: snapshots._text(tail) for broker, tail in moved.items()}

    snapshots.tails_noted = once


@of(ICEBERG)
def appended_twice_() -> None:
    """A batch's files are in the table twice."""
    commit = snapshots._commit
    snapshots._commit = lambda change, files, note: commit(change, [*files, *files], note)


@of(ICEBERG)
def half_appended_() -> None:
    """A batch lacks a file."""
    commit = snapshots._commit
    snapshots._commit = lambda change, files, note: commit(
        change, files[:-1] if len(files) > 1 else files, note
    )


def _more_commits(pieces: Callable[[list[Any]], Iterator[list[Any]]]) -> None:
    """pieces: what of a batch's files each commit brings."""
    commit = snapshots._commit

    def each(change: Any, files: Any, note: Any) -> None:
        found = pieces(list(files))
        commit(change, next(found, []), note)
        for piece in found:
            between()
            change._table.refresh()
            commit(snapshots.OnceTransaction(change._table), piece, note)

    snapshots._commit = each


@of(ICEBERG)
def batch_in_pieces_() -> None:
    """Each file of a batch has a commit of its own."""

    def pieces(files: list[Any]) -> Iterator[list[Any]]:
        for file in files:
            yield [file]

    _more_commits(pieces)


@of(ICEBERG)
def tail_before_files() -> None:
    """Where the rows end is told before the table has them."""

    def pieces(files: list[Any]) -> Iterator[list[Any]]:
        yield []
        if files:
            yield files

    _more_commits(pieces)


@of(ICEBERG)
def commit_before_files_() -> None:
    """Files get their names after the commit that mentions them."""
    later: list[tuple[Path, Path]] = []
    close, commit = icebergfiles.IcebergFiles.close, snapshots._commit

    def unnamed(self: Any) -> list[Any]:
        found = close(self)
        for file in found:
            path = Path(file.file_path.removeprefix("file://"))
            later.append((path.rename(path.with_suffix(".later")), path))
        return found

    def first(change: Any, files: Any, note: Any) -> None:
        commit(change, files, note)
        if files and later:
            between()
        while files and later:
            hidden, path = later.pop()
            hidden.rename(path)

    icebergfiles.IcebergFiles.close = unnamed  # type: ignore[method-assign]
    snapshots._commit = first


@of(ICEBERG)
def fence_open_() -> None:
    """An earlier run's commits are taken, wherever the table ends."""

    def append(table: Table, name: str, files: Any, *, moved: Any, note: Any, **_: Any) -> bool:
        table.refresh()
        noted = {
            snapshots.TAIL + broker: snapshots._text(after) for broker, (_before, after) in moved.items()
        }
        snapshots._commit(
            snapshots.OnceTransaction(table), files, snapshots.noted(table) | noted | dict(note)
        )
        return True

    snapshots.append = append


# ---- Iceberg: files


@of(ICEBERG)
def orphans_left_() -> None:
    """Files of killed runs stay."""
    icebergorphans.remove_left = lambda *_: []


@of(ICEBERG)
def orphans_unasked_() -> None:
    """Files of the run before are removed, mentioned or not."""
    icebergorphans._settled = lambda *_: -1
    icebergorphans._files_in = lambda *_: set()


@of(ICEBERG)
def rows_left_waiting_() -> None:
    """What waits is forgotten when files are finished."""
    flush = openfiles.OpenFiles.flush

    def sometimes(self: Any) -> None:
        if len(self._waiting) > 1:
            self._waiting.popitem()
        flush(self)

    openfiles.OpenFiles.flush = sometimes  # type: ignore[method-assign]


# ---- Iceberg: compaction


@of(ICEBERG)
def compaction_adds_() -> None:
    """The new file is added, and the old ones stay."""

    def replaced(table: Table, name: str, old: Any, new: Any, note: Any) -> bool:
        snapshots._commit(snapshots.OnceTransaction(table), new, snapshots.noted(table) | dict(note))
        return True

    upkeep.replace_files = replaced


@of(ICEBERG)
def compaction_in_two_() -> None:
    """The old files go by one commit, the new one comes by the next."""
    replace_files = snapshots.replace_files

    def add(table: Table, new: Any, note: Any) -> None:
        table.refresh()
        snapshots._commit(snapshots.OnceTransaction(table), new, snapshots.noted(table) | dict(note))

    def replaced(table: Table, name: str, old: Any, new: Any, note: Any) -> bool:
        replace_files(table, name, old, [], note)
        between()
        add(table, new, note)
        return True

    upkeep.replace_files = replaced


@of(ICEBERG)
def compaction_loses_() -> None:
    """The new file lacks a row of the old ones."""
    files = upkeep.data_files
    upkeep.data_files = lambda table, name, rows, ids: files(table, name, rows.slice(1), ids)
