"""One index file: a hash table of chains over a fixed mapping, filled in log order.

Layout (big-endian): a header of 40 bytes, S slots of 4 bytes, N items of 20 bytes. A slot holds the number of
its newest item, an item the number of the previous one of its slot. Item 0 is never used, so a file holds
N - 1 items; the header counts items + 1. S and N are not stored: they must be those the file was made with.

A batch is linked without a loop: slot and position of each item are packed into one integer, the integers
sorted, and the chain inside the batch is each one's left neighbour of the same slot. The same code links a
whole file again (`relink`), which is how a file that a crash may have left inconsistent is repaired: items
carry everything, slots and links follow from them. RocketMQ deletes such a file instead, and with it the
index of everything that its recovery doesn't dispatch again.

Items are written before slots, slots before the header: what the header doesn't count isn't there.

A file made here has its blocks from the beginning. One that RocketMQ made, or that was copied, may be sparse,
and a full disk under a hole of a mapping kills the process: its blocks are reserved before the first write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hatwisted.kernel import ItemLinker
from hatwisted.store.interfaces import Cells, IFile, IPages, LocalTime

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Item = tuple[int, int, int]
"""(key hash, physical offset of the record, its store timestamp in ms)."""

DEFAULT_SLOTS: Final = 5_000_000
"""RocketMQ's maxHashSlotNum."""

DEFAULT_ITEMS: Final = 20_000_000
"""RocketMQ's maxIndexNum."""

NAME_DIGITS: Final = 17
"""A file's name: local time as yyyyMMddHHmmssSSS."""

