"""Sends the rows of one task, and says what became of them, also when it fails.

All of a task's messages are stored when `send_rows` returns. When it raises, some may be: nothing takes them back
out of a log, and they keep their keys when the task is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BrokerGone, ClientError, Refused
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.remote.batchproducer import Producer, SendCounts
from hatwisted.pipeline.remote.rowmessages import BadRow, RowMessages
from hatwisted.wire.codes import ResponseCode

_ADVICE: Final[Mapping[int, str]] = {
    ResponseCode.NO_PERMISSION: "give the topic (updateTopicPerm) or the account (PUB) the permission to write",
    ResponseCode.TOPIC_NOT_EXIST: "create the topic (updateTopic)",
    ResponseCode.MESSAGE_ILLEGAL: "see the broker's maxMessageSize, and leave such rows out",
    ResponseCode.SYSTEM_BUSY: "send with fewer tasks (coalesce), or give the broker time",
    ResponseCode.SERVICE_NOT_AVAILABLE: "see the broker's log and its disk",
}


class WriteFailed(PipelineError):
    """A task couldn't send all of its rows; the text says why, how many are stored, and what to do."""


@dataclass(frozen=True, kw_only=True)
class TaskCounts:
    """What a task has stored: messages by status (all but OK: not flushed or replicated as the broker is set
    up), the bytes of their bodies, and how many went twice because an answer was lost."""

    statuses: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    resent: int = 0

    @property
    def messages(self) -> int:
        return sum(self.statuses.values())

    @property
    def incomplete(self) -> dict[str, int]:
        """Of messages without all the copies that their broker is set up to wait for."""
        return {status: count for status, count in self.statuses.items() if status != "OK"}


def send_rows(
    settings: ClusterSettings, group: str, messages: RowMessages, batches: Iterable[pa.RecordBatch]
) -> TaskCounts:
    """Send them all. Raises BadRow and WriteFailed.

    - settings: of the cluster
    - group: the producer group
    - messages: makes messages of rows
    - batches: the rows
    """
    with BlockingDriver(Links(settings)) as driver:
        producer = Producer(driver, group)
        try:
            for batch in batches:
                for message in messages.of(batch):
                    producer.send(message)
                    _check_refusals(producer)
            producer.drain()
            _check_refusals(producer)
        except BadRow as error:
            raise BadRow(f"{error}{_stored(producer.counts)}") from None
        except ClientError as error:
            raise WriteFailed(f"{error}{_advice(error)}{_stored(producer.counts)}") from None
        return _counts(producer.counts)


def total(counts: Iterable[TaskCounts]) -> TaskCounts:
    """Of all tasks."""
    statuses: dict[str, int] = {}
    size = resent = 0
    for each in counts:
        for status, count in each.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
        size, resent = size + each.bytes, resent + each.resent
    return TaskCounts(statuses=statuses, bytes=size, resent=resent)


def _check_refusals(producer: Producer) -> None:
    """A row left out would be a lost row."""
    for number, reason in producer.counts.refused:
        raise WriteFailed(
            f"message {number} is refused by its broker: {reason}: "
            f"{_ADVICE[ResponseCode.MESSAGE_ILLEGAL]}{_stored(producer.counts)}"
        )


def _counts(counts: SendCounts) -> TaskCounts:
    return TaskCounts(statuses=dict(counts.statuses), bytes=counts.bytes, resent=counts.resent)


def _advice(error: ClientError) -> str:
    """What next, unless the error says so itself."""
    if isinstance(error, Refused):
        if "AclException" in error.remark:
            return ": see the account (accessKey, or the credential file) and what it may do"
        return f": {_ADVICE.get(error.code, 'see the log of the broker')}"
    return ": is it running?" if isinstance(error, BrokerGone) else ""


def _stored(counts: SendCounts) -> str:
    if not counts.stored:
        return ""
    return f"; {counts.stored} messages of this task are stored, and keep their keys when it's repeated"
