"""Inputs made of others, without a look at coverage: for runs that can't be led, the same each time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

NUMBERS = (
    *(b"\0", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0"),
    *(b"\xff\xff\xff\xff", b"\xff" * 8, b"\x80" + bytes(7), b"\x7f" + b"\xff" * 7, b"\x7f\xff", b"\x80\0"),
    *(
        b"-1",
        b"0",
        b"9" * 19,
        b"9" * 400,
        b"2147483648",
        b"-2147483649",
        b"9223372036854775808",
        b"1e999",
        b"NaN",
        b"null",
        b"[]",
        b"{}",
        b'""',
        b"'",
        b"\\u0000",
    ),
    *(b"\xed\xa0\x80", b"\xf0\x9f\x90\x8d", b"(" * 100, b"[" * 100, b"\n", b"\r\n", b"\x1b[31m", b"../"),
)
"""Ends of ranges, as bytes and as text, and what parsers stumble over."""

LONGEST = 64 << 10
"""Bytes of an input."""


def mutated(random: Random, inputs: Sequence[bytes]) -> bytes:
    """One of `inputs`, changed in one to four places."""
    data = bytearray(random.choice(inputs))
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(data))
        end = min(len(data), at + random.choice((0, 1, 1, 2, 4, 8, random.randint(0, 64))))
        match random.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1:
                data[at:end] = random.choice(NUMBERS)
            case 2:
                del data[at:end]
            case 3:
                other = random.choice(inputs)
                begin = random.randint(0, len(other))
                data[at:end] = other[begin : begin + random.randint(0, 64)]
            case 4:
                data[at:at] = data[at:end] * random.choice((1, 2, 16))
            case _:
                data[at:end] = random.randbytes(end - at)
    return bytes(data[:LONGEST])
