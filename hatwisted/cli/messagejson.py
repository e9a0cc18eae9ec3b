"""A message as JSON: the same names in every command that writes one, and what those who read one may leave out.

RocketMQ's own tools have several names for the same thing (msgId is the id of the producer here, that of the
place in the log there). Ours are: `messageId`, which the producer made, and `offsetMessageId`, which says where
it is stored. A body that isn't UTF-8 is in `body64`, as base64.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

import msgspec


class MessageFields(TypedDict):
    """What every command knows of a message."""

    topic: str
    queueId: int
    queueOffset: int
    messageId: str
    offsetMessageId: str
    keys: Sequence[str]
    tags: str
    properties: Mapping[str, str]
    reconsumeTimes: int
    bornTimestamp: int
    storeTimestamp: int


ORIGIN: Final = frozenset(
    """
    broker queueId queueOffset messageId offsetMessageId reconsumeTimes bornTimestamp storeTimestamp status
    physicalOffset size storeHost bornHost flag sysFlag preparedTransactionOffset bodyCRC bodySize compression
    queue_id queue_offset physical_offset store_timestamp born_timestamp store_host born_host unique_key sys_flag
    reconsume_times transaction
    queue offset offsetId msgId
    """.split()
)
"""Names that tell where a message came from: of our commands, of exported tables, and of former versions."""


def message_line(fields: MessageFields, body: Mapping[str, str], **more: Any) -> bytes:
    """One object, without a line end.

    - fields: of the message
    - body: as `body_fields` has it
    - more: what this command knows besides
    """
    return msgspec.json.encode({**fields, **more, **body})


def body_fields(body: bytes) -> dict[str, str]:
    """As text if it is UTF-8, else as base64."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body64": base64.b64encode(body).decode()}
