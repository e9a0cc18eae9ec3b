"""Sends messages by the client's producer, and remembers what was stored where.

Messages of one topic that follow each other travel together (SEND_BATCH_MESSAGE), as a client with a backlog
would send them; compressed ones go alone, because a batch has one sysFlag for all. What was stored where is
remembered as a checksum per queue offset, so that reading back can be compared with what was sent.
"""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.errors import ClientError
from hatwisted.clientcore.sending import Outgoing, SendResult, SendStatus
from hatwisted.demo.inputs import Message
from hatwisted.wire.batch import encode_batch
from hatwisted.wire.codes import RequestCode

GROUP = "demo-producer"

IN_FLIGHT = 64  # requests without an answer
BATCH_COUNT = 50  # messages in one request
BATCH_BYTES = 128 * 1024  # bodies in one request; one longer message still goes, alone
SEND_TIMEOUT = 15.0  # s; above the broker's own wait of 5 s, or its answer would come too late (B156)

NOTHING = -1

Stored = dict[tuple[str, int], "array[int]"]
"""(topic, queue) -> CRC-32 of the body at each queue offset, NOTHING where this run stored none."""


class Producer:
    """Sends to the masters that accept messages. `statuses` counts messages by send status, `refusals` by the
    reason."""

    def __init__(self, cluster: Cluster) -> None:
        # Tried once: a message that a retry stored twice would count as one too many.
        self._clock = cluster.clock
        self._producer = cluster.producer(GROUP, timeout=SEND_TIMEOUT, retries=0, max_in_flight=IN_FLIGHT)
        self.statuses: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.stored: Stored = {}

    @property
    def answered(self) -> int:
        """Messages whose outcome is known."""
        return self.statuses.total() + self.refusals.total()

    async def send_all(self, messages: Iterable[Message]) -> None:
        """Send everything, each when it's due; returns when every request has been answered or given up."""
        begun = None
        for group in grouped(messages):
            if group[0].due:
                begun = self._clock.seconds() if begun is None else begun
                wait = begun + group[0].due - self._clock.seconds()
                if wait > 0:
                    await deferLater(self._clock, wait)
            await self._producer.ready()
            sending = self._producer.deliver(_request(group))
            sending.addCallbacks(self._stored, self._refused, (group,), {}, (group,))
        await self._producer.settled()

    def _stored(self, results: list[SendResult], group: Sequence[Message]) -> None:
        status = results[0].status
        self.statuses["PUT_OK" if status is SendStatus.OK else status.name] += len(group)
        for result, message in zip(results, group, strict=True):
            checksums = self.stored.setdefault((message.topic, result.queue.queue_id), array("q"))
            missing = result.queue_offset + 1 - len(checksums)
            checksums.extend([NOTHING] * missing)
            checksums[result.queue_offset] = zlib.crc32(message.body)

    def _refused(self, failure: Failure, group: Sequence[Message]) -> None:
        failure.trap(ClientError)
        self.refusals[failure.getErrorMessage()] += len(group)


def _request(group: Sequence[Message]) -> Outgoing:
    """As they are: inputs may have properties and compressed bodies of their own."""
    first, batch = group[0], len(group) > 1
    entries = ((each.flag, each.body, each.properties) for each in group)
    return Outgoing(
        topic=first.topic,
        code=RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2,
        body=encode_batch(entries) if batch else first.body,
        properties=b"" if batch else first.properties,
        ids=("",) * len(group),
        sys_flag=first.sys_flag,
        flag=first.flag,
    )


def grouped(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Neighbours that may share a request."""
    group: list[Message] = []
    size = 0
    for message in messages:
        fits = len(group) < BATCH_COUNT and size + len(message.body) <= BATCH_BYTES
        if group and not (
            fits
            and message.topic == group[0].topic
            and message.due == group[0].due
            and not message.sys_flag | group[0].sys_flag
        ):
            yield group
            group, size = [], 0
        group.append(message)
        size += len(message.body)
    if group:
        yield group
