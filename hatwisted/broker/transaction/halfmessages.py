"""Half messages: what a producer has sent and not yet decided about, and the records about it.

A half lies in RMQ_SYS_TRANS_HALF_TOPIC and says in its properties where it belongs. Its decision is an op
record (tag `d`, body: the half's queue offset in decimal) in RMQ_SYS_TRANS_OP_HALF_TOPIC. Nothing else is kept
about transactions, so that a RocketMQ broker can go on with our store and we with its: pure functions from
record to message.

One slip of RocketMQ 4.9.7 is ruled out: a half that is parked again keeps its flag.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hatwisted.broker.put.innerput import InnerMessage
from hatwisted.wire import layout
from hatwisted.wire.properties import NoDestination, destination, set_destination
from hatwisted.wire.storedrecord import Record

HALF_QUEUE = 0
"""All halves are in one queue, and so are all ops: the order of their offsets is the order of time."""

OP_TAG = "d"
PROPERTY_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PROPERTY_FIRST_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"


def park(properties: dict[str, str], topic: str, queue_id: int, group: str) -> None:
    """Make the properties of a send those of a half. Transactions aren't delayed. What the check notes in halves
    is the broker's word alone: by a producer's, its half would pass for another one, or for one checked in vain.

    - properties: the message's, changed
    - topic, queue_id: where it is to go
    - group: its producer's
    """
    for name in (layout.PROPERTY_DELAY, PROPERTY_FIRST_OFFSET, layout.PROPERTY_CHECK_TIMES):
        properties.pop(name, None)
    properties.setdefault(layout.PROPERTY_PRODUCER_GROUP, group)
    set_destination(properties, topic, queue_id)


def half_destination(properties: Mapping[str, str]) -> tuple[str, int]:
    """Topic and queue that a half is for. Raises NoDestination."""
    topic, queue_id = destination(properties)
    if topic == layout.HALF_TOPIC:
        raise NoDestination(f"the record's real topic is {topic!r}")
    return topic, queue_id


def number(text: str) -> int:
    """A decimal number as a broker writes them, -1 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1


def again(record: Record, topic: str, queue_id: int) -> InnerMessage:
    """The same record for another place, without its transaction bits.

    - record: a half
    - topic, queue_id: where it goes
    """
    return InnerMessage(
        topic=topic,
        queue_id=queue_id,
        body=record.body,
        properties=record.raw_properties,
        flag=record.flag,
        sys_flag=record.sys_flag & ~layout.SYS_TRANSACTION_MASK,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host.pack(),
        reconsume_times=record.reconsume_times,
    )


def committed(half: Record) -> InnerMessage:
    """What consumers get of a half. Raises NoDestination."""
    message = again(half, *half_destination(half.properties))
    return msgspec.structs.replace(
        message,
        sys_flag=message.sys_flag | layout.SYS_TRANSACTION_COMMIT,
        prepared_offset=half.physical_offset,
    )


def parked_again(half: Record, properties: Mapping[str, str]) -> InnerMessage:
    """The half at the end of its queue, with other properties."""
    return msgspec.structs.replace(again(half, layout.HALF_TOPIC, HALF_QUEUE), properties=properties)


def op_message(half_offset: int, now: int) -> InnerMessage:
    """The half with this queue offset is decided. now: ms."""
    return InnerMessage(
        topic=layout.OP_HALF_TOPIC,
        queue_id=HALF_QUEUE,
        body=str(half_offset).encode(),
        properties={layout.PROPERTY_TAGS: OP_TAG},
        born_timestamp=now,
    )


def decided_by(op: Record) -> list[int]:
    """Half queue offsets that an op names: one of 4.9's, several with commas of 5's."""
    if op.properties.get(layout.PROPERTY_TAGS) != OP_TAG:
        return []
    offsets = [number(part) for part in op.body.decode("ascii", "replace").split(",") if part]
    return [offset for offset in offsets if offset >= 0]
