"""An Iceberg table as the engine `local` lands into it: stores, broker by broker, and topics of a cluster, queue
by queue.

As into a Delta table, but for what remembers: nothing is kept beside the table, whose snapshots say where each
broker's rows end (iceberg/snapshots.py), or each queue's (iceberg/queuenotes.py).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.errors import Fenced
from hatwisted.pipeline.delta.landedrows import landed_names, with_store_date
from hatwisted.pipeline.delta.queuetails import NOTED_QUEUES, QueueTails, last_of_queues
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.jobs.land.landingsources import Cluster, Stores
from hatwisted.pipeline.jobs.land.landoptions import LandOptions

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from hatwisted.pipeline.iceberg.icebergfiles import FileIds, IcebergFiles
    from hatwisted.pipeline.iceberg.snapshots import IcebergClaim

LANDING: Final = "hatwisted.landing"
LANDED_BROKERS: Final = "hatwisted.brokers"
"""Keys of a snapshot's summary: which name servers and topics are landed, as a digest, and the brokers of that."""


@dataclass
class Done:
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
    done: Done = field(default_factory=Done)
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
        return upkeep(self.table, self.name, self.how, self.ids)


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
        from hatwisted.pipeline.iceberg.snapshots import append

        run, files = self.landing, self.files
        finished = files.close()
        if not finished:
            return
        note = rows_note(files)
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


@dataclass
class IcebergQueues:
    """See QueueTable.

    - table: prepared
    - name: of the table
    - source: the topics
    - held: the claim of their brokers, by queue
    - how: options
    - ids: names of its files
    """

    table: Table
    name: str
    source: Cluster
    held: IcebergClaim
    how: LandOptions
    ids: FileIds
    done: Done = field(default_factory=Done)
    after: int = 0
    """The snapshot that this run knows the table by."""

    @property
    def columns(self) -> tuple[str, ...]:
        """See QueueTable."""
        return landed_names(self.how.columns)

    @property
    def brokers(self) -> Collection[str]:
        """See QueueTable."""
        return self.held.brokers

    def widen(self, brokers: Collection[str]) -> bool:
        """See QueueTable."""
        from hatwisted.pipeline.iceberg.icebergfiles import FileIds
        from hatwisted.pipeline.iceberg.orphans import remove_left
        from hatwisted.pipeline.iceberg.snapshots import claim

        wanted = {*self.held.brokers, *brokers}
        if wanted == {*self.held.brokers}:
            return False
        self.held = claim(self.table, self.name, wanted, self.held, by_queue=True)
        self.ids = FileIds(self.held.run)
        remove_left(self.table, self.name, self.held.ended)
        return True

    def tails(self) -> QueueTails:
        """See QueueTable."""
        from hatwisted.pipeline.iceberg.queuenotes import BroughtQueues, append_queues, landed_queues

        self._look()
        found, unknown = landed_queues(self.table, self.name, self.held.brokers)
        if unknown and len(found) <= NOTED_QUEUES:
            all_of_them = BroughtQueues(found, self.after, complete=True)
            append_queues(self.table, self.name, [], held=self.held, brought=all_of_them, note=self.note)
            self._look()
        return found

    def former(self) -> Collection[str]:
        """See QueueTable."""
        from hatwisted.pipeline.iceberg.snapshots import line, summary_of

        digest = self.source.identity().digest
        said = (summary_of(snapshot) for snapshot in line(self.table))
        brokers = next((each[LANDED_BROKERS] for each in said if each.get(LANDING) == digest), "[]")
        return [str(broker) for broker in json.loads(brokers)]

    def batch(self) -> IcebergQueueBatch:
        """See QueueTable."""
        from hatwisted.pipeline.iceberg.icebergfiles import IcebergFiles

        return IcebergQueueBatch(self, IcebergFiles(self.table, self.name, self.ids))

    def upkeep(self) -> Compaction:
        """See QueueTable."""
        return upkeep(self.table, self.name, self.how, self.ids)

    @property
    def note(self) -> dict[str, str]:
        """For a snapshot: whose it is."""
        return {LANDING: self.source.identity().digest, LANDED_BROKERS: json.dumps(sorted(self.held.brokers))}

    def landed(self) -> None:
        """A snapshot of this run is the newest."""
        self._look()

    def _look(self) -> None:
        snapshot = self.table.current_snapshot()
        assert snapshot is not None  # the claim's at least
        self.after = snapshot.snapshot_id


@dataclass
class IcebergQueueBatch:
    """See QueueBatch.

    - landing: which
    - files: new ones
    """

    landing: IcebergQueues
    files: IcebergFiles
    size: int = 0
    tails: QueueTails = field(default_factory=dict)

    def write(self, rows: pa.RecordBatch) -> int:
        """See QueueBatch."""
        self.files.write(with_store_date(rows))
        self.tails |= last_of_queues(rows)
        size: int = pc.sum(rows.column("size")).as_py() or 0
        self.size += size
        return size

    def commit(self) -> bool:
        """See QueueBatch."""
        from hatwisted.pipeline.iceberg.orphans import remove_unmentioned
        from hatwisted.pipeline.iceberg.queuenotes import BroughtQueues, append_queues

        run, files = self.landing, self.files
        finished = files.close()
        if not finished:
            return False
        note = run.note | rows_note(files) | run.ids.note
        try:
            brought = BroughtQueues(self.tails, run.after)
            append_queues(run.table, run.name, finished, held=run.held, brought=brought, note=note)
        except Fenced:
            # Whatever became of its tries, there won't be another one.
            remove_unmentioned(run.table, run.name, [file.file_path for file in finished])
            raise
        run.landed()
        run.done.add(files, finished, run.table)
        return True

    def drop(self) -> None:
        """See QueueBatch: those of a commit under way stay, since who knows what became of it."""
        self.files.drop()


def rows_note(files: IcebergFiles) -> dict[str, str]:
    """For a snapshot: what it brings."""
    from hatwisted.pipeline.iceberg.snapshots import NOTE

    return {f"{NOTE}rows": str(files.rows), f"{NOTE}log_bytes": str(files.log_bytes)}


def upkeep(table: Table, name: str, how: LandOptions, ids: FileIds) -> Compaction:
    """Merge small files, and forget old snapshots.

    - table: which
    - name: of the table, for errors
    - how: options
    - ids: names of the run's files
    """
    from hatwisted.pipeline.iceberg.upkeep import compact, expire

    below = how.compact_below
    done = Compaction() if below is None else compact(table, name, below, ids)
    expire(table, name)
    return done
