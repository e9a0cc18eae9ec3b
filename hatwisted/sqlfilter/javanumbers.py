"""Numbers as Java reads and orders them: Integer.valueOf, Long.valueOf, Double.valueOf and their compareTo.

A property is a string. Compared with a number it is converted to that number's class, by Java's rules: blanks
are allowed around doubles but not around whole numbers; `3000000000` isn't an Integer, nor `5.5` a Long; NaN
is above everything and -0.0 below 0.0. Python's int() and float() accept more (`1_000`, `inf`, `٣.٥`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

import msgspec

from hatwisted.sqlfilter.tree import Number, NumberKind

_INT_END: Final = 1 << 31
_LONG_END: Final = 1 << 63
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_WHOLE_ANY_SCRIPT: Final = re.compile(r"[+-]?\d+")
_MAX_DIGITS: Final = 4000
"""Digits that Python converts to an int without complaint; more are out of range, unless they are zeros."""
_BMP_END: Final = "\uffff"
"""Java looks at UTF-16 code units: it sees no digits beyond this character."""
_DOUBLE: Final = re.compile(
    r"[+-]?(?:(?P<special>NaN|Infinity)"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]++\.?|[0-9a-fA-F]*+\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
    r"|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)"
)
"""Possessive throughout: digits that two repetitions could share would be tried in every split."""
_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""What Java's String.trim removes."""


class NotComparable(Exception):
    """A message's property doesn't fit what it is compared with. 4.9.7 then abandons the whole
    expression, whatever its other parts would say: the message doesn't match."""


def java_integer(text: str) -> int:
    """Integer.valueOf. Raises NotComparable."""
    return _whole(text, _INT_END)


def java_long(text: str) -> int:
    """Long.valueOf. Raises NotComparable."""
    return _whole(text, _LONG_END)


def _whole(text: str, end: int) -> int:
    if _WHOLE.fullmatch(text) is None and (_WHOLE_ANY_SCRIPT.fullmatch(text) is None or max(text) > _BMP_END):
        raise NotComparable(text)
    if len(text) > _MAX_DIGITS:
        raise NotComparable(text)
    value = int(text)
    if not -end <= value < end:
        raise NotComparable(text)
    return value


def java_double(text: str) -> float:
    """Double.valueOf. Raises NotComparable."""
    text = text.strip(_TRIMMED)
    found = _DOUBLE.fullmatch(text)
    if found is None:
        raise NotComparable(text)
    if found["special"]:
        return float(text)
    text = text.rstrip("fFdD") if not found["hex"] else text
    return _from_hex(text) if found["hex"] else float(text)


def _from_hex(text: str) -> float:
    text = re.sub(r"(?<=[0-9])[fFdD]$", "", text)
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def compare_doubles(left: float, right: float) -> int:
    """Double.compareTo: negative, 0 or positive."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    """Orders what isn't ordered by `<`: -0.0, other equals, NaN."""
    if math.isnan(value):
        return 2
    return 0 if value == 0 and math.copysign(1, value) < 0 else 1


def compare_whole(left: float, right: float) -> int:
    """Integer.compareTo and Long.compareTo."""
    return (left > right) - (left < right)


def compare_numbers(left: Number, right: Number) -> int:
    """Two numbers of an expression: as doubles if either is one; whole numbers then lose what a double can't
    represent."""
    if NumberKind.DOUBLE in (left.kind, right.kind):
        return compare_doubles(float(left.value), float(right.value))
    return compare_whole(int(left.value), int(right.value))


class TextOrder(msgspec.Struct, gc=False):
    """How a property's text orders relative to a number of an expression."""

    read: Callable[[str], float]
    compare: Callable[[float, float], int]
    number: float

    def of(self, text: str) -> int:
        """Negative, 0 or positive. Raises NotComparable."""
        return self.compare(self.read(text), self.number)


def text_order(number: Number) -> TextOrder:
    """That of texts and `number`, as its class reads and orders them."""
    if number.kind is NumberKind.DOUBLE:
        return TextOrder(java_double, compare_doubles, number.value)
    return TextOrder(
        java_integer if number.kind is NumberKind.INTEGER else java_long, compare_whole, number.value
    )
