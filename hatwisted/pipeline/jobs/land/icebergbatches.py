"""An Iceberg table as the engine `local` lands into it: stores, broker by broker, and topics of a cluster, queue
by queue; and as Spark's tasks do, stores. (How a stream does: icebergquery.py.)

As into a Delta table, but for what remembers: nothing is kept beside the table, whose snapshots say where each
broker's rows end (iceberg/snapshots.py), or each queue's (iceberg/queuenotes.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.errors import Fenced, NoRoom, WrongTable
from hatwisted.pipeline.delta.landedfiles import columns_to_read
from hatwisted.pipeline.delta.queuetails import NOTED_QUEUES, QueueTails
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.jobs.land.landingsources import Cluster, Stores
from hatwisted.pipeline.jobs.land.landoptions import LandOptions
from hatwisted.pipeline.jobs.land.logsplits import is_lossy

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from hatwisted.pipeline.decode.storefolder import Split
    from hatwisted.pipeline.iceberg.catalogs import IcebergName
    from hatwisted.pipeline.iceberg.fileids import FileIds
    from hatwisted.pipeline.iceberg.landedfiles import LandedBatch, LandedTables, RowFiles, WrittenFiles
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
    dead_letters: Counter[str] = field(default_factory=Counter)

    def add(self, written: WrittenFiles, table: Table) -> None:
        """A batch that the table now has.

        - written: what it brought
        - table: with it
        """
        snapshot = table.current_snapshot()
        assert snapshot is not None
        self.rows += written.rows
        self.files += len(written.files)
        self.bytes += sum(file.file_size_in_bytes for file in written.files)
        self.log_bytes += written.log_bytes
        self.dead_letters += written.counts
        self.snapshots.append(snapshot.snapshot_id)


@dataclass(kw_only=True)
class _ClaimedIceberg:
    """See ClaimedTable.

    - into: the table, and that of its dead letters
    - held: the claim of the brokers
    - how: options
    - ids: names of its files
    """

    by_queue: ClassVar[bool]
    """Are queues landed?"""
    into: LandedTables
    held: IcebergClaim
    how: LandOptions
    ids: FileIds
    done: Done = field(default_factory=Done)

    @property
    def columns(self) -> tuple[str, ...]:
        """See ClaimedTable."""
        return columns_to_read(self.how.columns, self.how.schemas)

    @property
    def table(self) -> Table:
        """Where rows land."""
        return self.into.table

    @property
    def name(self) -> str:
        """The table's."""
        return str(self.into.name)

    @property
    def brokers(self) -> Collection[str]:
        """See ClaimedTable."""
        return self.held.brokers

    def widen(self, brokers: Collection[str]) -> bool:
        """Claim these brokers as well; False if they all are."""
        from hatwisted.pipeline.iceberg.fileids import FileIds
        from hatwisted.pipeline.iceberg.snapshots import claim

        wanted = {*self.held.brokers, *brokers}
        if wanted == {*self.held.brokers}:
            return False
        self.held = claim(self.table, self.name, wanted, self.held, self.by_queue)
        self.ids = FileIds(self.held.run)
        settle_ended(self.table, self.into.name, self.held.ended)
        return True

    def batch(self) -> IcebergBatch:
        """See ClaimedTable."""
        from hatwisted.pipeline.iceberg.landedfiles import RowFiles

        return IcebergBatch(self, RowFiles(self.into, self.ids))

    def upkeep(self) -> Compaction:
        """Merge small files, and forget old snapshots, but none that promises what nobody has kept."""
        from hatwisted.pipeline.iceberg.deadletters import settle
        from hatwisted.pipeline.iceberg.fileids import SnapshotIds
        from hatwisted.pipeline.iceberg.orphans import remove_passed
        from hatwisted.pipeline.iceberg.upkeep import compact, expire

        settle(self.table, self.into.name)
        done, below = Compaction(), self.how.compact_below
        for table, name in ((self.table, self.into.name), (self.into.beside, self.into.name.beside)):
            if table is not None:
                if below is not None:
                    # By other names than this run's: a claim doesn't end a compaction.
                    found = compact(table, str(name), below, SnapshotIds(table))
                    if found.added:
                        with suppress(WrongTable, NoRoom):  # the next one tries again
                            remove_passed(table, str(name))
                    done += found
                expire(table, str(name))
        return done

    def commit(self, written: WrittenFiles, queues: QueueTails | None = None) -> bool:
        """Whole files into the tables, all of them or none; False without rows: nothing happened.

        - written: the files
        - queues: where they end, if queues are landed
        """
        from hatwisted.pipeline.iceberg.landedfiles import LandedBatch

        if not written.files:
            return False
        batch = LandedBatch(self.into, written, self.ids)
        try:
            self.append(batch, queues)
        except Fenced:
            batch.remove()  # whatever became of its tries, there won't be another one
            raise
        batch.keep()
        self.done.add(written, self.table)
        return True

    def append(self, batch: LandedBatch, queues: QueueTails | None) -> None:
        """A snapshot with a batch.

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
    files: RowFiles

    def write(self, rows: pa.RecordBatch) -> None:
        """See Batch."""
        self.files.write(rows)

    def commit(self, queues: QueueTails | None = None) -> bool:
        """See Batch."""
        return self.landing.commit(self.files.close(), queues)

    def drop(self) -> None:
        """See Batch: those of a commit under way stay, since who knows what became of it."""
        self.files.drop()


@dataclass(kw_only=True)
class IcebergLanding(_ClaimedIceberg):
    """See LandedTable and TaskedTable. source: the stores."""

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

    def task(self) -> Callable[[Split], WrittenFiles]:
        """See TaskedTable. What a catalog lends for the files is lent anew."""
        from hatwisted.pipeline.iceberg.tasktables import TaskTables
        from hatwisted.pipeline.jobs.land.icebergtask import IcebergTask

        tables = TaskTables.refreshed(self.into)
        return IcebergTask(tables, self.held.run, self.columns, is_lossy(self.source)).run

    def add(self, parts: Sequence[WrittenFiles]) -> None:
        """See TaskedTable."""
        from hatwisted.pipeline.iceberg.landedfiles import WrittenFiles

        whole = WrittenFiles()
        for part in parts:
            whole += part
        self.commit(whole)

    def clean(self) -> None:
        """See TaskedTable."""
        with suppress(WrongTable, NoRoom):  # the next landing does it, and why this one failed is what counts
            settle_ended(self.table, self.into.name, [self.held.run])

    def append(self, batch: LandedBatch, queues: QueueTails | None) -> None:
        """See _ClaimedIceberg."""
        from hatwisted.pipeline.iceberg.snapshots import append

        written, tails = batch.written, batch.written.reach.tails
        moved = {broker: (self.ends.get(broker), tail) for broker, tail in tails.items()}
        note = rows_note(written) | batch.note
        append(self.table, self.name, written.files, held=self.held, moved=moved, note=note)
        self.ends |= tails


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

    def append(self, batch: LandedBatch, queues: QueueTails | None) -> None:
        """See _ClaimedIceberg."""
        from hatwisted.pipeline.iceberg.queuenotes import BroughtQueues, append_queues

        brought = BroughtQueues(queues or {}, self.after)
        note = self.note | rows_note(batch.written) | batch.note
        append_queues(self.table, self.name, batch.written.files, held=self.held, brought=brought, note=note)
        self._look()

    @property
    def note(self) -> dict[str, str]:
        """For a snapshot: whose it is."""
        return {LANDING: self.source.identity().digest, LANDED_BROKERS: json.dumps(sorted(self.held.brokers))}

    def _look(self) -> None:
        snapshot = self.table.current_snapshot()
        assert snapshot is not None  # the claim's at least
        self.after = snapshot.snapshot_id


def settle_ended(table: Table, name: IcebergName, ended: Collection[str]) -> list[str]:
    """Make up for what runs have promised that have just ended by a claim, and remove what they left; the files'
    addresses.

    - table: which
    - name: of the table
    - ended: names of the runs
    """
    from hatwisted.pipeline.iceberg.deadletters import remove_left_beside, settle
    from hatwisted.pipeline.iceberg.orphans import remove_left, remove_passed

    settle(table, name)
    left = remove_left(table, str(name), ended) + remove_passed(table, str(name))
    return left + remove_left_beside(name, ended)


def rows_note(written: WrittenFiles) -> dict[str, str]:
    """For a snapshot: what it brings."""
    from hatwisted.pipeline.iceberg.snapshots import NOTE

    return {f"{NOTE}rows": str(written.rows), f"{NOTE}log_bytes": str(written.log_bytes)}
