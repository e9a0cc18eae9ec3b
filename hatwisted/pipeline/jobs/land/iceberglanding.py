"""Landing into an Iceberg table: by the engine `local`, without Spark and Java.

As into a Delta table, but for what remembers: nothing is kept beside the table, whose snapshots say where each
broker's rows end (iceberg/snapshots.py). Records are committed in the order of the log, so what the table has is
always a log's beginning without a gap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.landedrows import landed_names, landed_schema, with_store_date
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.jobs.land.landingrounds import land_in_rounds
from hatwisted.pipeline.jobs.land.landingsources import LandingSource, Stores
from hatwisted.pipeline.jobs.land.landoptions import LandOptions, LandResult, Progress
from hatwisted.pipeline.jobs.land.locallanding import SPLIT_BYTES, unsupported
from hatwisted.pipeline.jobs.land.logsplits import log_splits

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from hatwisted.pipeline.iceberg.icebergfiles import IcebergFiles
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
    from hatwisted.pipeline.iceberg.snapshots import claim, landed_tails

    source.check(landed_tails(opened, table, brokers))
    held = claim(opened, table, brokers)
    run = IcebergLanding(opened, table, source, held, how, progress)
    compaction, stopped = run.run(stop, seconds)
    done = run.done
    return LandResult(
        table=table,
        rows=done.rows,
        bytes=done.bytes,
        log_bytes=done.log_bytes,
        files=done.files,
        versions=tuple(done.snapshots),
        seconds=seconds() - begun,
        removed=0,
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


@dataclass
class IcebergLanding:
    """One run.

    - table: prepared
    - name: of the table
    - source: the stores
    - held: the claim of their brokers
    - how: options
    - progress: called with (bytes done, bytes in all)
    """

    table: Table
    name: str
    source: Stores
    held: IcebergClaim
    how: LandOptions
    progress: Progress
    done: _Done = field(default_factory=_Done)

    def run(self, stop: threading.Event, seconds: Callable[[], float]) -> tuple[Compaction, bool]:
        """(what was compacted, whether it was stopped before its end)."""
        return land_in_rounds(self.how, partial(self._land, stop), self._upkeep, stop, seconds)

    def _land(self, stop: threading.Event) -> None:
        """All that there is now, or what there's time for before the stop."""
        from hatwisted.pipeline.iceberg.icebergfiles import IcebergFiles

        tails = self._tails()
        total, done, waiting = self.source.backlog(tails), 0, 0
        begins = {broker: tail.end for broker, tail in tails.items()}
        files = IcebergFiles(self.table, self.name)
        try:
            for split in log_splits(self.source, begins, min(SPLIT_BYTES, self.how.max_bytes_per_trigger)):
                for batch in read_split(split, landed_names(self.how.columns)):
                    files.write(with_store_date(batch))
                size = split.end - split.begin
                done, waiting = done + size, waiting + size
                self.progress(min(done, total), total)
                if waiting >= self.how.max_bytes_per_trigger:
                    full, files, waiting = files, IcebergFiles(self.table, self.name), 0
                    self._commit(full, tails)
                if stop.is_set():
                    break
            whole, files = files, IcebergFiles(self.table, self.name)
            self._commit(whole, tails)
        except BaseException:
            # Those of a commit under way stay: who knows what became of it.
            files.drop()
            raise

    def _tails(self) -> dict[str, Tail]:
        """Where the table ends. A store that has just appeared is claimed first. At every look each one has to be
        the log of which the table has rows: another one may have taken its folder."""
        from hatwisted.pipeline.iceberg.snapshots import claim, landed_tails

        brokers = {*self.held.brokers, *self.source.writer().brokers}
        if brokers > {*self.held.brokers}:
            self.held.check(self.table, self.name)
            self.held = claim(self.table, self.name, brokers)
        tails = landed_tails(self.table, self.name, self.held.brokers)
        self.source.check(tails)
        return tails

    def _commit(self, files: IcebergFiles, tails: dict[str, Tail]) -> None:
        """tails: before; changed to those after."""
        from hatwisted.pipeline.iceberg.snapshots import append

        finished = files.close()
        if not finished:
            return
        size = sum(file.file_size_in_bytes for file in finished)
        note: Mapping[str, int] = {"rows": files.rows, "log_bytes": files.log_bytes}
        moved = {broker: (tails.get(broker), tail) for broker, tail in files.tails.items()}
        append(self.table, self.name, finished, held=self.held, moved=moved, note=note)
        tails.update(files.tails)
        self.done.rows += files.rows
        self.done.files += len(finished)
        self.done.bytes += size
        self.done.log_bytes += files.log_bytes
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        self.done.snapshots.append(snapshot.snapshot_id)

    def _upkeep(self) -> Compaction:
        from hatwisted.pipeline.iceberg.upkeep import compact, expire

        below = self.how.compact_below
        done = Compaction() if below is None else compact(self.table, self.name, below)
        expire(self.table, self.name)
        return done
