"""Requests of brokers to a consumer, mostly for an operator at a tool: 40, 220, 221, 307, 309."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from hatwisted.clientcore.driver import Answer, Driver
from hatwisted.clientcore.errors import ClientError, Rejected, Unsettled
from hatwisted.clientcore.message import ReceivedMessage, decode_records, received
from hatwisted.clientcore.queuereader import QueueReader
from hatwisted.clientcore.runninginfo import stacks
from hatwisted.clientcore.tasks import Task
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue, parse_queue, parse_queue_table, queue_table
from hatwisted.wire.remoting import RemotingCommand

MAX_DIRECT: Final = 16
"""Messages (309) that the program may have at once because an operator said so; further ones are refused."""


class RequestedConsumer(Protocol):
    """A consumer as brokers' requests see it."""

    @property
    def readers(self) -> dict[MessageQueue, QueueReader]:
        """By queue."""

    @property
    def orderly(self) -> bool:
        """Does it consume in order?"""

    def rebalance(self) -> None:
        """Rebalance: share the queues out again."""

    def reset(self, table: Mapping[MessageQueue, int]) -> None:
        """Go on elsewhere."""

    def listen(self, message: ReceivedMessage) -> Coroutine[Any, Any, object]:
        """One message to the program, now."""

    def running_info(self) -> dict[str, object]:
        """Body of 307."""


class ConsumerRequests:
    """Answers for `consumer`."""

    def __init__(self, consumer: RequestedConsumer, driver: Driver) -> None:
        self._consumer = consumer
        self._driver = driver
        self._log = driver.log
        self._direct = 0
        self._answers: dict[int, Callable[[str, RemotingCommand], Answer]] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def answer(self, address: str, request: RemotingCommand) -> Answer:
        """None: not a request to a consumer, or nothing is waited for."""
        found = self._answers.get(request.code)
        return None if found is None else found(address, request)

    def _members_changed(self, address: str, request: RemotingCommand) -> Answer:
        self._consumer.rebalance()
        return None

    def _reset(self, address: str, request: RemotingCommand) -> Answer:
        try:
            table = _offset_table(request.body)
        except (ValueError, KeyError, TypeError) as error:
            self._log.warn("{address}: unreadable offset reset: {error}", address=address, error=error)
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
            info["jstack"] = stacks()
        return RemotingCommand(ResponseCode.SUCCESS, body=fastjson.dumps_compact(info))

    def _consume_directly(self, address: str, request: RemotingCommand) -> Answer:
        if self._direct >= MAX_DIRECT:
            return _refused(f"{MAX_DIRECT} messages are being consumed directly already")
        try:
            (record,) = decode_records(request.body)
            message = received(record, request.ext.get("brokerName", ""))
        except (ClientError, ValueError) as error:
            return _refused(f"unreadable message: {error}")
        return Task(self._consume_now(message))

    async def _consume_now(self, message: ReceivedMessage) -> RemotingCommand:
        began = self._driver.seconds()
        self._direct += 1
        result, remark = "CR_SUCCESS", None
        try:
            await self._consumer.listen(message)
        except (Rejected, Unsettled) as error:
            result, remark = "CR_LATER", str(error)
        except Exception as error:
            result, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
            self._log.exception("{id} was to be consumed directly", error, id=message.message_id)
        finally:
            self._direct -= 1
        body: dict[str, object] = {
            "autoCommit": True,
            "consumeResult": result,
            "order": self._consumer.orderly,
            "spentTimeMills": round((self._driver.seconds() - began) * 1000),
        }
        if remark is not None:
            body["remark"] = remark
        return RemotingCommand(ResponseCode.SUCCESS, body=fastjson.dumps_compact(body))


def _refused(remark: str) -> RemotingCommand:
    return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=remark)


def _offset_table(body: bytes) -> dict[MessageQueue, int]:
    """Of a 220: a map from queue to offset, or the list that clients other than Java's are sent."""
    table: Any = fastjson.loads(body)["offsetTable"]
    if isinstance(table, list):
        return {parse_queue(each): int(each["offset"]) for each in table}
    return parse_queue_table(table)
