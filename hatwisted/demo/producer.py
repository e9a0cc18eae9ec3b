"""Sends messages as RocketMQ's clients do: ask the name server, pipeline to the master, count the answers.

Messages of one topic that follow each other travel together (SEND_BATCH_MESSAGE), as a client with a backlog
would send them; compressed ones go alone, because a batch has one sysFlag for all. What was stored where is
remembered as a checksum per queue offset, so that reading back can be compared with what was sent.
"""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from twisted.internet.defer import DeferredSemaphore, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from hatwisted.demo.inputs import Message
from hatwisted.remoting.client import CallFailed, RemotingClient
from hatwisted.wire.batch import encode_batch
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import TopicRoute, decode_body
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import AUTO_CREATE_TOPIC

GROUP = "demo-producer"
QUEUES = 4

IN_FLIGHT = 64  # requests without an answer
BATCH_COUNT = 50  # messages in one request
BATCH_BYTES = 128 * 1024  # bodies in one request; one longer message still goes, alone
SEND_TIMEOUT = 15.0  # s; above the broker's own wait of 5 s, or its answer would come too late (B156)


# Stored, whatever became of disk and slave (B80).
STORED = {
    ResponseCode.SUCCESS: "PUT_OK",
    ResponseCode.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
}

NOTHING = -1

Stored = dict[tuple[str, int], "array[int]"]
"""(topic, queue) -> CRC-32 of the body at each queue offset, NOTHING where this run stored none."""


@inlineCallbacks
def find_brokers(client: RemotingClient, namesrv: str, timeout: float) -> Any:
    """Fires with {broker id: "host:port"} of the group that takes new topics, by the name server."""
    request = RemotingCommand(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": AUTO_CREATE_TOPIC})
    answer = yield client.ask(namesrv, request, timeout)
    route = decode_body(answer.body, TopicRoute)
    return route.broker_datas[0].broker_addrs


class Producer:
    """Sends to one master. `statuses` counts messages by PutMessageStatus, `refusals` by the reason."""

    def __init__(self, client: RemotingClient, clock: IReactorTime, master: str) -> None:
        self._client = client
        self._clock = clock
        self._master = master
        self._slots = DeferredSemaphore(IN_FLIGHT)
        self._next_queue = 0
        self.statuses: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.stored: Stored = {}

    @property
    def answered(self) -> int:
        """Messages whose fate is known."""
        return self.statuses.total() + self.refusals.total()

    @inlineCallbacks
    def send_all(self, messages: Iterable[Message]) -> Any:
        """Send everything; fires when every request has been answered or given up."""
        for group in grouped(messages):
            yield self._slots.acquire()
            self._send(group).addBoth(self._answered)
        for _ in range(IN_FLIGHT):
            yield self._slots.acquire()

    @inlineCallbacks
    def _send(self, group: Sequence[Message]) -> Any:
        try:
            answer = yield self._client.call(self._master, self._request(group), SEND_TIMEOUT)
        except CallFailed as error:
            self.refusals[str(error)] += len(group)
            return
        status = STORED.get(answer.code)
        if status is None:
            self.refusals[f"code {answer.code}: {answer.remark}"] += len(group)
            return
        self.statuses[status] += len(group)
        self._remember(group, int(answer.ext["queueId"]), int(answer.ext["queueOffset"]))

    def _answered(self, result: object) -> object:
        self._slots.release()
        return result

    def _request(self, group: Sequence[Message]) -> RemotingCommand:
        first = group[0]
        self._next_queue = (self._next_queue + 1) % QUEUES
        batch = len(group) > 1
        ext = {
            "a": GROUP,
            "b": first.topic,
            "c": AUTO_CREATE_TOPIC,
            "d": str(QUEUES),
            "e": str(self._next_queue),
            "f": str(first.sys_flag),
            "g": str(int(self._clock.seconds() * 1000)),
            "h": str(first.flag),
            "i": "" if batch else first.properties.decode(),
            "m": "true" if batch else "false",
        }
        if not batch:
            return RemotingCommand(code=RequestCode.SEND_MESSAGE_V2, ext=ext, body=first.body)
        entries = ((each.flag, each.body, each.properties) for each in group)
        return RemotingCommand(code=RequestCode.SEND_BATCH_MESSAGE, ext=ext, body=encode_batch(entries))

    def _remember(self, group: Sequence[Message], queue: int, offset: int) -> None:
        checksums = self.stored.setdefault((group[0].topic, queue), array("q"))
        missing = offset + len(group) - len(checksums)
        if missing > 0:
            checksums.extend([NOTHING] * missing)
        for position, message in enumerate(group, offset):
            checksums[position] = zlib.crc32(message.body)


def grouped(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Neighbours that may share a request."""
    group: list[Message] = []
    size = 0
    for message in messages:
        fits = len(group) < BATCH_COUNT and size + len(message.body) <= BATCH_BYTES
        if group and not (
            fits and message.topic == group[0].topic and not message.sys_flag | group[0].sys_flag
        ):
            yield group
            group, size = [], 0
        group.append(message)
        size += len(message.body)
    if group:
        yield group
