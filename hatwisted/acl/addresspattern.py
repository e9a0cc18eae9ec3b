"""Addresses that need no signature, as RocketMQ's files write them.

`*`, `10.1.2.3`, `10.1.2.3,10.1.2.4`, `10.1.2.{3,4}`, `10.1.2-5.*`, and the like with the groups of an IPv6
address (`fe80::{1,2}`, `fe80::10-1f:*`). Every part of an address has to fit its part of the pattern. RocketMQ
looks no further than the first range or asterisk, so that its `10.*.0.1` is all of 10.0.0.0/8: a list of addresses
that are let in must not be wider than it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

MAX_LENGTH: Final = 4096
"""Characters of one pattern."""

_EVERYBODY: Final = frozenset(("*", "*.*.*.*", "*:*:*:*:*:*:*:*"))


class _Form(NamedTuple):
    """How addresses of one version are written."""

    separator: str
    parts: int
    base: int
    most: int


_V4: Final = _Form(".", 4, 10, 255)
_V6: Final = _Form(":", 8, 16, 0xFFFF)

_Ranges = tuple[tuple[int, int], ...]
"""(lowest, highest) of each part of an address."""


class AddressPattern:
    """Which addresses `text` lets in; an empty one none. Raises ValueError if it can't be read."""

    def __init__(self, text: str | None) -> None:
        self.text = (text or "").strip()
        if len(self.text) > MAX_LENGTH:
            raise ValueError(f"an address pattern has at most {MAX_LENGTH} characters, not {len(self.text)}")
        self._everybody = self.text in _EVERYBODY
        self._ranges = () if self._everybody else tuple(map(_ranges, _single_patterns(self.text)))

    def __bool__(self) -> bool:
        """Does it let anybody in?"""
        return self._everybody or bool(self._ranges)

    def matches(self, address: str) -> bool:
        """Is the IP address `address` let in?"""
        if self._everybody or not self._ranges:
            return self._everybody
        try:
            parts = _parts(address)
        except ValueError:
            return False
        return any(
            len(ranges) == len(parts)
            and all(low <= part <= high for part, (low, high) in zip(parts, ranges, strict=True))
            for ranges in self._ranges
        )


def _parts(address: str) -> tuple[int, ...]:
    """The numbers that an address consists of."""
    parsed = ip_address(address.partition("%")[0])
    packed = parsed.packed
    if isinstance(parsed, IPv6Address):
        return tuple(int.from_bytes(packed[at : at + 2], "big") for at in range(0, 16, 2))
    return tuple(packed)


def _single_patterns(text: str) -> Iterator[str]:
    """Without lists and braces."""
    if text.endswith("}"):
        head, brace, last = text[:-1].partition("{")
        if not brace or not head.endswith((".", ":")):
            raise ValueError(f"address pattern {text!r}: braces may only stand for the last part")
        yield from (head + each.strip() for each in last.split(",") if each.strip())
    else:
        yield from (each.strip() for each in text.split(",") if each.strip())


def _ranges(pattern: str) -> _Ranges:
    form = _V6 if ":" in pattern else _V4
    head, gap, tail = pattern.partition("::") if form is _V6 else (pattern, "", "")
    first, last = _split(head, form), _split(tail, form)
    missing = form.parts - len(first) - len(last)
    if missing < 0 or (missing > 0) != bool(gap):
        raise ValueError(f"address pattern {pattern!r} must have {form.parts} parts")
    try:
        parts = [_range(part, form) for part in [*first, *["0"] * missing, *last]]
    except ValueError as error:
        raise ValueError(f"address pattern {pattern!r}: {error}") from None
    return tuple(parts)


def _split(text: str, form: _Form) -> list[str]:
    return text.split(form.separator) if text else []


def _range(part: str, form: _Form) -> tuple[int, int]:
    if part.strip() == "*":
        return 0, form.most
    low, dash, high = part.partition("-")
    lowest = _number(low, form)
    highest = _number(high, form) if dash else lowest
    if lowest > highest:
        raise ValueError(f"{part!r} ends before it begins")
    return lowest, highest


def _number(text: str, form: _Form) -> int:
    text = text.strip()
    if not text.isalnum() or not text.isascii() or len(text) > 4:
        raise ValueError(f"{text!r} isn't a number")
    try:
        number = int(text, form.base)
    except ValueError:
        raise ValueError(f"{text!r} isn't a number") from None
    if number > form.most:
        raise ValueError(
            f"{text!r} is more than {form.most:x}" if form is _V6 else f"{text} is more than 255"
        )
    return number
