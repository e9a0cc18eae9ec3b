"""How many slots and items an index file was made with: nothing in it says so, but where its items are does.

The header names the first item's record and the last one's, and how many items there are. Only where the slots end
at the right place do an item of the first record, without one before it in its chain, and one of the last record
lie that many items apart. A file that hardly has items may fit more than one shape.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hatwisted.store.index.indexfile import HEADER, ITEM, file_length
from hatwisted.store.interfaces import IFile

CHUNK: Final = 4 << 20
"""Bytes looked through at once."""
_SLOT_BYTES: Final = file_length(1, 0) - file_length(0, 0)
_PHYSICAL_AT: Final = 4
"""Of an item: where its record's offset is."""


def fits(file: IFile, size: int, slots: int) -> bool:
    """Are the items of a file where this many slots put them?

    - file: an index file
    - size: its bytes
    - slots: their number
    """
    begin, left = file_length(slots, 0), size - file_length(slots, 0)
    _, _, first, last, _, count = HEADER.unpack(file.pread(HEADER.size, 0))
    if left < 0 or left % ITEM.size or not 1 < count <= left // ITEM.size:
        return False
    _, offset, _, previous = ITEM.unpack(file.pread(ITEM.size, begin + ITEM.size))
    _, end, _, _ = ITEM.unpack(file.pread(ITEM.size, begin + (count - 1) * ITEM.size))
    return (offset, previous, end) == (first, 0, last)


def slots_by_content(file: IFile, size: int) -> list[int]:
    """The numbers of slots that the file's items fit.

    - file: an index file
    - size: its bytes
    """
    first = HEADER.unpack(file.pread(HEADER.size, 0))[2]
    # Slots and items fill the file; five slots are as long as an item.
    begin = next(
        (slots for slots in range(ITEM.size) if not (size - file_length(slots, 0)) % ITEM.size), None
    )
    if begin is None:
        return []
    at = file_length(begin, 0) + ITEM.size + _PHYSICAL_AT
    found: list[int] = []
    while at + 8 <= size:
        chunk = file.pread(min(CHUNK // ITEM.size * ITEM.size, size - at), at)
        offsets = np.ndarray((len(chunk) + ITEM.size - 8) // ITEM.size, ">i8", chunk, strides=(ITEM.size,))
        step = ITEM.size // _SLOT_BYTES
        places = (at - file_length(begin, 0)) // ITEM.size - 1 + np.flatnonzero(offsets == first)
        found += [slots for slots in (begin + places * step).tolist() if fits(file, size, slots)]
        at += len(chunk) // ITEM.size * ITEM.size or size
    return found
