"""Many small files into few, and old snapshots out of the table's metadata.

A partition with `MIN_FILES` files much smaller than the target is rewritten: its small files are read, and one
commit puts larger ones in their place. Readers of older snapshots go on reading the old files; appends don't
conflict with it, as whoever comes second looks again; a compaction that loses has changed nothing. pyiceberg
knows no snapshots of the kind `replace`, so for those who read a table's changes these are overwrites, which
Spark's stream can be told to leave out (`streaming-skip-overwrite-snapshots`).

Snapshots expire by the table's own property `history.expire.max-snapshot-age-ms`, if it has one, but for the
newest `history.expire.min-snapshots-to-keep`, and with them the files that nothing else mentions (orphans.py).
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan

from hatwisted.pipeline.delta.compaction import MIN_FILES, SMALL_PART, Compaction
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.iceberg.catalogs import MAX_AGE, plainly
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.icebergfiles import data_files
from hatwisted.pipeline.iceberg.orphans import expired_files, remove_files
from hatwisted.pipeline.iceberg.snapshots import replace_files

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

KEPT: Final = "history.expire.min-snapshots-to-keep"
READ_BYTES: Final = 64 << 20
"""Of small files that are rewritten at a time: their rows are in memory, several times as large."""


def compact(table: Table, name: str, below: int, ids: FileIds) -> Compaction:
    """Rewrite small files into bigger ones; none where pyiceberg can't tell which rows there are.

    - table: which
    - name: of the table, for errors
    - below: bytes; smaller files are rewritten into files of about this size
    - ids: names of the run's files
    """
    done = Compaction()
    try:
        with plainly(name):
            table.refresh()
            groups = _small_files(table, below)
    except WrongTable as error:  # as of equality deletes, which pyiceberg doesn't know
        return Compaction(put_off=(str(error),))
    for partition, tasks in groups:
        try:
            done += _compacted(table, name, tasks, ids)
        except WrongTable as error:
            done += Compaction(put_off=(f"{partition}: {error}",))
    return done


def _small_files(table: Table, below: int) -> list[tuple[Any, list[FileScanTask]]]:
    """Of each partition that is worth it, at most as many bytes as one new file has."""
    partitions: dict[Any, list[FileScanTask]] = defaultdict(list)
    for task in table.scan().plan_files():
        if task.file.file_size_in_bytes < below // SMALL_PART:
            partitions[task.file.spec_id, str(task.file.partition)].append(task)
    found = []
    for partition, tasks in partitions.items():
        taken: list[FileScanTask] = []
        size = 0
        for task in sorted(tasks, key=lambda task: task.file.file_size_in_bytes):
            if size + task.file.file_size_in_bytes <= min(below, READ_BYTES):
                taken.append(task)
                size += task.file.file_size_in_bytes
        if len(taken) >= MIN_FILES:
            found.append((partition[1], taken))
    return found


def _compacted(table: Table, name: str, tasks: list[FileScanTask], ids: FileIds) -> Compaction:
    with plainly(name):
        schema = table.schema()
        rows = ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table(tasks)
        ordered = rows.sort_by([("broker", "ascending"), ("physical_offset", "ascending")])
        new = data_files(table, name, ordered, ids)
    if replace_files(table, name, [task.file for task in tasks], new, ids.note):
        return Compaction(len(tasks), len(new))
    for file in new:
        # A later run may have taken it for what a killed one has left.
        with suppress(FileNotFoundError):
            table.io.delete(file.file_path)
    with plainly(name):
        table.refresh()
    return Compaction(put_off=(f"{name}: another writer was quicker",))


def expire(table: Table, name: str, now: datetime | None = None) -> int:
    """Forget snapshots that are older than the table's property says, and remove their files; how many. One that
    conflicts with another writer waits for the next time.

    - table: which
    - name: of the table, for errors
    - now: the time; None: the clock's
    """
    with plainly(name):
        table.refresh()
        age = table.properties.get(MAX_AGE)
        if age is None:
            return 0
        before = (now or datetime.now(UTC)) - timedelta(milliseconds=int(age))
        kept = max(1, int(table.properties.get(KEPT, "1")))
        limit = before.timestamp() * 1000
        newest = sorted(table.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)[-kept:]
        protected = {reference.snapshot_id for reference in table.refs().values()}
        protected |= {snapshot.snapshot_id for snapshot in newest}
        old = [
            snapshot.snapshot_id
            for snapshot in table.snapshots()
            if snapshot.timestamp_ms < limit and snapshot.snapshot_id not in protected
        ]
        if not old:
            return 0
    try:
        with plainly(name):
            garbage = expired_files(table, old)
            table.maintenance.expire_snapshots().by_ids(old).commit()
    except WrongTable:
        return 0
    remove_files(table, garbage)
    return len(old)
