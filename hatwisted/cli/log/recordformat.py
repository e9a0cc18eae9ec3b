"""One record as a line for people, or as a JSON object for programs.

Bodies are shown as stored. What isn't UTF-8 becomes base64, whatever was asked for, because anything else
would show text that isn't there; zlib-compressed bodies (the one compression every client has) are
inflated for display, up to INFLATE_LIMIT.
"""

from __future__ import annotations

import base64
from typing import Any, Final, Literal

from hatwisted.cli.optionvalues import iso_time
from hatwisted.clientcore.messagejson import MessageFields, compression_name, message_line
from hatwisted.wire import layout
from hatwisted.wire.inflate import NotInflated, inflate
from hatwisted.wire.messageid import encode_message_id
from hatwisted.wire.printable import printable
from hatwisted.wire.storedrecord import Record

BodyForm = Literal["text", "base64", "none"]

INFLATE_LIMIT: Final = 4 << 20
"""Bytes a compressed body may become; a larger one is shown as it is stored."""
LINE_BODY: Final = 120
"""Characters of a body in a line; `--json` gives all of it."""
_SHOWN_APART: Final = (layout.PROPERTY_TAGS, layout.PROPERTY_KEYS, layout.PROPERTY_UNIQ_KEY)


def body_text(record: Record) -> str | None:
    """The body as text, None if it isn't text."""
    body, packed = record.body, compression_name(record.sys_flag)
    try:
        if packed == "zlib":
            body = inflate(body, INFLATE_LIMIT)
        return body.decode() if packed in (None, "zlib") else None
    except (NotInflated, UnicodeDecodeError):
        return None


def as_line(record: Record, form: BodyForm) -> str:
    """One line without its end: offset, store time, topic/queue/index, size, tag, keys, id, rest, body."""
    properties = record.properties
    parts = [
        f"{record.physical_offset:<12}",
        iso_time(record.store_timestamp),
        f"{record.topic}/{record.queue_id}/{record.queue_offset}",
        f"{record.total_size}B",
    ]
    named = zip(("tag", "keys", "id"), _SHOWN_APART, strict=True)
    parts += [f"{label}={properties[name]}" for label, name in named if name in properties]
    if record.transaction_type:
        kinds = {4: "prepared", 8: "commit", 12: "rollback"}
        parts.append(f"transaction={kinds[record.transaction_type]}@{record.prepared_transaction_offset}")
    if form != "none":
        parts.append(f"body={_line_body(record, form)}")
    return printable(" ".join(parts))


def _line_body(record: Record, form: BodyForm) -> str:
    text = body_text(record) if form == "text" else None
    text = printable(text) if text is not None else "base64:" + base64.b64encode(record.body).decode()
    return text if len(text) <= LINE_BODY else text[:LINE_BODY] + f"... ({len(record.body)} bytes)"


def as_json(record: Record, form: BodyForm) -> bytes:
    """One JSON object without line end, as every command of ours writes a message, with what the log says
    besides."""
    properties = record.properties
    place = encode_message_id(record.store_host, record.physical_offset)
    fields: MessageFields = {
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "messageId": properties.get(layout.PROPERTY_UNIQ_KEY, place),
        "offsetMessageId": place,
        "keys": properties.get(layout.PROPERTY_KEYS, "").split(),
        "tags": properties.get(layout.PROPERTY_TAGS, ""),
        "properties": properties,
        "reconsumeTimes": record.reconsume_times,
        "bornTimestamp": record.born_timestamp,
        "storeTimestamp": record.store_timestamp,
    }
    more: dict[str, Any] = {
        "physicalOffset": record.physical_offset,
        "size": record.total_size,
        "storeHost": str(record.store_host),
        "bornHost": str(record.born_host),
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "bodyCRC": record.body_crc,
        "bodySize": len(record.body),
    }
    if (packed := compression_name(record.sys_flag)) is not None:
        more["compression"] = packed
    text = body_text(record) if form == "text" else None
    body = {"body": text} if text is not None else {"body64": base64.b64encode(record.body).decode()}
    return message_line(fields, {} if form == "none" else body, **more)
