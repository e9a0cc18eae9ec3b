"""Message properties: `name 01 value 02 name 01 value`, UTF-8.

Reading follows Java's reader exactly, because index and tags must agree with a RocketMQ broker's: split at 02,
the name ends at the first 01, pieces with an empty name or value are ignored, and the last of a repeated name
wins (batches do repeat names). Some versions write a trailing 02 and some don't; both read
alike. Records keep the raw bytes; a dict is only made on demand.
"""

from __future__ import annotations

from collections.abc import Mapping

from hatwisted.wire.layout import PROPERTY_REAL_QUEUE_ID, PROPERTY_REAL_TOPIC

_NAME_END = b"\x01"
_PAIR_END = b"\x02"
_QUEUE_ID_LIMIT = 1 << 31


class NoDestination(ValueError):
    """A delayed or half message that doesn't say which topic and queue it is for."""


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """As 4.9.7 writes them: in the mapping's order, no trailing 02.

    ValueError for what couldn't be read back: an empty name or value, a 01 in a name, a 02 anywhere.
    """
    for name, value in properties.items():
        if not name or not value or "\x01" in name or "\x02" in name or "\x02" in value:
            raise ValueError(f"property {name!r}={value!r} can't be stored")
    return "\x02".join(f"{name}\x01{value}" for name, value in properties.items()).encode()


def split_raw(raw: bytes | memoryview) -> list[tuple[bytes, bytes]]:
    """All (name, value) pairs in stored order, repeats included, still as bytes."""
    pairs = []
    for piece in bytes(raw).split(_PAIR_END):
        name, mark, value = piece.partition(_NAME_END)
        if mark and name and value:
            pairs.append((name, value))
    return pairs


def decode_properties(raw: bytes | memoryview) -> dict[str, str]:
    """The pairs as text, the last of a repeated name; broken UTF-8 becomes U+FFFD as it does in Java."""
    return {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in split_raw(raw)
    }


def find_property(raw: bytes, name: bytes) -> bytes | None:
    """The value of one name, without splitting the rest: the last non-empty one, or None."""
    wanted = name + _NAME_END
    end = len(raw)
    while (at := raw.rfind(wanted, 0, end)) >= 0:
        if at == 0 or raw[at - 1] == 2:
            start = at + len(wanted)
            stop = raw.find(_PAIR_END, start)
            value = raw[start:stop] if stop >= 0 else raw[start:]
            if value:
                return value
        end = at + len(wanted) - 1
    return None


def set_destination(properties: dict[str, str], topic: str, queue_id: int) -> None:
    """Note which topic and queue a delayed or half message is for.

    - properties: the message's, changed
    - topic, queue_id: where it is to go
    """
    properties[PROPERTY_REAL_TOPIC] = topic
    properties[PROPERTY_REAL_QUEUE_ID] = str(queue_id)


def destination(properties: Mapping[str, str]) -> tuple[str, int]:
    """Topic and queue that a delayed or half message is for. Raises NoDestination."""
    topic = properties.get(PROPERTY_REAL_TOPIC, "")
    text = properties.get(PROPERTY_REAL_QUEUE_ID, "")
    queue_id = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else _QUEUE_ID_LIMIT
    if not topic or queue_id >= _QUEUE_ID_LIMIT:
        raise NoDestination(f"the record's real topic is {topic!r}, its real queue is {text!r}")
    return topic, queue_id
