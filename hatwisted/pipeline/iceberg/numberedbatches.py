"""Batches that have numbers, as Spark gives them: each is in an Iceberg table once, however often it's made again.

A snapshot says which batch it brings, beside where its rows end in the logs, so that whoever lands next, with
another engine, goes on there:

    hatwisted.batch   hatwisted.land/5f0c... 17

A batch is in the table if one of its snapshots, from the newest one back, has its number or a later one. With a
table that is rolled back, what later snapshots said is gone: a landing that is running ends then, and the next one
goes on where the rows end.

Numbers alone wouldn't do where a checkpoint is old or its snapshots have expired, so a batch of a log has to begin
where the table's rows of that broker end, or later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hatwisted.pipeline.delta.errors import LAND_AGAIN, WrongTable
from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.iceberg.queuenotes import BroughtQueues, queues_noted
from hatwisted.pipeline.iceberg.snapshots import (
    IcebergClaim,
    append_once,
    landed_tails,
    line,
    summary_of,
    tails_noted,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from hatwisted.pipeline.iceberg.landedfiles import WrittenFiles

BATCH: Final = "hatwisted.batch"
"""Key of a snapshot's summary: a landing's name, and the number of a batch."""


@dataclass(frozen=True)
class NumberedBatch:
    """Which batch it is. application: who lands, across restarts; queues: where they end, if queues are landed."""

    application: str
    number: int
    queues: QueueTails | None = None

    @property
    def note(self) -> dict[str, str]:
        """For its snapshot."""
        return {BATCH: f"{self.application} {self.number}"}


def last_batch(table: Table, application: str) -> int | None:
    """The number of the last batch of a landing that the table has; None if it has none.

    - table: as it was loaded
    - application: the landing's name
    """
    numbers = (_number(snapshot, application) for snapshot in line(table))
    return next((number for number in numbers if number is not None), None)


def was_taken_back(table: Table, application: str) -> bool:
    """Was the table rolled back to a snapshot from before the last batch of a landing? (That a snapshot isn't
    before the newest one doesn't say so: tags keep some whose successors have expired.)

    - table: as it was loaded
    - application: the landing's name
    """
    holds = {snapshot.snapshot_id for snapshot in line(table)}
    last = last_batch(table, application)
    others = (_number(each, application) for each in table.snapshots() if each.snapshot_id not in holds)
    return any(number is not None and (last is None or number > last) for number in others)


def append_numbered(
    table: Table,
    name: str,
    written: WrittenFiles,
    *,
    held: IcebergClaim,
    batch: NumberedBatch,
    note: Mapping[str, str],
) -> bool:
    """Add a batch to the table; False if it's there already. Raises Fenced if the claim has ended, Unclaimed if
    there are rows of other brokers, WrongTable if the table ends elsewhere than the batch begins.

    - table: which
    - name: of the table, for errors
    - written: its files, whole
    - held: the claim
    - batch: which it is
    - note: what the snapshot says of it besides
    """
    held.check_brokers(written.reach.tails, name)

    def checked() -> dict[str, str] | None:
        last = last_batch(table, batch.application)
        if last is not None and last >= batch.number:
            return None
        if was_taken_back(table, batch.application):
            raise WrongTable(f"{name}: was rolled back while it was landed: {LAND_AGAIN}")
        if batch.queues is not None:
            return queues_noted(table, held.brokers, BroughtQueues(batch.queues, 0)) | batch.note
        for broker, tail in landed_tails(table, name, written.reach.tails).items():
            if written.reach.first[broker] < tail.end:
                raise WrongTable(
                    f"{name}: has rows of broker {broker} up to {tail.end}, and batch {batch.number} begins at"
                    f" {written.reach.first[broker]}: start the landing again"
                )
        return tails_noted(table, written.reach.tails) | batch.note

    return append_once(table, name, written.files, held=held, checked=checked, note=note)


def _number(snapshot: Snapshot, application: str) -> int | None:
    whose, _, number = summary_of(snapshot).get(BATCH, "").rpartition(" ")
    return int(number) if whose == application and number.isdigit() else None
