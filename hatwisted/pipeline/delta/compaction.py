"""Many small files into few, where it pays and disturbs no reader.

Each trigger adds a file per partition and task, so a landing that follows a log leaves many small ones. A
partition is rewritten when it has `MIN_FILES` much smaller than the target, not at every opportunity: a row is
then rewritten about target / (MIN_FILES * batch) times at most, and what a large batch writes isn't written
twice. A new file is written, then one commit swaps it for the old ones with `dataChange` false.
Readers of the previous version go on reading the old files, which stay until Delta's vacuum is run;
appends don't conflict with it; the batch numbers of landings aren't touched by it. A compaction that loses
against another writer has changed nothing, and the next one tries again. One within a landing ends with its claim,
and without one it's committed right after the version that its file's name says, so what a killed one leaves goes
like a killed batch's files (orphans.py). Rejected: delta-rs's own, which is committed also where another one has
replaced the same files since it read the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from hatwisted.pipeline.delta.commits import Claim
from hatwisted.pipeline.delta.datafiles import DataFile, DataFiles
from hatwisted.pipeline.delta.deletions import may_have_deleted
from hatwisted.pipeline.delta.deltatable import ATTEMPTS, open_table, table_rows
from hatwisted.pipeline.delta.errors import Fenced, WrongTable
from hatwisted.pipeline.delta.features import arrow_reads
from hatwisted.pipeline.delta.fileswap import OldFile, swap_files
from hatwisted.pipeline.delta.names import BY_VERSION
from hatwisted.pipeline.delta.orphans import remove_unmentioned
from hatwisted.pipeline.errors import said

if TYPE_CHECKING:
    import pyarrow.dataset as pads

MIN_FILES: Final = 8
"""Small files of a partition that make it worth being rewritten."""
SMALL_PART: Final = 4
"""A file is small below this part of the target: merging four into one saves a reader less than it costs."""
FAILURES: Final = (DeltaError, OSError, WrongTable, Fenced)
"""What makes a compaction wait for another time."""


@dataclass(frozen=True)
class Compaction:
    """What was done: files replaced by how many, and partitions left for another time with the reason; vacuumed:
    files replaced long ago that are gone now."""

    removed: int = 0
    added: int = 0
    put_off: tuple[str, ...] = ()
    vacuumed: int = 0

    def __add__(self, other: Compaction) -> Compaction:
        return Compaction(
            self.removed + other.removed,
            self.added + other.added,
            self.put_off + other.put_off,
            self.vacuumed + other.vacuumed,
        )


def compact(path: str, below: int, *, held: Claim | None = None, min_files: int = MIN_FILES) -> Compaction:
    """Rewrite small files into bigger ones.

    - path: of the table
    - below: bytes; smaller files are rewritten into files of this size
    - held: the claim of the landing that does it; nothing is changed when that has ended
    - min_files: in partitions with at least as many small files
    """
    version = Version(path, open_table(path), held)
    small = small_partitions(version.table, below // SMALL_PART, min_files)
    if small and not arrow_reads(version.table):
        # What reads a file by itself has rows that don't count, for one.
        what = (
            "may have deletion vectors" if may_have_deleted(version.table) else "has features of its readers"
        )
        left = f"{path}: {what}, so landings leave its small files: OPTIMIZE of Spark's Delta merges them"
        return Compaction(put_off=(left,))
    done = Compaction()
    for partition in small:
        done += _compact(version, partition, below)
    return done


@dataclass
class Version:
    """A table as it was read.

    - path: of the table
    - table: open
    - held: the claim of the landing that has read it
    """

    path: str
    table: DeltaTable
    held: Claim | None = None

    @cached_property
    def rows(self) -> pads.Dataset:
        """Its rows as Arrow reads them; listing the files of a table once is enough for all its partitions."""
        return table_rows(self.table, self.path)

    @cached_property
    def parts(self) -> dict[str, pads.Fragment]:
        """By path: what reads that file."""
        return {part.path: part for part in self.rows.get_fragments()}

    @cached_property
    def files(self) -> list[dict[str, Any]]:
        """Its files as their actions name them, in the order in which they came."""
        actions = pa.table(self.table.get_add_actions()).to_pylist()
        return sorted(actions, key=lambda each: (each["modification_time"], each["path"]))


def small_partitions(table: DeltaTable, below: int, min_files: int) -> list[dict[str, Any]]:
    """Partition values of every partition worth compacting.

    - table: open
    - below: bytes; files that are smaller count
    - min_files: how many of them it takes
    """
    actions = pa.table(table.get_add_actions())
    if not table.metadata().partition_columns:
        raise ValueError("a table without partitions isn't landed by this package")
    values = actions.column("partition").to_pylist()
    sizes = actions.column("size_bytes").to_pylist()
    small = Counter(
        tuple(sorted(value.items())) for value, size in zip(values, sizes, strict=True) if size < below
    )
    return [dict(key) for key, count in small.items() if count >= min_files]


def _compact(version: Version, partition: dict[str, Any], below: int) -> Compaction:
    """Of one partition's files that are smaller, as many together as make one of that size."""
    done = Compaction()
    try:
        for files in _bins(version, partition, below):
            done += _merged(version, partition, files)
    except (*FAILURES, pa.ArrowException) as error:
        return done + Compaction(put_off=(f"{partition}: {said(error)}",))
    return done


