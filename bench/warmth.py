"""Memory that the host has given this machine already: on a virtual machine the first touch of a page can cost
more than the programs do with it (2.5 us per KiB were measured), and freed pages soon go back to the host.

So it is touched right before each measured phase, for every contender alike.
"""

from __future__ import annotations

import mmap
import time

PIECE = 1 << 20


def touch(size: int) -> float:
    """Touch that many bytes of memory and give them back; GB/s, which says whether they were there already."""
    size = max(PIECE, size - size % PIECE)
    one = b"\1" * PIECE
    begun = time.perf_counter()
    with mmap.mmap(-1, size) as memory:
        for at in range(0, size, PIECE):
            memory[at : at + PIECE] = one
    return size / (time.perf_counter() - begun) / 1e9
