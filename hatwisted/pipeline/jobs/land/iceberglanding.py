"""An Iceberg table as the engine `local` lands into it.

As into a Delta table, but for what remembers: nothing is kept beside the table, whose snapshots say where each
broker's rows end (iceberg/snapshots.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.errors import Fenced
from hatwisted.pipeline.delta.landedrows import landed_names, landed_schema
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.jobs.land.landingsources import LandingSource, Stores
from hatwisted.pipeline.jobs.land.landoptions import LandOptions, LandResult, Progress
from hatwisted.pipeline.jobs.land.locallanding import LocalLanding, unsupported

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from hatwisted.pipeline.iceberg.icebergfiles import FileIds, IcebergFiles
    from hatwisted.pipeline.iceberg.snapshots import IcebergClaim


def check_iceberg(source: LandingSource, table: str, how: LandOptions) -> None:
    """Raises PipelineError if this can't be landed there.

    - source: what is landed
    - table: its name
    - how: options
    """
    reason = unsupported(source, how) if isinstance(source, Stores) else "it takes stores, and no cluster"
    if how.engine == "spark":
        reason = "Spark's part is Delta"
    elif reason is None and how.schemas:
        reason = "bodies become columns in Delta tables only"
    elif reason is None and how.checkpoint is not None:
        reason = "it keeps no checkpoint, as the table says how far it is"
    if reason is not None:
        raise PipelineError(f"{table}: Iceberg tables are landed by the engine local: {reason}")


def land_iceberg(
    source: LandingSource,
    table: str,
    how: LandOptions,
    *,
    progress: Progress,
    stop: threading.Event,
    seconds: Callable[[], float],
) -> LandResult:
    """As `land`.

    - source: what is landed
    - table: its name
    - how: options
    - progress: called with (bytes done, bytes in all)
    - stop: ends it
    - seconds: the clock
    """
    name = IcebergName.parse(table)
    check_iceberg(source, table, how)
    assert isinstance(source, Stores)
    brokers, begun = source.writer().brokers, seconds()
    opened = name.prepare(landed_schema(how.columns))
    from hatwisted.pipeline.iceberg.icebergfiles import FileIds
    from hatwisted.pipeline.iceberg.orphans import remove_left
    from hatwisted.pipeline.iceberg.snapshots import claim, landed_tails

    source.check(landed_tails(opened, table, brokers))
    held = claim(opened, table, brokers)
    removed = remove_left(opened, table, held.ended)
    run = IcebergLanding(opened, table, source, held, how, FileIds(held.run))
    compaction, stopped = LocalLanding(run, source, how, progress, seconds).run(stop)
    done = run.done
    return LandResult(
        table=table,
        rows=done.rows,
        bytes=done.bytes,
        log_bytes=done.log_bytes,
        files=done.files,
        versions=tuple(done.snapshots),
        seconds=seconds() - begun,
        removed=len(removed),
        compacted=compaction.removed,
        put_off=compaction.put_off,
        dead_letters={},
        damages=0,
        stopped=stopped,
    )


@dataclass
class _Done:
    """What a run has landed."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    log_bytes: int = 0
    snapshots: list[int] = field(default_factory=list)

    def add(self, batch: IcebergFiles, files: Sequence[DataFile], table: Table) -> None:
        """A batch that the table now has.

        - batch: which
        - files: its files
        - table: with it
        """
        snapshot = table.current_snapshot()
        assert snapshot is not None
        self.rows += batch.rows
        self.files += len(files)
        self.bytes += sum(file.file_size_in_bytes for file in files)
        self.log_bytes += batch.log_bytes
        self.snapshots.append(snapshot.snapshot_id)


@dataclass
class IcebergLanding:
    """See LandedTable.

    - table: prepared
    - name: of the table
    - source: the stores
    - held: the claim of their brokers
    - how: options
    - ids: names of its files
    """

    table: Table
    name: str
    source: Stores
    held: IcebergClaim
    how: LandOptions
    ids: FileIds
    done: _Done = field(default_factory=_Done)
    ends: dict[str, Tail] = field(default_factory=dict)
    """Where each broker's rows end, as this run knows it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """See LandedTable."""
        return landed_names(self.how.columns)

    @property
    def brokers(self) -> Collection[str]:
        """See LandedTable."""
        return self.held.brokers

    def tails(self) -> dict[str, Tail]:
        """See LandedTable."""
        from hatwisted.pipeline.iceberg.icebergfiles import FileIds
        from hatwisted.pipeline.iceberg.orphans import remove_left
        from hatwisted.pipeline.iceberg.snapshots import claim, landed_tails

        brokers = {*self.held.brokers, *self.source.writer().brokers}
        if brokers > {*self.held.brokers}:
            self.held = claim(self.table, self.name, brokers, self.held)
            self.ids = FileIds(self.held.run)
            remove_left(self.table, self.name, self.held.ended)
        self.ends = landed_tails(self.table, self.name, self.held.brokers)
        return dict(self.ends)

    def batch(self) -> IcebergBatch:
        """See LandedTable."""
        from hatwisted.pipeline.iceberg.icebergfiles import IcebergFiles

        return IcebergBatch(self, IcebergFiles(self.table, self.name, self.ids))

    def upkeep(self) -> Compaction:
        """Merge small files, and forget old snapshots."""
        from hatwisted.pipeline.iceberg.upkeep import compact, expire

        below = self.how.compact_below
        done = Compaction() if below is None else compact(self.table, self.name, below, self.ids)
        expire(self.table, self.name)
        return done


@dataclass
class IcebergBatch:
    """See Batch.

    - landing: which
    - files: new ones
    """

    landing: IcebergLanding
    files: IcebergFiles

    def write(self, rows: pa.RecordBatch) -> None:
        """See Batch."""
        self.files.write(rows)

    def commit(self) -> None:
        """See Batch."""
        from hatwisted.pipeline.iceberg.orphans import remove_unmentioned
        from hatwisted.pipeline.iceberg.snapshots import NOTE, append

        run, files = self.landing, self.files
        finished = files.close()
        if not finished:
            return
        note = {f"{NOTE}rows": str(files.rows), f"{NOTE}log_bytes": str(files.log_bytes)}
        moved = {broker: (run.ends.get(broker), tail) for broker, tail in files.tails.items()}
        try:
            append(run.table, run.name, finished, held=run.held, moved=moved, note=note | run.ids.note)
        except Fenced:
            # Whatever became of its tries, there won't be another one.
            remove_unmentioned(run.table, run.name, [file.file_path for file in finished])
            raise
        run.ends |= files.tails
        run.done.add(files, finished, run.table)

    def drop(self) -> None:
        """See Batch: those of a commit under way stay, since who knows what became of it."""
        self.files.drop()
