"""An Iceberg table as the engine `local` lands into it: stores, broker by broker, and topics of a cluster, queue
by queue.

As into a Delta table, but for what remembers: nothing is kept beside the table, whose snapshots say where each
broker's rows end (iceberg/snapshots.py), or each queue's (iceberg/queuenotes.py).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.errors import Fenced
from hatwisted.pipeline.delta.landedrows import landed_names
from hatwisted.pipeline.delta.queuetails import NOTED_QUEUES, QueueTails
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


@dataclass(kw_only=True)
class _ClaimedIceberg:
    """See ClaimedTable.

    - table: prepared
    - name: of the table
    - held: the claim of the brokers
    - how: options
    - ids: names of its files
    """

    by_queue: ClassVar[bool]
    """Are queues landed?"""
    table: Table
    name: str
    held: IcebergClaim
    how: LandOptions
    ids: FileIds
    done: Done = field(default_factory=Done)

    @property
    def columns(self) -> tuple[str, ...]:
        """See ClaimedTable."""
        return landed_names(self.how.columns)

    @property
    def brokers(self) -> Collection[str]:
        """See ClaimedTable."""
        return self.held.brokers

    def widen(self, brokers: Collection[str]) -> bool:
        """Claim these brokers as well; False if they all are."""
        from hatwisted.pipeline.iceberg.icebergfiles import FileIds
        from hatwisted.pipeline.iceberg.orphans import remove_left
        from hatwisted.pipeline.iceberg.snapshots import claim

        wanted = {*self.held.brokers, *brokers}
        if wanted == {*self.held.brokers}:
            return False
        self.held = claim(self.table, self.name, wanted, self.held, self.by_queue)
        self.ids = FileIds(self.held.run)
        remove_left(self.table, self.name, self.held.ended)
        return True

    def batch(self) -> IcebergBatch:
        """See ClaimedTable."""
        from hatwisted.pipeline.iceberg.icebergfiles import IcebergFiles

        return IcebergBatch(self, IcebergFiles(self.table, self.name, self.ids))

    def upkeep(self) -> Compaction:
        """Merge small files, and forget old snapshots."""
        from hatwisted.pipeline.iceberg.upkeep import compact, expire

        below = self.how.compact_below
        done = Compaction() if below is None else compact(self.table, self.name, below, self.ids)
        expire(self.table, self.name)
        return done

    def append(self, finished: Sequence[DataFile], batch: IcebergFiles, queues: QueueTails | None) -> None:
        """A snapshot with a batch.

        - finished: its files
        - batch: what it brings
        - queues: where they end, if queues are landed
        """
        raise NotImplementedError


@dataclass
class IcebergBatch:
    """See Batch.

    - landing: which
    - files: new ones
    """

    landing: _ClaimedIceberg
    files: IcebergFiles

    def write(self, rows: pa.RecordBatch) -> None:
        """See Batch."""
        self.files.write(rows)

    def commit(self, queues: QueueTails | None = None) -> bool:
        """See Batch."""
        from hatwisted.pipeline.iceberg.orphans import remove_unmentioned

        run, finished = self.landing, self.files.close()
        if not finished:
            return False
        try:
            run.append(finished, self.files, queues)
        except Fenced:
            # Whatever became of its tries, there won't be another one.
            remove_unmentioned(run.table, run.name, [file.file_path for file in finished])
            raise
        run.done.add(self.files, finished, run.table)
        return True

    def drop(self) -> None:
        """See Batch: those of a commit under way stay, since who knows what became of it."""
        self.files.drop()


@dataclass(kw_only=True)
class IcebergLanding(_ClaimedIceberg):
    """See LandedTable. source: the stores."""

    by_queue: ClassVar[bool] = False
    source: Stores
    ends: dict[str, Tail] = field(default_factory=dict)
    """Where each broker's rows end, as this run knows it."""

    def tails(self) -> dict[str, Tail]:
        """See LandedTable."""
        from hatwisted.pipeline.iceberg.snapshots import landed_tails

        self.widen(self.source.writer().brokers)
        self.ends = landed_tails(self.table, self.name, self.held.brokers)
        return dict(self.ends)

    def append(self, finished: Sequence[DataFile], batch: IcebergFiles, queues: QueueTails | None) -> None:
        """See _ClaimedIceberg."""
        from hatwisted.pipeline.iceberg.snapshots import append

        moved = {broker: (self.ends.get(broker), tail) for broker, tail in batch.tails.items()}
        note = rows_note(batch) | self.ids.note
        append(self.table, self.name, finished, held=self.held, moved=moved, note=note)
        self.ends |= batch.tails


@dataclass(kw_only=True)
class IcebergQueues(_ClaimedIceberg):
    """See QueueTable. source: the topics."""

    by_queue: ClassVar[bool] = True
    source: Cluster
    after: int = 0
    """The snapshot that this run knows the table by."""

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

    def append(self, finished: Sequence[DataFile], batch: IcebergFiles, queues: QueueTails | None) -> None:
        """See _ClaimedIceberg."""
        from hatwisted.pipeline.iceberg.queuenotes import BroughtQueues, append_queues

        brought = BroughtQueues(queues or {}, self.after)
        note = self.note | rows_note(batch) | self.ids.note
        append_queues(self.table, self.name, finished, held=self.held, brought=brought, note=note)
        self._look()

    @property
    def note(self) -> dict[str, str]:
        """For a snapshot: whose it is."""
        return {LANDING: self.source.identity().digest, LANDED_BROKERS: json.dumps(sorted(self.held.brokers))}

    def _look(self) -> None:
        snapshot = self.table.current_snapshot()
        assert snapshot is not None  # the claim's at least
        self.after = snapshot.snapshot_id


def rows_note(files: IcebergFiles) -> dict[str, str]:
    """For a snapshot: what it brings."""
    from hatwisted.pipeline.iceberg.snapshots import NOTE

    return {f"{NOTE}rows": str(files.rows), f"{NOTE}log_bytes": str(files.log_bytes)}
