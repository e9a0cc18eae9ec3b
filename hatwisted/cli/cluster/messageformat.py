"""`consume -f FORMAT -K SEP` as kcat's users know them: a line of output from a template.

kcat's letters mean what is nearest to it here: a partition is a queue, a key is all keys of a message, headers are
properties, a message's time is when it was stored, by which queues are searched as well. `%b %B %g %i` are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hatwisted.clientcore.message import DELIVERY_PROPERTIES, ReceivedMessage
from hatwisted.wire.layout import KEY_SEPARATOR, PROPERTY_KEYS, PROPERTY_TAGS

Piece = Callable[[ReceivedMessage], bytes]
"""Makes one part of a line."""


def _text(take: Callable[[ReceivedMessage], object]) -> Piece:
    return lambda message: str(take(message)).encode("utf-8", "surrogateescape")


def _fixed(text: bytes) -> Piece:
    return lambda message: text


def keys_text(message: ReceivedMessage) -> str:
    """All of its keys, as they are stored."""
    return KEY_SEPARATOR.join(message.keys)


def _headers(message: ReceivedMessage) -> str:
    own = {name: value for name, value in message.properties.items() if name not in NO_HEADERS}
    return ",".join(f"{name}={value}" for name, value in own.items())


NO_HEADERS: Final = DELIVERY_PROPERTIES | {PROPERTY_KEYS, PROPERTY_TAGS}
"""Properties of the delivery, and what other letters stand for."""
TOKENS: Final[dict[str, tuple[str, Piece]]] = {
    "s": ("body", lambda message: message.body),
    "S": ("length of the body in bytes", _text(lambda message: len(message.body))),
    "R": ("the same as 4 bytes, big-endian", lambda message: len(message.body).to_bytes(4, "big")),
    "k": ("keys, separated by spaces", _text(keys_text)),
    "K": ("length of %k in bytes", _text(lambda message: len(keys_text(message).encode()))),
    "T": ("time when it was stored, ms since the epoch", _text(lambda message: message.store_timestamp)),
    "h": ("its program's properties as name=value, separated by commas", _text(_headers)),
    "t": ("topic", _text(lambda message: message.queue.topic)),
    "p": ("queue", _text(lambda message: message.queue.queue_id)),
    "o": ("offset in the queue", _text(lambda message: message.queue_offset)),
    "b": ("name of the broker", _text(lambda message: message.queue.broker_name)),
    "B": (
        "time when its producer made it, ms since the epoch",
        _text(lambda message: message.born_timestamp),
    ),
    "g": ("tags", _text(lambda message: message.tags)),
    "i": ("message id", _text(lambda message: message.message_id)),
    "%": ("a percent sign", lambda message: b"%"),
}
"""Letter after % -> what it stands for, and how that is made."""
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.|$)", re.DOTALL)


def unescaped(text: str) -> bytes:
    r"""With \n, \r, \t, \0, \\ and \xNN replaced. Raises ValueError for another letter after a backslash."""
    found, at = b"", 0
    for each in _ESCAPE.finditer(text):
        letter = each[1]
        found += text[at : each.start()].encode()
        if letter.startswith("x") and len(letter) == 3:
            found += bytes.fromhex(letter[1:])
        elif letter in _ESCAPES:
            found += _ESCAPES[letter].encode()
        else:
            raise ValueError(rf"\{letter} isn't one of \n \r \t \0 \\ \xNN")
        at = each.end()
    return found + text[at:].encode()


def formatted(template: str) -> Piece:
    """What makes a message a line of this template. Raises ValueError for what isn't a token."""
    pieces: list[Piece] = []
    parts = re.split(r"%(.|$)", template, flags=re.DOTALL)
    for number, part in enumerate(parts):
        if number % 2:
            if part not in TOKENS:
                known = " ".join(f"%{letter}" for letter in TOKENS)
                raise ValueError(f"%{part} isn't one of {known}")
            pieces.append(TOKENS[part][1])
        elif part:
            pieces.append(_fixed(unescaped(part)))
    return lambda message: b"".join(piece(message) for piece in pieces)


def keyed(separator: bytes) -> Piece:
    """What makes a message a line of key, separator and body."""
    return lambda message: keys_text(message).encode() + separator + message.body + b"\n"