@dataclass(frozen=True)
class _Small:
    """A file, as an action names it, and its bytes."""

    url: str
    size: int

    @property
    def path(self) -> str:
        return unquote(self.url)


def _bins(version: Version, partition: dict[str, Any], below: int) -> Iterator[list[_Small]]:
    theirs = (file for file in version.files if file["partition"] == partition)
    for files in grouped((file for file in theirs if file["size_bytes"] < below), below):
        if len(files) > 1:
            yield [_Small(file["path"], file["size_bytes"]) for file in files]


def grouped(files: Iterable[Mapping[str, Any]], most: int) -> Iterator[list[Mapping[str, Any]]]:
    """Neighbours that make one file together.

    - files: as actions name them
    - most: bytes of a group; a file that is larger is one by itself
    """
    group: list[Mapping[str, Any]] = []
    size = 0
    for file in files:
        if group and size + file["size_bytes"] > most:
            yield group
            group, size = [], 0
        group.append(file)
        size += file["size_bytes"]
    if group:
        yield group


def _merged(version: Version, partition: dict[str, Any], files: list[_Small]) -> Compaction:
    for _ in range(ATTEMPTS):
        table = _newest(version, files)
        new = _written(version, files, table.version())
        try:
            _swap(version, table, files, new)
        except FAILURES as error:
            with suppress(*FAILURES):  # else it stays: who knows what became of the commit
                remove_unmentioned(version.path, [new.path])
            refusal = error
        else:
            return Compaction(len(files), 1)
        if version.held is not None or not isinstance(refusal, CommitFailedError):
            break
    return Compaction(put_off=(f"{partition}: {said(refusal)}",))


def _newest(version: Version, files: list[_Small]) -> DeltaTable:
    """The table as it is now. Raises Fenced if the claim has ended, WrongTable if it lacks one of them."""
    table = open_table(version.path)
    if version.held is not None:
        version.held.check(table, version.path)
    if not {file.url for file in files} <= set(pa.table(table.get_add_actions())["path"].to_pylist()):
        raise WrongTable(f"{version.path}: another writer has replaced files meanwhile")
    return table


def _written(version: Version, files: list[_Small], number: int) -> DataFile:
    """One file with their rows. number: of the version that it's for, unless there's a claim."""
    import pyarrow.dataset as pads  # only where there's something to do: see deltatable.py

    table, rows = version.table, version.rows
    parts = [version.parts[file.path] for file in files]
    columns = table.metadata().partition_columns
    writer, epoch = BY_VERSION, number
    if version.held is not None:
        writer, epoch = version.held.writer.digest, version.held.epoch
    new = DataFiles(version.path, pa.schema(table.schema().to_arrow()), columns, writer=writer, epoch=epoch)
    try:
        for batch in pads.FileSystemDataset(parts, rows.schema, rows.format, rows.filesystem).to_batches():
            new.write(batch)
        (file,) = new.close()
    except BaseException:
        new.abandon()
        raise
    return file


def _swap(version: Version, table: DeltaTable, files: list[_Small], new: DataFile) -> None:
    """One commit, right after a version that has all of them and in which the claim holds; without a claim, right
    after this version. Raises CommitFailedError, WrongTable or Fenced."""
    old = [OldFile(file.path, file.size, new.partition) for file in files]
    for _ in range(ATTEMPTS if version.held is not None else 1):
        try:
            swap_files(table, [new], old, data_change=False)
        except CommitFailedError as error:
            refusal = error
            table = _newest(version, files)
            continue
        return
    raise refusal
