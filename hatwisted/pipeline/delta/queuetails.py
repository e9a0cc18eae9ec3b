"""Where each queue's rows end in a table that is landed from a cluster: the offset after the last landed record,
and which record that is.

A landing says so in each of its commits, for all queues of its brokers, so that rows and places can't disagree,
whatever is killed, and whoever lands next reads one commit of the log instead of the table. What says nothing of
queues (a landing of stores, or of an earlier version) makes the notes before it worthless: then the rows
are asked, and the record that lies last in its broker's log is a queue's last.

Whoever restores an earlier version of the table takes back what later commits said.

The note outranks the rows where it's there: of a topic that was created again, or a master that was replaced by
one with fewer messages, the rows of before have higher offsets than the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.delta.deltatable import table_rows
from hatwisted.pipeline.delta.notes import Notes
from hatwisted.pipeline.delta.tails import further
from hatwisted.wire.messagequeue import MessageQueue

if TYPE_CHECKING:
    import pyarrow.dataset as pads

BY_QUEUE: Final = "by_queue"
"""Within a claim's note."""
NOTED_QUEUES: Final = 10_000
"""Queues that a commit tells of, in some 600 KB; of more the rows are asked."""
_QUEUE: Final = ("topic", "broker", "queue_id")
_PLACE: Final = ("queue_offset", "physical_offset", "store_timestamp")
PLACE_COLUMNS: Final = (*_QUEUE, *_PLACE)
"""What `last_of_queues` needs."""


@dataclass(frozen=True, slots=True)
class QueueTail:
    """The last landed record of a queue. end: the queue offset after it; physical: its offset in the broker's log;
    stored: its store time in ms, if it has one."""

    end: int
    physical: int
    stored: int | None


QueueTails = dict[MessageQueue, QueueTail]


def last_of_queues(rows: pa.RecordBatch | pa.Table, by: str = "queue_offset") -> QueueTails:
    """The last record of each queue among some rows; none of rows that stand for damage.

    - rows: with the columns of a landed table
    - by: the column that rises
    """
    table = pa.table({name: rows.column(name) for name in PLACE_COLUMNS})
    table = table.set_column(5, _PLACE[2], table.column(5).cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    for at, name in enumerate(_QUEUE[:2]):
        table = table.set_column(at, name, table.column(at).cast(pa.string()))
    table = table.filter(table.column("queue_offset").is_valid()).sort_by(by)
    last = table.group_by(list(_QUEUE), use_threads=False).aggregate([(name, "last") for name in _PLACE])
    return {
        MessageQueue(topic=row["topic"], broker_name=row["broker"], queue_id=row["queue_id"]): QueueTail(
            row["queue_offset_last"] + 1,
            row["physical_offset_last"],
            None if row["store_timestamp_last"] is None else row["store_timestamp_last"] // 1000,
        )
        for row in last.to_pylist()
    }


def landed_queues(notes: Notes, brokers: Iterable[str]) -> QueueTails:
    """The tail of each queue of these brokers that has rows in a version of a table.

    - notes: of its commits
    - brokers: their names
    """
    found, unknown = noted_queues(notes, brokers)
    return _rows_tails(table_rows(notes.table, notes.path), unknown) | found if unknown else found


def noted_queues(
    notes: Iterable[Mapping[str, Any]], brokers: Iterable[str]
) -> tuple[QueueTails, frozenset[str]]:
    """(what a table's commits say of these brokers' queues, the brokers of which they don't say all).

    - notes: what the commits say, the newest first
    - brokers: their names
    """
    found: QueueTails = {}
    waiting, unknown = set(brokers), set()
    for note in _of_rows(notes) if waiting else ():
        concerned = waiting.intersection(note.get("brokers", waiting))
        queues = _queues_in(note)
        if queues is None:
            unknown |= concerned
        else:
            found |= {
                queue: tail
                for queue, tail in queues.items()
                if queue not in found and queue.broker_name in concerned
            }
        if queues is None or note.get("complete"):
            waiting -= concerned
        if not waiting:
            break
    return found, frozenset(waiting | unknown)


def landed_by_queue(notes: Iterable[Mapping[str, Any]], brokers: Iterable[str]) -> set[str]:
    """Those of these brokers whose last rows came queue by queue: their log's last row says nothing of what lies
    before it.

    - notes: what the table's commits say, the newest first
    - brokers: their names
    """
    found: set[str] = set()
    waiting = set(brokers)
    for note in notes if waiting else ():
        concerned = waiting.intersection(note.get("brokers", waiting))
        if "application" in note:
            found |= concerned & {queue.broker_name for queue in _queues_in(note) or ()}
        elif note.get(BY_QUEUE) is not False:
            continue
        waiting -= concerned
        if not waiting:
            break
    return found


def queue_note(before: tuple[QueueTails, frozenset[str]], moved: QueueTails) -> dict[str, Any]:
    """What a commit says of its brokers' queues; nothing, if there are too many.

    - before: what the commits before it say
    - moved: the queues that have rows in this one
    """
    noted, unknown = before
    queues = moved if unknown else noted | moved
    if len(queues) > NOTED_QUEUES:
        return {}
    tree: dict[str, Any] = {}
    for queue, tail in queues.items():
        place = tree.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})
        place[str(queue.queue_id)] = [tail.end, tail.physical, tail.stored]
    return {"queues": tree, "complete": not unknown}


def _of_rows(notes: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Those of commits that brought rows, or say where they end."""
    return (note for note in notes if "application" in note or "queues" in note)


def _queues_in(note: Mapping[str, Any]) -> QueueTails | None:
    """None: it says nothing that can be understood."""
    try:
        return {
            MessageQueue(topic=topic, broker_name=broker, queue_id=int(number)): QueueTail(*place)
            for topic, brokers in note["queues"].items()
            for broker, queues in brokers.items()
            for number, place in queues.items()
        }
    except (KeyError, AttributeError, TypeError, ValueError):
        return None


def _rows_tails(rows: pads.Dataset, brokers: Iterable[str]) -> QueueTails:
    """Of each queue the record that lies last in its broker's log; reads six columns of these brokers' files."""
    best: QueueTails = {}
    names = pa.array(sorted(brokers), pa.string())
    batches = rows.to_batches(
        columns=list(PLACE_COLUMNS), filter=pc.field("broker").cast(pa.string()).isin(names)
    )
    for batch in batches:
        further(best, last_of_queues(batch, by="physical_offset"), "physical")
    return best
