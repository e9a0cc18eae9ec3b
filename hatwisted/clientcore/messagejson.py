"""A message as JSON: the same names wherever one is written, and what those who read one may leave out.

RocketMQ's own tools have several names for the same thing (msgId is the id of the producer here, that of the
place in the log there). Ours are: `messageId`, which the producer made, and `offsetMessageId`, which says where
it is stored. `topic`, `queueId` and `queueOffset` are where it lies: of a message that waits for another try in
the topic of its group, not where its producer sent it to. A body that isn't UTF-8 is in `body64`, as base64.

Tables have other names for the same fields (TABLE_NAMES): SQL doesn't tell queueId from queueid. Exports of former
versions had them in NDJSON, too.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypedDict

import msgspec

from hatwisted.clientcore.compression import decompress
from hatwisted.clientcore.errors import UnreadableBody
from hatwisted.wire import layout
from hatwisted.wire.printable import printable_json


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


TABLE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "queue_id": "queueId",
        "queue_offset": "queueOffset",
        "unique_key": "messageId",
        "reconsume_times": "reconsumeTimes",
        "born_timestamp": "bornTimestamp",
        "store_timestamp": "storeTimestamp",
        "physical_offset": "physicalOffset",
        "store_host": "storeHost",
        "born_host": "bornHost",
        "sys_flag": "sysFlag",
        "prepared_transaction_offset": "preparedTransactionOffset",
        "body_crc": "bodyCRC",
        "body_crc_ok": "bodyCRCOk",
    }
)
"""What a table calls them. All other columns have the names that JSON has."""
NAMES: Final = (
    *MessageFields.__annotations__, "broker", "physicalOffset", "size", "storeHost", "bornHost", "flag", "sysFlag",
    "transaction", "preparedTransactionOffset", "bodyCRC", "bodyCRCOk", "bodySize", "compression", "file",
    "body", "body64",
)  # fmt: skip
"""All, in the order in which they are written."""

_FORMER: Final = frozenset({"queue", "offset", "offsetId", "msgId"})
_CONTENT: Final = frozenset({"topic", "keys", "tags", "properties", "body", "body64"})
ORIGIN: Final = (frozenset(NAMES) | TABLE_NAMES.keys() | _FORMER | {"status"}) - _CONTENT
"""Names that tell where a message came from: of our commands, of exported tables, and of former versions."""

_COMPRESSIONS: Final = {layout.SYS_COMPRESSION_LZ4: "lz4", layout.SYS_COMPRESSION_ZSTD: "zstd"}


def message_line(fields: MessageFields, body: Mapping[str, str], **more: Any) -> bytes:
    """One object, without a line end, and with nothing that a terminal would obey.

    - fields: of the message
    - body: as `body_fields` has it
    - more: what this command knows besides
    """
    return printable_json(msgspec.json.encode({**fields, **more, **body}))


def body_fields(body: bytes) -> dict[str, str]:
    """As text if it is UTF-8, else as base64."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body64": base64.b64encode(body).decode()}


def compression_name(sys_flag: int) -> str | None:
    """What a stored body is compressed with, as its sysFlag says: `compression` beside a body that is shown as it
    is stored."""
    if not sys_flag & layout.SYS_COMPRESSED:
        return None
    return _COMPRESSIONS.get(sys_flag & layout.SYS_COMPRESSION_MASK, "zlib")


def body_of(body64: str, compression: str | None = None, sys_flag: int = 0) -> bytes:
    """The body that its producer gave. Raises ValueError if that can't be said.

    - body64: base64
    - compression: what it says is why the body is as it is stored
    - sys_flag: how it is compressed then
    """
    try:
        body = base64.b64decode(body64, validate=True)
    except binascii.Error as error:
        raise ValueError(f"body64: {error}") from None
    try:
        return decompress(body, sys_flag) if compression else body
    except UnreadableBody as error:
        raise ValueError(str(error)) from None
