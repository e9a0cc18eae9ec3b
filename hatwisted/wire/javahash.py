"""Java's `String.hashCode`, which determines tags codes and index slots.

h = 31*h + unit over the UTF-16 units, wrapped to 32 bits signed. Written as a dot product with the powers of
31 so that the loop runs inside `sum(map(mul, ...))`, several times faster than a Python loop for the 40 to 80
characters of an index key. The powers are reduced mod 2^32, so every product stays below 2^48 and the sum
over a whole table below 2^63, where `sum` adds machine integers. Many keys at once: `logcodec.keyhash`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import mul
from typing import Final

_CHUNK: Final = 512
"""Units per dot product; longer strings (rare) are folded chunk by chunk."""
_POWERS: Final = tuple(pow(31, _CHUNK - 1 - k, 1 << 32) for k in range(_CHUNK))
_CHUNK_FACTOR: Final = pow(31, _CHUNK, 1 << 32)


def java_hash(text: str) -> int:
    """`text.hashCode()` of Java as a signed 32-bit number ("Tag1" is 2598903)."""
    units: Sequence[int]
    if text.isascii():
        units = text.encode("ascii")
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(raw) // 2}H", raw)
    count = len(units)
    first = count % _CHUNK
    value: int = sum(map(mul, units[:first], _POWERS[_CHUNK - first :]))
    for start in range(first, count, _CHUNK):
        value = value * _CHUNK_FACTOR + sum(map(mul, units[start : start + _CHUNK], _POWERS))
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