HEADER: Final = struct.Struct(">qqqqii")
"""First and last store timestamp, first and last physical offset, slots in use, items + 1."""
ITEM: Final = struct.Struct(">iqii")
"""Key hash, physical offset, seconds since the header's first timestamp, previous item of the slot."""
_SLOT: Final = struct.Struct(">i")
SLOT_TYPE: Final = ">i4"
_ITEM_TYPE: Final = np.dtype([("hash", ">i4"), ("physical", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])

MAX_SECONDS: Final = 0x7FFFFFFF
"""Largest value of an item's seconds; later ones are stored as this."""

RELINK_BATCH: Final = 1 << 17
"""Items linked at once when a file is linked again: bounds the scratch memory to some 10 MB."""

CHAIN_LIMIT: Final = 100_000
"""Items of one chain looked at by a query (about 50 ms): a key that a million records share must not hold up
everything else. Only what is older than these stays unseen."""

CHAIN_STEP: Final = 4000
"""Items looked at before others have a turn: about a millisecond."""


def file_length(slots: int, items: int) -> int:
    """Bytes of an index file."""
    return HEADER.size + slots * _SLOT.size + items * ITEM.size


def file_name_at(seconds: float, local_time: LocalTime, last: str = "") -> str:
    """The name of a new index file.

    - seconds: when it's made, since the epoch
    - local_time: gives this host's wall-clock time for such a time
    - last: name of the file before it, which the new name sorts after in any case
    """
    name = local_time(seconds).strftime("%Y%m%d%H%M%S%f")[:NAME_DIGITS]
    return name if name > last else f"{int(last) + 1:0{NAME_DIGITS}d}"


class IndexFile:
    """One file over its mapping. Not thread-safe, except for `datasync`.

    - file: open
    - path: of the file
    - slots: hash slots
    - items: room for items
    - reserved: all its blocks are known to be there; otherwise what writes raises OSError if it can't get
      them

    `begin_timestamp`, `end_timestamp` (ms), `begin_physical` and `end_physical` are those of the first and
    last item or, in a file without items, of the last item of the file before it; `count` is the number of
    items plus 1.
    """

    def __init__(self, file: IFile, path: str, slots: int, items: int, *, reserved: bool = False) -> None:
        self.path = path
        self._reserved = reserved
        self._file = file
        self._slot_count = slots
        self._item_count = items
        self._items_at = HEADER.size + slots * _SLOT.size
        self._linker = None if ItemLinker is None else ItemLinker(HEADER.size, slots)
        self._pages: IPages | None = None
        self._slots: npt.NDArray[Any] = np.zeros(0, ">i4")
        self._items: npt.NDArray[Any] = np.zeros(0, _ITEM_TYPE)
        header: tuple[int, ...] = HEADER.unpack(file.pread(HEADER.size, 0))
        self.begin_timestamp, self.end_timestamp, self.begin_physical, self.end_physical = header[:4]
        self.slots_used = header[4]
        self.count = min(max(header[5], 1), items)
        self.dirty = False
        self.doubtful = False
        """A sync has failed: the kernel takes its pages for clean, on the disk or not."""

    def __repr__(self) -> str:
        return f"<IndexFile {self.path}: {self.count - 1} items>"

    @property
    def room(self) -> int:
        """Items that still fit."""
        return self._item_count - self.count

    def preset(self, timestamp: int, physical: int) -> None:
        """A new file takes over where the one before it ended."""
        self.begin_timestamp = self.end_timestamp = timestamp
        self.begin_physical = self.end_physical = physical
        self._write_header()

    def _mapped(self) -> IPages:
        if self._pages is None:
            self._pages = self._file.pages()
            view = self._pages.view
            self._slots = np.frombuffer(view, SLOT_TYPE, self._slot_count, HEADER.size)
            self._items = np.frombuffer(view, _ITEM_TYPE, self._item_count, self._items_at)
        return self._pages

    def _writable(self) -> IPages:
        """The file's pages, with a block under every byte of them."""
        if not self._reserved:
            self._file.reserve(file_length(self._slot_count, self._item_count))
            self._reserved = True
        return self._mapped()

    def _write_header(self) -> None:
        times = (self.begin_timestamp, self.end_timestamp, self.begin_physical, self.end_physical)
        self._writable().pack(HEADER, 0, *times, self.slots_used, self.count)
        self.dirty = True

    # -- appending -------------------------------------------------------------------------------------------

    def append(self, hashes: Ints, physical: Longs, timestamps: Longs) -> int:
        """Add items, as many as fit; returns how many did.

        - hashes: int32[n], of the keys
        - physical: int64[n], log offsets
        - timestamps: int64[n], store timestamps (ms)
        """
        count = min(len(hashes), self.room)
        if not count:
            return 0
        pages = self._writable()
        first = self.count
        items, slots, values, new = self._linked(hashes[:count], physical[:count], timestamps[:count])
        pages.write(self._items_at + first * ITEM.size, items)
        pages.write_cells(HEADER.size, slots, values)
        if first == 1:
            self.begin_timestamp, self.begin_physical = int(timestamps[0]), int(physical[0])
        self.slots_used += new
        self.count += count
        self.end_timestamp, self.end_physical = int(timestamps[count - 1]), int(physical[count - 1])
        self._write_header()
        return count

    def _linked(self, hashes: Ints, physical: Longs, timestamps: Longs) -> tuple[bytes, Longs, Cells, int]:
        """Bytes of new items, the slots that change, what they become, and how many of them were unused."""
        first = self.count
        if self._linker is not None and first > 1:
            view, begin = self._mapped().view, self.begin_timestamp
            linked = self._linker.link(view, first, begin, hashes, physical, timestamps)
            items, slots, values, new = linked
            return items, np.frombuffer(slots, np.int64), np.frombuffer(values, SLOT_TYPE), new
        rows = np.empty(len(hashes), _ITEM_TYPE)
        rows["hash"] = hashes
        rows["physical"] = physical
        rows["seconds"] = self._seconds(timestamps)
        touched, order, rows["previous"], new = self._link(self._slots, hashes, first)
        return rows.tobytes(), touched, (first + order).astype(SLOT_TYPE), new

    def _seconds(self, timestamps: Longs) -> Longs:
        """Seconds of each item; item 1's is measured from where the file before ended."""
        begin = self.begin_timestamp if self.count > 1 else int(timestamps[0])
        seconds = np.minimum(np.maximum((timestamps - begin) // 1000, 0), MAX_SECONDS)
        if begin <= 0:
            seconds[:] = 0
        if self.count == 1:
            seconds[0] = self._seconds_of(int(timestamps[0]))
        return seconds

    def _seconds_of(self, timestamp: int) -> int:
        if self.begin_timestamp <= 0:
            return 0
        return min(max((timestamp - self.begin_timestamp) // 1000, 0), MAX_SECONDS)

    def _link(self, heads: npt.NDArray[Any], hashes: Ints, first: int) -> tuple[Longs, Longs, Ints, int]:
        """Link items `first`, `first` + 1, ... into the chains of `heads`.

        Returns the slots touched, the batch position of the newest item of each, every item's previous one,
        and how many of the slots were unused. A head that isn't below `first` is a leftover, hence unused.
        """
        packed = (hashes.astype(np.int64) % self._slot_count << 32) | np.arange(len(hashes))
        packed.sort()
        slots, order = packed >> 32, packed & 0xFFFFFFFF
        starts = np.ones(len(slots), np.bool_)
        np.not_equal(slots[1:], slots[:-1], out=starts[1:])
        ends = np.ones(len(slots), np.bool_)
        ends[:-1] = starts[1:]
        touched = slots[starts]
        before = heads[touched].astype(np.int64)
        before[(before < 0) | (before >= first)] = 0
        linked = np.empty(len(slots), np.int64)
        linked[1:] = order[:-1] + first
        linked[starts] = before
        previous = np.empty(len(slots), np.int32)
        previous[order] = linked
        return touched, order[ends], previous, int(np.count_nonzero(before == 0))

    def append_few(self, items: Sequence[Item]) -> int:
        """As `append`, item by item: cheaper for a handful."""
        taken = items[: self.room]
        if not taken:
            return 0
        pages, slot_count, items_at, number = self._writable(), self._slot_count, self._items_at, self.count
        view, pack = pages.view, pages.pack
        for key_hash, physical, timestamp in taken:
            slot_at = HEADER.size + key_hash % slot_count * _SLOT.size
            (previous,) = _SLOT.unpack_from(view, slot_at)
            if not 0 < previous < number:
                previous = 0
                self.slots_used += 1
            seconds = self._seconds_of(timestamp)
            pack(ITEM, items_at + number * ITEM.size, key_hash, physical, seconds, previous)
            pack(_SLOT, slot_at, number)
            if number == 1:
                self.begin_timestamp, self.begin_physical = timestamp, physical
            number += 1
        self.count = number
        _, self.end_physical, self.end_timestamp = taken[-1]
        self._write_header()
        return len(taken)

    # -- reading ---------------------------------------------------------------------------------------------

    def query(self, key_hash: int, begin: int, end: int) -> Iterator[int | None]:
        """Physical offsets of the records found, newest first. Other keys may share the hash: compare the
        record's. None after each CHAIN_STEP items, where the caller may pause; it ends if the file is closed then.

        - key_hash: of the key
        - begin: stored not before this time (ms, as precise as the stored seconds)
        - end: stored not after this time
        """
        if self.count == 1 or begin > self.end_timestamp or end < self.begin_timestamp:
            return
        view = self._mapped().view
        (number,) = _SLOT.unpack_from(view, HEADER.size + key_hash % self._slot_count * _SLOT.size)
        above = self.count
        for looked_at in range(1, CHAIN_LIMIT + 1):
            if not 0 < number < above:
                return
            if looked_at % CHAIN_STEP == 0:
                yield None
                if self._pages is None:
                    return
            found, physical, seconds, previous = ITEM.unpack_from(view, self._items_at + number * ITEM.size)
            stored = self.begin_timestamp + seconds * 1000
            if found == key_hash and stored <= end and stored + 1000 > begin:
                yield physical
            # Links lead to older items only; anything else is damage and ends the chain.
            above, number = number, previous

    def trailing(self, physical: int) -> int:
        """How many of the last items are of the record at `physical`."""
        number, view = self.count, self._mapped().view
        while number > 1:
            at = self._items_at + (number - 1) * ITEM.size
            if ITEM.unpack_from(view, at)[1] != physical:
                break
            number -= 1
        return self.count - number

    # -- repair ----------------------------------------------------------------------------------------------

    def sound_count(self) -> int:
        """Items + 1 up to the first that can't be where it is: all zeros (its page never reached the disk) or
        of a record before its predecessor's."""
        self._mapped()
        items = self._items[1 : self.count]
        physical = items["physical"]
        bad = np.zeros(len(items), np.bool_)
        np.less(physical[1:], physical[:-1], out=bad[1:])
        bad |= (physical == 0) & (items["hash"] == 0)
        return 1 + (int(np.argmax(bad)) if bad.any() else len(items))

    def count_below(self, physical_end: int) -> int:
        """Items + 1 of records below `physical_end`, up to the first that isn't."""
        if self.end_physical < physical_end:
            return self.count
        self._mapped()
        beyond = self._items["physical"][1 : self.count] >= physical_end
        return 1 + (int(np.argmax(beyond)) if beyond.any() else len(beyond))

    def relink(self, count: int) -> bool:
        """Keep items 1 to `count` - 1 and build slots, links and header from them again. Returns whether
        anything was different."""
        self._mapped()
        heads = np.zeros(self._slot_count, SLOT_TYPE)
        changed, used = count != self.count, 0
        for first in range(1, count, RELINK_BATCH):
            items = self._items[first : min(first + RELINK_BATCH, count)]
            slots, order, previous, new = self._link(heads, items["hash"].astype(np.int32), first)
            heads[slots] = first + order
            used += new
            if not np.array_equal(items["previous"], previous):
                linked = items.copy()
                linked["previous"] = previous
                self._writable().write(self._items_at + first * ITEM.size, linked.tobytes())
                changed = True
        if not np.array_equal(self._slots, heads):
            self._writable().write(HEADER.size, heads.tobytes())
            changed = True
        if changed or used != self.slots_used:
            stale = bytes(max(0, self.count - count) * ITEM.size)
            self._writable().write(self._items_at + count * ITEM.size, stale)
            self.slots_used, self.count = used, count
            self._recount_end()
            self._write_header()
            changed = True
        return changed

    def write_again(self) -> None:
        """Make all that it has part of the next sync, on the disk or not."""
        pages = self._writable()
        pages.write(HEADER.size, self._slots.tobytes())
        for first in range(1, self.count, RELINK_BATCH):
            items = self._items[first : min(first + RELINK_BATCH, self.count)]
            pages.write(self._items_at + first * ITEM.size, items.tobytes())
        self._write_header()

    def _recount_end(self) -> None:
        """Set the end of the last item kept; its time is known to the second only."""
        if self.count > 1:
            last = self._items[self.count - 1]
            self.end_physical = int(last["physical"])
            self.end_timestamp = min(
                self.end_timestamp, self.begin_timestamp + int(last["seconds"]) * 1000 + 999
            )

    # -- lifecycle -------------------------------------------------------------------------------------------

    def datasync(self) -> None:
        """Make it durable. Blocks, may run in another thread."""
        self.dirty = False
        self._file.datasync()

    def close(self) -> None:
        """Close file and mapping."""
        self._slots, self._items = np.zeros(0, ">i4"), np.zeros(0, _ITEM_TYPE)
        self._pages = None
        self._file.close()
