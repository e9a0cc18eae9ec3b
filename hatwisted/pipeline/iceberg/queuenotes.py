"""Where each queue's rows end in an Iceberg table that is landed from a cluster, and batches of such rows.

As in a Delta table (delta/queuetails.py), but for where it's said: in the summaries of snapshots, which stay in
the table's metadata until they expire. So a batch says only where the queues end of which it has rows:

    hatwisted.queues.broker-a   {"complete": false, "queues": {"Orders": {"0": [1500, 1048576, 1763600000000]}}}

and the snapshots before it say the rest, back to one that says all. Where none does (expired, rolled back to, or
from before a landing of stores), the rows are asked, and the next snapshot says all again. With a table that is
rolled back, what later snapshots said is gone, too.

A batch is in the table if a snapshot says that this run's files are settled up to its own (icebergfiles.py): so a
commit whose answer was lost isn't repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.expressions import In

from hatwisted.pipeline.delta.errors import LAND_AGAIN, WrongTable
from hatwisted.pipeline.delta.queuetails import (
    NOTED_QUEUES,
    PLACE_COLUMNS,
    QueueTail,
    QueueTails,
    last_of_queues,
)
from hatwisted.pipeline.delta.tails import further
from hatwisted.pipeline.iceberg.catalogs import plainly
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.snapshots import (
    NO_TAILS,
    TAIL,
    IcebergClaim,
    append_once,
    line,
    noted,
    summary_of,
)
from hatwisted.wire.messagequeue import MessageQueue

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

QUEUES: Final = "hatwisted.queues."
"""Keys of a snapshot's summary, followed by a broker's name."""


@dataclass(frozen=True)
class BroughtQueues:
    """Where the queues of a batch end. after: number of the snapshot that the run knows the table by; complete:
    are these all queues of the claim's brokers?"""

    moved: QueueTails
    after: int
    complete: bool = False


def landed_queues(table: Table, name: str, brokers: Iterable[str]) -> tuple[QueueTails, frozenset[str]]:
    """(the tail of each queue of these brokers that has rows in the table, the brokers whose rows were asked).

    - table: as it was loaded
    - name: of the table, for errors
    - brokers: their names
    """
    found, unknown = noted_queues(table, brokers)
    if unknown:
        with plainly(name):
            found = _rows_tails(table, unknown) | found
    return found, unknown


def noted_queues(table: Table, brokers: Iterable[str]) -> tuple[QueueTails, frozenset[str]]:
    """(what the table's snapshots say of these brokers' queues, the brokers of which they don't say all).

    - table: as it was loaded
    - brokers: their names
    """
    found: QueueTails = {}
    waiting, unknown = set(brokers), set[str]()
    for snapshot in line(table) if waiting else ():
        summary = summary_of(snapshot)
        for broker in sorted(waiting):
            text = summary.get(QUEUES + broker)
            if text is None:
                if TAIL + broker in summary:  # its store was landed then
                    unknown.add(broker)
                    waiting.remove(broker)
                continue
            complete, queues = _understood(broker, text)
            found = queues | found
            if complete:
                waiting.remove(broker)
        if not waiting:
            break
    return found, frozenset(waiting | unknown)


def append_queues(
    table: Table,
    name: str,
    files: Sequence[DataFile],
    *,
    held: IcebergClaim,
    brought: BroughtQueues,
    note: Mapping[str, str],
) -> bool:
    """Add a batch of rows of queues to the table; False if it's there already. Raises Fenced if the claim has
    ended.

    - table: which
    - name: of the table, for errors
    - files: finished ones; none for a note alone
    - held: the claim, by queue
    - brought: where the batch's queues end, and after what
    - note: what the snapshot says of it besides, the run's own settled files among it
    """

    def checked() -> dict[str, str] | None:
        mine = FileIds.settled_in(note, held.run) or 0
        passed = set()
        for snapshot in line(table):
            if files and (FileIds.settled(snapshot, held.run) or 0) >= mine:
                return None
            passed.add(snapshot.snapshot_id)
        if brought.after not in passed and table.snapshot_by_id(brought.after) is not None:
            raise WrongTable(
                f"{name}: the rows end elsewhere than when they were read, as if the table was rolled back:"
                f" {LAND_AGAIN}"
            )
        return queues_noted(table, held.brokers, brought)

    return append_once(table, name, files, held=held, checked=checked, note=note)


def queues_noted(table: Table, brokers: Sequence[str], brought: BroughtQueues) -> dict[str, str]:
    """What a snapshot to come says of where rows end: of other brokers as before, of these by queue.

    - table: as it was loaded
    - brokers: of the claim
    - brought: where the batch's queues end
    """
    whole = {TAIL + broker for broker in brokers}
    carried = {key: value for key, value in noted(table).items() if key not in whole}
    return (carried or {NO_TAILS: "true"}) | queue_notes(brokers, brought)


def queue_notes(brokers: Iterable[str], brought: BroughtQueues) -> dict[str, str]:
    """What a snapshot says of queues; of too many nothing, but that they came.

    - brokers: of the claim
    - brought: where queues end
    """
    few = len(brought.moved) <= NOTED_QUEUES
    complete = brought.complete and few
    trees: dict[str, dict[str, Any]] = {broker: {} for broker in brokers} if complete else {}
    for queue, tail in brought.moved.items() if few else ():
        place = trees.setdefault(queue.broker_name, {}).setdefault(queue.topic, {})
        place[str(queue.queue_id)] = [tail.end, tail.physical, tail.stored]
    return {
        QUEUES + broker: json.dumps({"complete": complete, "queues": tree}, separators=(",", ":"))
        for broker, tree in trees.items()
    }


def _understood(broker: str, text: str) -> tuple[bool, QueueTails]:
    said = json.loads(text)
    return said["complete"], {
        MessageQueue(topic=topic, broker_name=broker, queue_id=int(number)): QueueTail(*place)
        for topic, queues in said["queues"].items()
        for number, place in queues.items()
    }


def _rows_tails(table: Table, brokers: Iterable[str]) -> QueueTails:
    """Of each queue the record that lies last in its broker's log; reads six columns of these brokers' rows."""
    if table.current_snapshot() is None or not {*PLACE_COLUMNS} <= {*table.schema().column_names}:
        return {}
    best: QueueTails = {}
    theirs: Any = In("broker", sorted(brokers))  # type: ignore[call-arg, arg-type]  # made by hand in pyiceberg
    for batch in table.scan(theirs, PLACE_COLUMNS).to_arrow_batch_reader():
        further(best, last_of_queues(batch, by="physical_offset"), "physical")
    return best
