"""Reads the messages back from the slave, queue by queue, and compares each with what was sent.

Pulls carry their own subscription, as those of a pull consumer do, so no heartbeat is needed. A slave learns
of a new topic by copying its master's table, a moment after the topic was created: while it answers that the topic
doesn't exist, the pull is repeated.
"""

from __future__ import annotations

import zlib
from array import array
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import deferLater

from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.errors import BadAnswer
from hatwisted.clientcore.message import decode_records
from hatwisted.clientcore.pullprogress import pull_fields
from hatwisted.demo.producer import NOTHING, Stored
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue

GROUP = "demo-consumer"
PULL_COUNT = 32
PULL_TIMEOUT = 10.0  # s for one answer
PATIENCE = (
    60.0  # s without a message: a slave's topics are at most 13 s old, its queues a few ms behind its log
)
RETRY = 0.5  # s between two tries

NOT_YET = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class ReadBackError(Exception):
    """The slave doesn't return what was stored; `str()` is one line."""


class Consumer:
    """Reads from one broker. `read` counts messages that came back as they were sent.

    - cluster: the link to its brokers
    - reactor: the process's
    - broker: its "host:port"
    """

    def __init__(self, cluster: Cluster, reactor: Any, broker: str) -> None:
        self._session = cluster.session
        self._reactor = reactor
        self._broker = broker
        self.read = 0

    @inlineCallbacks
    def read_all(self, stored: Stored) -> Any:
        """Fires when everything in `stored` was read; fails with ReadBackError or CallFailed."""
        for (topic, queue), checksums in sorted(stored.items()):
            yield self._read_queue(topic, queue, checksums)

    @inlineCallbacks
    def _read_queue(self, topic: str, queue: int, checksums: array[int]) -> Any:
        offset = 0
        give_up = self._reactor.seconds() + PATIENCE
        while offset < len(checksums):
            pull = RequestCode.PULL_MESSAGE, self._pull(topic, queue, offset)
            answer = yield deferred(self._session.call(self._broker, *pull, timeout=PULL_TIMEOUT))
            if answer.code == ResponseCode.SUCCESS:
                offset = self._compare(answer.body, topic, queue, checksums)
                give_up = self._reactor.seconds() + PATIENCE
            elif answer.code in NOT_YET and self._reactor.seconds() < give_up:
                yield deferLater(self._reactor, RETRY)
            else:
                raise ReadBackError(
                    f"{topic} queue {queue} offset {offset}: the slave answers {answer.code} {answer.remark}"
                )

    def _pull(self, topic: str, queue: int, offset: int) -> dict[str, object]:
        place = MessageQueue(broker_name="", queue_id=queue, topic=topic)
        return pull_fields(GROUP, place, offset, PULL_COUNT)

    def _compare(self, body: bytes, topic: str, queue: int, checksums: array[int]) -> int:
        """The offset after the last of these records."""
        following = 0
        try:
            records = decode_records(body)
        except BadAnswer as error:
            raise ReadBackError(f"{topic} queue {queue}: {error}") from None
        for record in records:
            following = record.queue_offset + 1
            if following > len(checksums) or checksums[record.queue_offset] == NOTHING:
                continue
            if zlib.crc32(record.body) != checksums[record.queue_offset]:
                raise ReadBackError(
                    f"{topic} queue {queue} offset {record.queue_offset}: the body differs from what was sent"
                )
            self.read += 1
        return following
