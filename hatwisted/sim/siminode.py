"""One file's bytes, twice: as programs see them (the kernel's page cache), and as they stand on the platter."""

from __future__ import annotations

from random import Random

PAGE = 4096
SECTOR = 512
"""Bytes that a disk writes whole or not at all."""

TORN = 0.2
"""Chance of a dirty page to be written in part."""


class Inode:
    """One file's bytes. data: as programs see them; stable: as on the platter."""

    __slots__ = ("allocated", "data", "dirty", "doubtful", "grown", "mtime", "stable", "syncs")

    def __init__(self, stable: bytearray, mtime: float) -> None:
        self.stable = stable
        self.data = bytearray(stable)
        self.mtime = mtime
        self.allocated = len(stable)
        """Bytes for which a full disk has room."""
        self.dirty: set[int] = set()
        """Pages that the next sync writes."""
        self.doubtful: set[int] = set()
        """Pages of a sync that failed."""
        self.grown: list[int] = []
        """Lengths that writes beyond the end have given it since the last sync."""
        self.syncs = 0

    def note(self, start: int, end: int) -> None:
        """These bytes were changed."""
        first = start // PAGE
        if start < end <= first * PAGE + PAGE:  # most writes
            self.dirty.add(first)
            self.doubtful.discard(first)
            return
        pages = range(first, (end + PAGE - 1) // PAGE)
        self.dirty.update(pages)
        self.doubtful.difference_update(pages)

    def grow(self, size: int) -> None:
        """Longer by a write: that length reaches the platter with the bytes, some time."""
        resize(self.data, size)
        self.grown.append(size)

    def sync(self) -> None:
        """Bring everything over but what is in doubt."""
        self.syncs += 1
        self.grown.clear()
        resize(self.stable, len(self.data))
        for page in self.dirty:
            self._bring(page * PAGE, page * PAGE + PAGE)
        self.dirty.clear()

    def sync_failed(self) -> None:
        """The kernel takes its pages for clean from now on."""
        self.doubtful |= self.dirty
        self.dirty.clear()

    def write_back(self, random: Random, kept: float) -> None:
        """What the kernel may have written by itself; kept: the chance of each change."""
        taken = random.randrange(len(self.grown) + 1)
        for size in self.grown[:taken]:
            resize(self.stable, max(size, len(self.stable)))
        del self.grown[:taken]
        for page in sorted(self.dirty | self.doubtful):
            if random.random() >= kept:
                continue
            if random.random() < TORN:
                for sector in range(page * PAGE, page * PAGE + PAGE, SECTOR):
                    if random.random() < 0.5:
                        self._bring(sector, sector + SECTOR)
            else:
                self._bring(page * PAGE, page * PAGE + PAGE)
                self.dirty.discard(page)
                self.doubtful.discard(page)

    def _bring(self, start: int, end: int) -> None:
        end = min(end, len(self.stable), len(self.data))
        if start < end:
            self.stable[start:end] = self.data[start:end]

    def reboot(self) -> None:
        """Programs see what is on the platter."""
        self.data = bytearray(self.stable)
        self.allocated = len(self.stable)
        self.dirty.clear()
        self.doubtful.clear()
        self.grown.clear()


def resize(data: bytearray, size: int) -> None:
    """Cut off, or add zeros."""
    if size > len(data):
        data.extend(bytes(size - len(data)))
    elif size < len(data):
        del data[size:]
