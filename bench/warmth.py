"""Memory that the host has given this machine already: on a virtual machine the first touch of a page can cost
more than the programs do with it (2.5 us per KiB were measured), and freed pages soon go back to the host.

So memory is as on a broker that has run for days: full of cached pages, which the next files take over. They are
those of a file without a block on the disk, read right before each measured phase, for every contender alike. A
file of 1 GiB was written at 0.33 GB/s into memory that was free, at 3.9 to 4.9 GB/s into memory filled like that.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

PIECE = 1 << 20
LOOK_PIECES = 64
"""Pieces read between two looks at what is left."""
LEFT_FREE = 2 << 30
"""Bytes that may stay free: the system keeps some by itself."""


class Warmth:
    """Fills this machine's memory. folder: for the file, which is as large as the memory and takes no room."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cached-pages"
        self._at = 0

    def fill(self, most: int | None = None) -> int:
        """Bytes of free memory that were filled. most: of them; None for all."""
        size = memory("MemTotal")
        size -= size % PIECE
        before = memory("MemFree")
        goal = max(LEFT_FREE, 0 if most is None else before - most)
        room = bytearray(PIECE)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        number = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(number, size)
            left = size // PIECE
            while left > 0 and memory("MemFree") > goal:
                for _ in range(min(left, LOOK_PIECES)):
                    os.preadv(number, [room], self._at)
                    self._at = (self._at + PIECE) % size
                left -= LOOK_PIECES
        finally:
            os.close(number)
        return max(0, before - memory("MemFree"))

    def end(self) -> None:
        """Give the memory back."""
        self._path.unlink(missing_ok=True)


def memory(name: str) -> int:
    """Bytes, of /proc/meminfo."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise LookupError(f"/proc/meminfo has no {name}")


def touch(size: int) -> None:
    """Have so many bytes from the host and give them back to the system, which gives them first to whoever grows
    next: within seconds, since what stays free is soon the host's again."""
    with mmap.mmap(-1, size) as room:
        piece = b"\1" * PIECE
        for begin in range(0, size, PIECE):
            room[begin : begin + PIECE] = piece[: size - begin]
