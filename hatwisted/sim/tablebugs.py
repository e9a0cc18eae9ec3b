"""Mistakes with tables, and in what brokers tell each other of them: topics, their deletions, and the progress of
groups."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from hatwisted.broker.consumer.consumeroffset import Accepts, ConsumerOffsetTable
from hatwisted.broker.consumer.progressbody import Progress
from hatwisted.broker.consumer.staleoffsets import StaleOffsets
from hatwisted.broker.node.tablewatch import TableWatch
from hatwisted.broker.put.newtopics import NewTopics
from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.sim.faultplan import Fault
from hatwisted.sim.plantedbug import Bug
from hatwisted.sim.setup import DRIFT
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.store.queue.deletedqueues import DeletedQueues
from hatwisted.wire.registration import TopicTable

_replace = TopicConfigTable.replace


def _replace_if_later(topics: TopicConfigTable, table: TopicTable) -> bool:
    return table.data_version.timestamp > topics.version.timestamp and _replace(topics, table)


def _overwrite(offsets: ConsumerOffsetTable, theirs: Progress, _accepts: Accepts | None = None) -> None:
    offsets._offsets.update({key: dict(row) for key, row in theirs.offset_table.items()})
    offsets._change()


def _believe_all(_stale: StaleOffsets, *, complete: bool) -> None:
    return None


def _saved_later(_watch: TableWatch) -> Deferred[None]:
    return succeed(None)


def _forgotten(_deleted: DeletedQueues) -> None:
    return None


def _goes_on(_queue: ConsumeQueue, _first_index: int, _entries: bytes) -> bool:
    return False


def _at_once(_topics: NewTopics, settled: Any) -> Any:
    return settled


TABLE_BUGS: dict[str, Bug] = {
    "latest-by-clock": Bug(
        "a slave takes its master's topics if they are dated later than its own, each by its broker's clock",
        TopicConfigTable,
        "replace",
        _replace_if_later,
        ("promote", "kill"),
        conf={"drift": DRIFT, "tables": True},
    ),
    "copy-unsaved": Bug(
        "a slave says that it has a change of a table before it has written it to a file",
        TableWatch,
        "_saved",
        _saved_later,
        ("kill", "slowdisk"),
        conf={
            "tables": True,
            "faults": (
                Fault(at=4.0, kind="slowdisk", host="b", lasts=30.0, amount=0.5),
                *(Fault(at=at, kind="kill", host="b", lasts=1.0) for at in (8.3, 13.1, 17.8, 22.6)),
            ),
        },
    ),
    "topic-unkept": Bug(
        "a topic's first message is answered before anybody has the topic in a file",
        NewTopics,
        "after",
        _at_once,
        conf={"tables": True, "sync_master": True, "copies": None},
    ),
    "deletions-forgotten": Bug(
        "a start knows nothing of deleted queues, and builds them again from their records",
        DeletedQueues,
        "load_all",
        _forgotten,
        ("kill", "power", "stop"),
        conf={"tables": True},
    ),
    "queue-goes-on": Bug(
        "a slave that hasn't heard of a deletion goes on with the old queue",
        ConsumeQueue,
        "starts_over",
        _goes_on,
        ("kill", "cut", "stall"),
        conf={"tables": True},
    ),
    "progress-overwritten": Bug(
        "progress that another broker tells of replaces one's own, whichever has come further",
        ConsumerOffsetTable,
        "join",
        _overwrite,
        ("power", "promote"),
        conf={"consumers": True},
    ),
    "progress-kept": Bug(
        "progress beyond the end of a queue that has lost its tail is kept",
        StaleOffsets,
        "begin",
        _believe_all,
        ("promote", "stall", "cut"),
        conf={"consumers": True, "sync_master": False, "sync_flush": False, "copies": None, "pause": 0.15},
    ),
}
"""By name."""
