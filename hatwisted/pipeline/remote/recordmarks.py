"""Which record is at an offset of a queue, and how large records are, without pulling bodies.

A queue offset alone doesn't say which message was read: a topic that was deleted and created again, or a promoted
slave that lacked the last messages, has others under the same numbers. Where the record lies in its broker's log
and when it was stored tell them apart; both are the same at a master and its slaves.

Brokers show entries of their queues (the log's offset and the record's size) to whoever asks, without the
records. The store time is in the record alone, so a record is pulled for it if it's small; of a large one the
place has to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.clientcore.answers import decoded
from hatwisted.clientcore.command import command
from hatwisted.clientcore.pullprogress import pull_fields, queue_fields
from hatwisted.logcodec.recordhead import read_head
from hatwisted.pipeline.remote.groupquestions import Absent, Placed, Question, ask_groups
from hatwisted.pipeline.remote.pullanswer import MissingRange, PullRequest, read_answer
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand

MARK_BYTES: Final = 64 << 10
"""A record up to this size is pulled for its store time. Larger ones hardly ever have the same size, so that
others lie elsewhere."""


class Mark(NamedTuple):
    """A record: its physical offset, and its store time in ms, where it's known."""

    physical: int
    stored: int | None

    def is_same(self, other: Mark) -> bool:
        """Is it the same record, as far as both know?"""
        return self.physical == other.physical and (
            None in (self.stored, other.stored) or self.stored == other.stored
        )


class QueueEntry(msgspec.Struct, rename="camel"):
    """A record as its queue knows it."""

    physic_offset: int
    physic_size: int


class _EntryList(msgspec.Struct, rename="camel"):
    """Of 321."""

    queue_data: list[QueueEntry] | None = None


def entries_at(
    driver: BlockingDriver,
    queues: Placed,
    spans: Mapping[MessageQueue, tuple[int, int]],
    absent: Absent | None = None,
) -> dict[MessageQueue, list[QueueEntry] | None]:
    """The entries from an offset on of each queue: none, where there are none; None, where the broker shows none
    (it knows no such question, or the account may not ask it).

    - driver: asks the cluster
    - queues: with their brokers
    - spans: the first entry's offset and how many, by queue
    - absent: as `ask_groups` takes it
    """

    def ask(queue: MessageQueue) -> list[RemotingCommand]:
        index, count = spans[queue]
        return [
            command(RequestCode.QUERY_CONSUME_QUEUE, queue_fields(queue) | {"index": index, "count": count})
        ]

    placed = {queue: queues[queue] for queue in spans}
    question = Question("the entries", ask, _read_entries)
    return {queue: answer.said[0] for queue, answer in ask_groups(driver, placed, question, absent).items()}


def marks_at(
    driver: BlockingDriver, queues: Placed, offsets: Mapping[MessageQueue, int], absent: Absent | None = None
) -> dict[MessageQueue, Mark | None]:
    """Which record is at an offset of each queue; None, where there's none. Without the queues of absent groups.

    - driver: asks the cluster
    - queues: with their brokers
    - offsets: by queue
    - absent: as `ask_groups` takes it
    """
    spans = {queue: (offset, 1) for queue, offset in offsets.items()}
    found: dict[MessageQueue, Mark | None] = {}
    small = {}
    for queue, entries in entries_at(driver, queues, spans, absent).items():
        if entries is not None and (not entries or entries[0].physic_size > MARK_BYTES):
            found[queue] = Mark(entries[0].physic_offset, None) if entries else None
        else:
            small[queue] = queues[queue]

    def ask(queue: MessageQueue) -> list[RemotingCommand]:
        fields = pull_fields(driver.settings.group, queue, offsets[queue], 1)
        return [command(RequestCode.PULL_MESSAGE, fields)]

    def read(address: str, queue: MessageQueue, answer: RemotingCommand) -> Mark | None:
        asked = PullRequest(address, queue.queue_id, offsets[queue], offsets[queue] + 1)
        outcome = read_answer(asked, answer)
        head = None if isinstance(outcome, MissingRange) else read_head(outcome.data)
        return None if head is None else Mark(head.physical_offset, head.store_timestamp)

    question = Question("the record", ask, read)
    return found | {
        queue: answer.said[0] for queue, answer in ask_groups(driver, small, question, absent).items()
    }


def _read_entries(address: str, queue: MessageQueue, answer: RemotingCommand) -> list[QueueEntry] | None:
    if answer.code != ResponseCode.SUCCESS:
        return None
    # Without a body: there's no entry at that index.
    return (decoded(address, answer, _EntryList).queue_data or []) if answer.body else []
