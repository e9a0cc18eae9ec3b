"""Index files against the log, and each file against itself.

Items lie in log order, so both sides are streams: for every scan of the log the items of the same stretch of
offsets are taken from the files, and the two sets of (offset, key hash) are compared. A repeated item is no
problem (RocketMQ indexes a record again after a restart). Inside a file every item must link to the one
before it with the same slot; a table of the newest item per slot, 4 bytes each, is all that takes to verify.
"""

from __future__ import annotations

from collections.abc import Iterator
from os.path import join
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hatwisted.cli.log.findings import Findings
from hatwisted.logcodec.dispatchscan import DispatchColumns
from hatwisted.logcodec.octets import Longs
from hatwisted.logcodec.scan import Records
from hatwisted.store.index.indexfile import HEADER, ITEM, file_length
from hatwisted.store.interfaces import IFile, IFileSystem

BLOCK: Final = 1 << 16
"""Items read at once: 1.25 MiB."""
_ITEM: Final = np.dtype([("hash", ">i4"), ("physical", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])


class IndexItems:
    """All items of all files in order, block by block; the files are verified on the way.

    - fs: the disk
    - folder: of the index
    - slots, items: of each file
    - findings: gets what is wrong with them
    """

    def __init__(self, fs: IFileSystem, folder: str, slots: int, items: int, findings: Findings) -> None:
        self._fs = fs
        self._folder = folder
        self._slots = slots
        self._items_at = file_length(slots, 0)
        self._length = file_length(slots, items)
        self._max_count = items
        self._findings = findings
        self.files = 0

    def blocks(self) -> Iterator[npt.NDArray[Any]]:
        """Arrays of items (hash, physical, seconds, previous)."""
        for name in self._fs.listdir(self._folder):
            path = join(self._folder, name)
            if self._fs.size(path) != self._length:
                self._findings.add("index files of another size", f"{path}: expected {self._length} bytes")
                continue
            file = self._fs.open(path, read_only=True)
            try:
                yield from self._file_blocks(file, path)
            finally:
                file.close()

    def _file_blocks(self, file: IFile, path: str) -> Iterator[npt.NDArray[Any]]:
        self.files += 1
        _, _, begin, end, _, count = HEADER.unpack(file.pread(HEADER.size, 0))
        if not 1 <= count <= self._max_count:
            self._findings.add("inconsistent index files", f"{path}: header counts {count}")
            return
        newest = np.zeros(self._slots, np.int32)
        bounds = []
        for first in range(1, count, BLOCK):
            size = min(BLOCK, count - first)
            data = file.pread(size * ITEM.size, self._items_at + first * ITEM.size)
            items = np.frombuffer(data, _ITEM)
            self._check_links(items, first, newest, path)
            bounds += [int(items["physical"][0]), int(items["physical"][-1])]
            yield items
        heads = np.frombuffer(file.pread(4 * self._slots, HEADER.size), ">i4")
        self._note_differences(heads != newest, path, "slots that don't point to their newest item")
        if bounds and (bounds[0], bounds[-1]) != (begin, end):
            self._findings.add(
                "inconsistent index files",
                f"{path}: header says offsets {begin} to {end}, items {bounds[0]} to {bounds[-1]}",
            )

    def _check_links(self, items: npt.NDArray[Any], first: int, newest: npt.NDArray[Any], path: str) -> None:
        """Each item's link must lead to the item before it in the same slot."""
        slots = items["hash"].astype(np.int64) % self._slots
        order = np.argsort(slots, kind="stable")
        ranked = slots[order]
        starts = np.ones(len(ranked), np.bool_)
        np.not_equal(ranked[1:], ranked[:-1], out=starts[1:])
        links = np.empty(len(ranked), np.int64)
        links[1:] = order[:-1] + first
        links[starts] = newest[ranked[starts]]
        wrong = items["previous"][order] != links
        self._note_differences(wrong, path, "items that don't point to the previous one in their slot")
        ends = np.append(starts[1:], True)
        newest[ranked[ends]] = order[ends] + first

    def _note_differences(self, wrong: npt.NDArray[Any], path: str, what: str) -> None:
        if wrong.any():
            count = int(np.count_nonzero(wrong))
            self._findings.add("index files with broken chains", f"{path}: {count} {what}", count)


class IndexComparison:
    """Feed it every scan of the log in order, then call `finish`.

    - items: the index's
    - findings: gets what differs
    - capacity_end: of the log's last file
    """

    def __init__(self, items: IndexItems, findings: Findings, capacity_end: int) -> None:
        self._capacity_end = capacity_end
        self._source = items
        self._blocks = items.blocks()
        self._findings = findings
        self._held: npt.NDArray[Any] = np.empty(0, _ITEM)
        self._indexed_from: int | None = None
        self._unindexed_from: int | None = None
        self._unindexed = 0
        self._exhausted = False
        self.items = 0
        """Items compared."""

    @property
    def files(self) -> int:
        """Files read."""
        return self._source.files

    def take(self, scan: Records, columns: DispatchColumns) -> None:
        """Compare the items of these records."""
        if not len(scan):
            return
        begin = scan.base + int(scan.positions[0])
        end = scan.base + int(scan.positions[-1] + scan.sizes[-1])
        found = self._upto(end)
        if self._indexed_from is None and len(self._held) + len(found):
            self._indexed_from = int((found if len(found) else self._held)["physical"][0])
        physical = scan.physical_offsets[columns.item_rows]
        wanted = _keys(physical, columns.item_hashes, begin)
        stray = found["physical"] < begin
        if stray.any():
            row = int(np.argmax(stray))
            self._findings.add(
                "index items without a record in the log",
                f"log offset {found['physical'][row]}",
                int(np.count_nonzero(stray)),
            )
        there = _keys(found["physical"][~stray].astype(np.int64), found["hash"][~stray], begin)
        self._note_extra(np.setdiff1d(there, wanted), begin)
        self._note_missing(np.setdiff1d(wanted, there), begin)

    def _note_extra(self, extra: Longs, begin: int) -> None:
        if len(extra):
            where = f"log offset {begin + int(extra[0] >> 32)}, key hash {int(extra[0] & 0xFFFFFFFF)}"
            self._findings.add("index items without a record in the log", where, len(extra))

    def _note_missing(self, missing: Longs, begin: int) -> None:
        """Keys that aren't indexed: between indexed ones, or after the last of them."""
        physical = begin + (missing >> 32)
        if self._indexed_from is not None:
            missing = missing[physical >= self._indexed_from]
        if not len(missing):
            return
        where = begin + int(missing[0] >> 32)
        if self._exhausted and not len(self._held):
            self._unindexed += len(missing)
            self._unindexed_from = where if self._unindexed_from is None else self._unindexed_from
        else:
            self._findings.add(
                "keys without an index item",
                f"log offset {where}, key hash {int(missing[0] & 0xFFFFFFFF)}",
                len(missing),
            )

    def _upto(self, end: int) -> npt.NDArray[Any]:
        """The items not taken yet of records below `end`."""
        pieces = []
        while True:
            beyond = self._held["physical"] >= end
            cut = int(np.argmax(beyond)) if beyond.any() else len(self._held)
            pieces.append(self._held[:cut])
            self._held = self._held[cut:]
            if len(self._held):
                break
            block = next(self._blocks, None)
            if block is None:
                self._exhausted = True
                break
            self._held = self._in_order(block)
        found = np.concatenate(pieces)
        self.items += len(found)
        return found

    def _in_order(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The block without items that can't be where they are: offsets rise along the index. Whether one is
        too high or the others too low isn't known; the smaller party is taken to be wrong."""
        physical = block["physical"].astype(np.int64)
        outside = (physical < 0) | (physical >= self._capacity_end)
        inside = block[~outside]
        physical = physical[~outside]
        too_high = physical > np.minimum.accumulate(physical[::-1])[::-1]
        too_low = physical < np.maximum.accumulate(physical)
        wrong = too_high if np.count_nonzero(too_high) < np.count_nonzero(too_low) else too_low
        count = int(np.count_nonzero(outside) + np.count_nonzero(wrong))
        if count:
            example = block[outside][0] if outside.any() else inside[wrong][0]
            self._findings.add("index items out of order", f"log offset {example['physical']}", count)
        return inside[~wrong]

    def finish(self, log_end: int) -> None:
        """Look at what is left of either side."""
        left = self._upto(1 << 62)
        if len(left):
            where = f"log offset {left['physical'][0]}; the log ends at {log_end}"
            self._findings.add("index items without a record in the log", where, len(left))
        if self._unindexed:
            self._findings.add(
                "keys without an index item",
                f"all from log offset {self._unindexed_from} on",
                self._unindexed,
            )


def _keys(physical: Longs, hashes: npt.NDArray[Any], begin: int) -> Longs:
    """Offset (from `begin`) and key hash as one number."""
    packed: Longs = (physical - begin) << 32 | hashes.astype(np.int64)
    return packed
