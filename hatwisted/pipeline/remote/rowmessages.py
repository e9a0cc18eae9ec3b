"""Rows as messages: record batches in, `Outgoing` messages for `batchproducer` out.

A message's queue is, in this order: where columns chosen for it hash to; the row's own `queue_id`; its
`partition` (the same, with a `broker`; without, queues are counted by broker and number); where its `key` hashes
to; any. "Any" moves on after each full request, from a queue that differs from task to task, so that small
batches don't all go to the first queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import pyarrow as pa

from hatwisted.clientcore.errors import BadMessage
from hatwisted.clientcore.message import DELIVERY_PROPERTIES, checked_properties, checked_topic
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.remote.batchproducer import BATCH_COUNT, Outgoing, can_share
from hatwisted.pipeline.remote.rowcolumns import RowColumns
from hatwisted.pipeline.remote.rowkeys import RowKeys
from hatwisted.wire import layout
from hatwisted.wire.topics import SYSTEM_PREFIX, SYSTEM_TOPICS

NOT_COPIED: Final = DELIVERY_PROPERTIES | layout.BROKERS_PROPERTIES
"""Properties that aren't taken from a row's map: those of an earlier delivery, if the message was read."""
MAX_BODY: Final = 12 << 20
"""Bytes, so that a request stays below RocketMQ's 16 MiB. Brokers take 4 MiB unless they're told otherwise."""


class BadRow(PipelineError):
    """A row can't be a message; the text says which row, and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowOptions:
    """topic, delay_level: of all rows, None for each row's own; keep_queues: rows go to their own queue_id."""

    columns: RowColumns
    topic: str | None = None
    delay_level: int | None = None
    keep_queues: bool = True


class RowMessages:
    """The messages of one task.

    - options: how rows become messages
    - write: which write this is: the same when it's repeated, and no other's
    - partition: number of the task's part of the rows
    """

    def __init__(self, options: RowOptions, write: str, partition: int) -> None:
        self._options = options
        self._partition = partition
        self._keys = RowKeys(write, partition)
        self._first_queue = crc32(f"{write}/{partition}".encode())
        self._spread = 0
        self._number = 0

    def of(self, batch: pa.RecordBatch) -> Iterator[Outgoing]:
        """A batch's messages, in its order. Raises BadRow."""
        columns = self._options.columns
        names = dict.fromkeys((*columns.used, *columns.hashed))
        values = [batch.column(name).to_pylist() for name in names]
        for row in zip(*values, strict=True):
            try:
                yield self._message(dict(zip(names, row, strict=True)))
            except (BadMessage, ValueError) as error:
                raise BadRow(f"row {self._number} of partition {self._partition}: {error}") from None
            self._number += 1

    def _message(self, row: Mapping[str, Any]) -> Outgoing:
        options = self._options
        topic = checked_target(options.topic or row.get("topic"))
        body = _bytes(row[options.columns.body])
        if len(body) > MAX_BODY:
            raise ValueError(f"a body of {len(body)} bytes, {MAX_BODY} at most")
        properties = self._properties(row)
        named = row.get("unique_key") or self._keys.next(topic, body, checked_properties(properties))
        properties[layout.PROPERTY_UNIQ_KEY] = named
        broker, queue_id, place = self._queue(row)
        return Outgoing(
            number=self._number,
            topic=topic,
            body=body,
            properties=checked_properties(properties),
            flag=_number(row, "flag", -(1 << 31)),
            broker=broker,
            queue_id=queue_id,
            place=place,
            alone=not can_share(topic, properties),
        )

    def _properties(self, row: Mapping[str, Any]) -> dict[str, str]:
        """All but the unique key."""
        found = {name: value for name, value in _pairs(row) if name not in NOT_COPIED and value}
        if row.get("tags"):
            found[layout.PROPERTY_TAGS] = row["tags"]
        if keys := _key_text(row):
            found[layout.PROPERTY_KEYS] = keys
        delay = self._options.delay_level
        if delay is None:
            delay = _number(row, "delay_level", 0)
        if delay:
            found[layout.PROPERTY_DELAY] = str(delay)
        return found

    def _queue(self, row: Mapping[str, Any]) -> tuple[str | None, int | None, int | None]:
        """(broker, queue id, place among the topic's queues): either the last is None, or the first two."""
        if hashed := self._options.columns.hashed:
            return None, None, crc32(b"\0".join(_bytes(row[name]) for name in hashed))
        if self._options.keep_queues and row.get("queue_id") is not None:
            return row.get("broker"), row["queue_id"], None
        if row.get("partition") is not None:
            if row.get("broker"):
                return row["broker"], row["partition"], None
            return None, None, row["partition"]
        if row.get("key") is not None:
            return None, None, crc32(_bytes(row["key"]))
        place = self._first_queue + self._spread // BATCH_COUNT
        self._spread += 1
        return None, None, place


def checked_target(topic: str | None) -> str:
    """`topic` if messages may be written to it; ValueError or BadMessage otherwise."""
    if topic is None:
        raise ValueError("has no topic: give the option topic, or leave such rows out")
    if topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX):
        raise ValueError(f"topic {topic} is the brokers' own: choose another")
    return checked_topic(topic)


def _pairs(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """From the map, and from Kafka's headers."""
    yield from row.get("properties") or ()
    for header in filter(None, row.get("headers") or ()):
        if header["key"] is None:
            raise ValueError("has a header without a key")
        yield header["key"], _text(header["value"])


def _key_text(row: Mapping[str, Any]) -> str:
    keys: str | Sequence[str] | None = row.get("keys")
    if keys:
        return keys if isinstance(keys, str) else layout.KEY_SEPARATOR.join(filter(None, keys))
    return _text(row.get("key"))


def _number(row: Mapping[str, Any], name: str, least: int) -> int:
    """Of 32 bits, as brokers have room for; 0 if there's none."""
    value: int = row.get(name) or 0
    if not least <= value < 1 << 31:
        raise ValueError(f"{name} {value} must be from {least} to {(1 << 31) - 1}")
    return value


def _bytes(value: Any) -> bytes:
    """A column's value: of an empty one nothing, of a number its digits."""
    if isinstance(value, bytes):
        return value
    return b"" if value is None else str(value).encode()


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()  # a UnicodeDecodeError is a ValueError: the row is told
    return "" if value is None else str(value)
