"""Many small files into few: delta-rs's compaction, where it pays and disturbs no reader.

Each trigger adds a file per partition and task, so a landing that follows a log leaves many small ones. A
partition is rewritten when it has `MIN_FILES` much smaller than the target, not at every opportunity: a row is
then rewritten about target / (MIN_FILES * batch) times at most, and what a large batch writes isn't written
twice. delta-rs writes the new files, then one commit swaps them for the old ones with `dataChange` false.
Readers of the previous version go on reading the old files, which stay until Delta's vacuum is run;
appends don't conflict with it; the batch numbers of landings aren't touched by it. A compaction that loses
against another writer has changed nothing, and the next one tries again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties
from deltalake.exceptions import DeltaError

from hatwisted.pipeline.delta.datafiles import COMPRESSION_LEVEL
from hatwisted.pipeline.delta.deltatable import one_line, open_table

MIN_FILES: Final = 8
"""Small files of a partition that make it worth being rewritten."""
SMALL_PART: Final = 4
"""A file is small below this part of the target: merging four into one saves a reader less than it costs."""
TASKS: Final = 1
"""Partitions that are rewritten at a time: one holds at most `below` bytes and the landing needs the cores."""


@dataclass(frozen=True)
class Compaction:
    """What was done: files replaced by how many, and partitions left for another time with the reason."""

    removed: int = 0
    added: int = 0
    put_off: tuple[str, ...] = ()

    def __add__(self, other: Compaction) -> Compaction:
        return Compaction(
            self.removed + other.removed, self.added + other.added, self.put_off + other.put_off
        )


def compact(path: str, below: int, *, min_files: int = MIN_FILES) -> Compaction:
    """Rewrite small files into bigger ones.

    - path: of the table
    - below: bytes; smaller files are rewritten into files of this size
    - min_files: in partitions with at least as many small files
    """
    table = open_table(path)
    done = Compaction()
    for partition in small_partitions(table, below // SMALL_PART, min_files):
        done += _compact(table, partition, below)
    return done


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


def _compact(table: DeltaTable, partition: dict[str, Any], below: int) -> Compaction:
    filters = [(column, "=", "" if value is None else str(value)) for column, value in partition.items()]
    try:
        found = table.optimize.compact(
            partition_filters=filters,
            target_size=below,
            max_concurrent_tasks=TASKS,
            writer_properties=WriterProperties(compression="ZSTD", compression_level=COMPRESSION_LEVEL),
        )
    except (DeltaError, OSError) as error:
        return Compaction(put_off=(f"{partition}: {one_line(error)}",))
    return Compaction(found["numFilesRemoved"], found["numFilesAdded"])
