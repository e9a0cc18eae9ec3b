"""Where a group stands in a queue: at the brokers for clustering, with the consumer itself for broadcasting."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hatwisted.client.errors import ClientError, NoRoute, Refused
from hatwisted.client.routes import MASTER_ID
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue, parse_queue_table

if TYPE_CHECKING:
    from hatwisted.client.cluster import Cluster


class OffsetStore(Protocol):
    """The next offset to be consumed, by queue."""

    async def read(self, queue: MessageQueue) -> int | None:
        """None: the group has never been there. Any error means "not known", never "none"."""

    async def write(self, offsets: Mapping[MessageQueue, int]) -> list[Exception]:
        """Note all that can be noted; what failed comes back."""


def broker_address(cluster: Cluster, queue: MessageQueue, wished_id: int = MASTER_ID) -> str:
    """Who answers for `queue`: its master, or a slave while that's gone. Raises NoRoute."""
    address = cluster.routes.address(queue.topic, queue.broker_name, wished_id)
    if address is None:
        raise NoRoute(queue.topic, f"no broker named {queue.broker_name} is known now")
    return address


class BrokerOffsets:
    """Kept by the brokers (14, 15)."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group

    def _fields(self, queue: MessageQueue) -> dict[str, object]:
        return {"consumerGroup": self._group, "topic": queue.topic, "queueId": queue.queue_id}

    async def read(self, queue: MessageQueue) -> int | None:
        address = broker_address(self._cluster, queue)
        answer = await self._cluster.call(address, RequestCode.QUERY_CONSUMER_OFFSET, self._fields(queue))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise Refused.of(address, answer)
        return int(answer.ext["offset"])

    async def write(self, offsets: Mapping[MessageQueue, int]) -> list[Exception]:
        failed: list[Exception] = []
        for queue, offset in offsets.items():
            fields = self._fields(queue) | {"commitOffset": offset}
            try:
                address = broker_address(self._cluster, queue)
                await self._cluster.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
            except Exception as error:
                failed.append(error)
        return failed


class LocalOffsets:
    """Kept in a file of RocketMQ's format (offsets.json of a broadcasting consumer), or in memory only.

    path: the file; its folder is made when needed. Reading raises ClientError if the file isn't one.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._table = _load(path)

    async def read(self, queue: MessageQueue) -> int | None:
        return self._table.get(queue)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> list[Exception]:
        self._table.update(offsets)
        if self._path is None:
            return []
        draft = self._path.with_name(self._path.name + ".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(fastjson.dumps_compact({"offsetTable": self._table}))
            os.replace(draft, self._path)
        except OSError as error:
            return [error]
        return []


def _load(path: Path | None) -> dict[MessageQueue, int]:
    if path is None:
        return {}
    try:
        table = fastjson.loads(path.read_bytes())
        return parse_queue_table(table["offsetTable"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClientError(f"{path}: not a file of offsets: {error}") from error
