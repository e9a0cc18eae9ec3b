"""The offset message id: upper-case hex of store host address, port (int32) and physical offset (int64).

32 digits for IPv4, 56 for IPv6. It is what a send is answered with and what a look-up by id takes; not to be
confused with the client's own UNIQ_KEY, which may be 56 digits long as well.
"""

from __future__ import annotations

from hatwisted.wire.hostport import HostPort


class BadMessageId(ValueError):
    """A peer's or user's text isn't an offset message id."""


def encode_message_id(store_host: HostPort, physical_offset: int) -> str:
    """32 or 56 upper-case hex digits."""
    return (store_host.pack() + physical_offset.to_bytes(8, "big", signed=True)).hex().upper()


def decode_message_id(text: str) -> tuple[HostPort, int]:
    """(store host, physical offset); BadMessageId for another length, other digits or a negative offset."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raise BadMessageId(f"message id {text!r} is not hexadecimal") from None
    if len(text) not in (32, 56) or 2 * len(raw) != len(text):
        raise BadMessageId(f"message id of {len(text)} digits, 32 or 56 expected")
    offset = int.from_bytes(raw[-8:], "big", signed=True)
    if offset < 0:
        raise BadMessageId(f"message id {text} holds the negative offset {offset}")
    return HostPort.unpack(raw, 0, ipv6=len(text) == 56), offset
