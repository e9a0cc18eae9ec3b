"""Bodies of any bytes."""

from __future__ import annotations

import random
from collections.abc import Callable

from hatwisted.pipeline.schemas.values import Misfit


def misfits(decode: Callable[[bytes], object]) -> int:
    """How many of 3,000 random bodies don't fit; nothing but Misfit may leave `decode`."""
    chance, found = random.Random(5), 0
    for _ in range(3000):
        try:
            decode(chance.randbytes(chance.randrange(24)))
        except Misfit:
            found += 1
    return found
