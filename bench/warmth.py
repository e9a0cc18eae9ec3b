"""Memory that the host has given this machine already: on a virtual machine the first touch of a page can cost
more than the programs do with it (2.5 us per KiB were measured), and freed pages soon go back to the host.

So it is touched right before each measured phase, for every contender alike.
"""

from __future__ import annotations

import mmap
import time
from types import TracebackType
from typing import Self

PIECE = 1 << 20


class Held:
    """That many bytes of memory, touched, which others get once they're released."""

    def __init__(self, size: int) -> None:
        self.size = max(PIECE, size - size % PIECE)
        self._memory = mmap.mmap(-1, self.size)
        one = b"\1" * PIECE
        for at in range(0, self.size, PIECE):
            self._memory[at : at + PIECE] = one

    def release(self) -> None:
        """Give them back; idempotent."""
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def touch(size: int) -> float:
    """Touch that many bytes of memory and give them back; GB/s, which says whether they were there already."""
    begun = time.perf_counter()
    with Held(size) as held:
        return held.size / (time.perf_counter() - begun) / 1e9
