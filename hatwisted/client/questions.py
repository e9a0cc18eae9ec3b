"""What brokers ask of a consumer, mostly for an operator at a tool: 40, 220, 221, 307, 309."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.client.compression import UnreadableBody
from hatwisted.client.delivery import Rejected, Unsettled
from hatwisted.client.message import ReceivedMessage, decode_records, received
from hatwisted.client.queuereader import QueueReader
from hatwisted.remoting.client import Answer
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue, parse_queue, parse_queue_table, queue_table
from hatwisted.wire.remoting import RemotingCommand

MAX_DIRECT: Final = 16
"""Messages (309) that the program may have at once because an operator said so; further ones are refused."""


class Asked(Protocol):
    """A consumer as its questions see it."""

    @property
    def readers(self) -> dict[MessageQueue, QueueReader]:
        """By queue."""

    @property
    def orderly(self) -> bool:
        """Does it consume in order?"""

    def rebalance(self) -> None:
        """Look anew who of the group reads what."""

    def reset(self, table: Mapping[MessageQueue, int]) -> None:
        """Go on elsewhere."""

    def listen(self, message: ReceivedMessage) -> Deferred[None]:
        """One message to the program, now."""

    def running_info(self) -> dict[str, object]:
        """Body of 307."""


class Questions:
    """Answers for `consumer`."""

    _log = Logger(namespace="hatwisted.client")

    def __init__(self, consumer: Asked, clock: IReactorTime) -> None:
        self._consumer = consumer
        self._clock = clock
        self._direct = 0
        self._answers: dict[int, Callable[[str, RemotingCommand], Answer]] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def answer(self, address: str, request: RemotingCommand) -> Answer:
        """None: not a question for a consumer, or nothing is waited for."""
        found = self._answers.get(request.code)
        return None if found is None else found(address, request)

    def _members_changed(self, address: str, request: RemotingCommand) -> Answer:
        self._consumer.rebalance()
        return None

    def _reset(self, address: str, request: RemotingCommand) -> Answer:
        try:
            table = _offset_table(request.body)
        except (ValueError, KeyError, TypeError) as error:
            self._log.warn("{address}: a reset that can't be read: {error}", address=address, error=error)
        else:
            self._consumer.reset(table)
        return None

    def _status(self, address: str, request: RemotingCommand) -> Answer:
        topic = request.ext.get("topic")
        readers = self._consumer.readers
        standing = {queue: each.progress for queue, each in readers.items() if queue.topic == topic}
        body = fastjson.dumps_compact({"messageQueueTable": queue_table(standing)})
        return RemotingCommand(ResponseCode.SUCCESS, body=body)

    def _running_info(self, address: str, request: RemotingCommand) -> Answer:
        info = self._consumer.running_info()
        if request.ext.get("jstackEnable") == "true":
            info["jstack"] = _stacks()
        return RemotingCommand(ResponseCode.SUCCESS, body=fastjson.dumps_compact(info))

    def _consume_directly(self, address: str, request: RemotingCommand) -> Answer:
        if self._direct >= MAX_DIRECT:
            return _refused(f"{MAX_DIRECT} messages are being consumed directly already")
        try:
            (record,) = decode_records(request.body)
            message = received(record, request.ext.get("brokerName", ""))
        except (ValueError, UnreadableBody) as error:
            return _refused(f"a message that can't be read: {error}")
        began = self._clock.seconds()
        self._direct += 1

        def answer(outcome: Failure | None) -> RemotingCommand:
            self._direct -= 1
            result, remark = _result_of(outcome)
            body: dict[str, object] = {
                "autoCommit": True,
                "consumeResult": result,
                "order": self._consumer.orderly,
                "spentTimeMills": round((self._clock.seconds() - began) * 1000),
            }
            if remark is not None:
                body["remark"] = remark
            return RemotingCommand(ResponseCode.SUCCESS, body=fastjson.dumps_compact(body))

        return self._consumer.listen(message).addBoth(answer)


def queue_info(reader: QueueReader, locked: bool, locked_at: float | None) -> dict[str, object]:
    """One queue of a running consumer (307). Times in ms; locked_at: seconds."""
    held = reader.buffered > 0
    return {
        "cachedMsgCount": reader.buffered,
        "cachedMsgMaxOffset": reader.last_buffered if held else 0,
        "cachedMsgMinOffset": reader.progress if held else 0,
        "cachedMsgSizeInMiB": reader.buffered_bytes >> 20,
        "commitOffset": reader.progress,
        "droped": reader.dropped,
        "lastConsumeTimestamp": round(reader.last_consumed * 1000),
        "lastLockTimestamp": round((locked_at or 0) * 1000),
        "lastPullTimestamp": round(reader.last_pull * 1000),
        "locked": locked,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def info_table(infos: Mapping[MessageQueue, dict[str, object]]) -> msgspec.Raw:
    """By queue, in the order that Java sorts them by."""
    ordered = sorted(infos, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))
    return queue_table({queue: infos[queue] for queue in ordered})


def _result_of(outcome: Failure | None) -> tuple[str, str | None]:
    if outcome is None:
        return "CR_SUCCESS", None
    if outcome.check(Rejected, Unsettled):
        return "CR_LATER", outcome.getErrorMessage()
    return "CR_THROW_EXCEPTION", f"{type(outcome.value).__name__}: {outcome.getErrorMessage()}"


def _refused(remark: str) -> RemotingCommand:
    return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=remark)


def _offset_table(body: bytes) -> dict[MessageQueue, int]:
    """Of a 220: a map from queue to offset, or the list that clients other than Java's are sent."""
    table: Any = fastjson.loads(body)["offsetTable"]
    if isinstance(table, list):
        return {parse_queue(each): int(each["offset"]) for each in table}
    return parse_queue_table(table)


def _stacks() -> str:
    """What every thread is doing."""
    frames = sys._current_frames().items()
    return "\n".join(
        f"thread {number}\n" + "".join(traceback.format_stack(frame)) for number, frame in frames
    )
