"""Where a group stands in a queue: at the brokers for clustering, with the consumer itself for broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from hatwisted.clientcore.answers import number_in
from hatwisted.clientcore.driver import Driver, WholeFile
from hatwisted.clientcore.errors import CallTimedOut, ClientError, ConnectFailed, NoRoute, Refused
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.tasks import gather
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue, parse_queue_table
from hatwisted.wire.registration import MASTER_ID

Progress = Callable[[MessageQueue], int | None]
"""Where a queue stands now; None: there's nothing to tell of it any more. Asked right before it's told: to find a
broker may take seconds, in which another one has sent the reader back."""


class OffsetStore(Protocol):
    """The next offset to be consumed, by queue."""

    async def read(self, queue: MessageQueue) -> int | None:
        """None: the group has never been there. Any error means "not known", never "none"."""

    async def write(self, queues: Iterable[MessageQueue], progress: Progress) -> list[Exception]:
        """Note the queues' progress as far as that can be noted; what failed comes back."""


def broker_address(session: Session, queue: MessageQueue, preferred_id: int = MASTER_ID) -> str:
    """Who answers for a queue: its master, or a slave while that's gone. Raises NoRoute.

    - session: knows the routes
    - queue: which
    - preferred_id: 0 for the master, else a slave's broker id
    """
    address = session.routes.address(queue.topic, queue.broker_name, preferred_id)
    if address is None:
        raise NoRoute(queue.topic, f"no broker named {queue.broker_name} is known now")
    return address


class BrokerOffsets:
    """Kept by the brokers (14, 15)."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    def _fields(self, queue: MessageQueue) -> dict[str, object]:
        return {"consumerGroup": self._group, "topic": queue.topic, "queueId": queue.queue_id}

    async def read(self, queue: MessageQueue) -> int | None:
        address = broker_address(self._session, queue)
        answer = await self._session.call(address, RequestCode.QUERY_CONSUMER_OFFSET, self._fields(queue))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            # A slave hears of progress late, and may have less of the queue: starting where it says, the
            # group could skip what its master has. It may be one only since the route was asked for.
            await self._session.routes.route(queue.topic, fresh=True)
            if address != self._session.routes.master(queue.topic, queue.broker_name):
                raise NoRoute(queue.topic, f"{queue.broker_name} has no master now to say where to begin")
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise Refused.of(address, answer)
        return number_in(address, answer, "offset")

    async def write(self, queues: Iterable[MessageQueue], progress: Progress) -> list[Exception]:
        # Brokers concurrently, so that a silent one delays no other; a broker's queues one by one.
        parts: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            parts.setdefault(queue.broker_name, []).append(queue)
        failures = await gather(self._write(part, progress) for part in parts.values())
        return [error for errors in failures for error in errors]

    async def _write(self, queues: Iterable[MessageQueue], progress: Progress) -> list[Exception]:
        failed: list[Exception] = []
        for queue in queues:
            try:
                await self._write_one(queue, progress)
            except ClientError as error:
                failed.append(error)
                if isinstance(error, CallTimedOut):
                    break
        return failed

    async def _write_one(self, queue: MessageQueue, progress: Progress) -> None:
        address = broker_address(self._session, queue)
        try:
            await self._tell(address, queue, progress(queue))
        except ConnectFailed:
            # The master has just gone: a slave keeps the offset for it.
            other = broker_address(self._session, queue)
            if other == address:
                raise
            await self._tell(other, queue, progress(queue))

    async def _tell(self, address: str, queue: MessageQueue, offset: int | None) -> None:
        if offset is not None:
            fields = self._fields(queue) | {"commitOffset": offset}
            await self._session.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)


class LocalOffsets:
    """Kept in a file of RocketMQ's format (offsets.json of a broadcasting consumer), or in memory only.

    - driver: reads and writes the file
    - path: of it; None: there is none
    - begin: without a file: where to begin

    Raises ClientError if the file isn't one of offsets.
    """

    def __init__(
        self, driver: Driver, path: Path | None, begin: Mapping[MessageQueue, int] | None = None
    ) -> None:
        self._file = None if path is None else driver.file(path)
        self._table = dict(begin or {}) if self._file is None else _load(self._file, path)

    async def read(self, queue: MessageQueue) -> int | None:
        return self._table.get(queue)

    async def write(self, queues: Iterable[MessageQueue], progress: Progress) -> list[Exception]:
        known = {queue: progress(queue) for queue in queues}
        self._table.update({queue: offset for queue, offset in known.items() if offset is not None})
        try:
            if self._file is not None:
                self._file.replace(fastjson.dumps_compact({"offsetTable": self._table}))
        except OSError as error:
            return [error]
        return []


def _load(file: WholeFile, path: Path | None) -> dict[MessageQueue, int]:
    try:
        data = file.read()
        return {} if data is None else parse_queue_table(fastjson.loads(data)["offsetTable"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClientError(f"{path}: not a file of offsets: {error}") from error
