"""What a read of a queue gets: entries choose, and the records that they name are cut out of the log.

Two steps, each with a compiled twin that consumers' pulls run through: `choose_entries` decides by the 20-byte
entries alone which records are wanted, and which reads of the log bring them; `own_bytes` takes them out of what
one such read has brought, after it has looked whether each is the record that its entry says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hatwisted.logcodec.queueentry import ENTRY_SIZE, PHYSICAL_LIMIT, PLACE
from hatwisted.logcodec.recordplace import QueueRecords
from hatwisted.wire.layout import PRE_BLANK_SIZE, QUEUE_ENTRY

MAX_GAP: Final = 16 * 1024
"""Bytes of foreign data read along between two chosen records before a second read is cheaper."""

_LOW_32: Final = 0xFFFFFFFF
"""Tags are compared as Java's `(int) long`: delay queues keep a deliver time where others keep a tag's hash."""


class ReadBounds(NamedTuple):
    """What limits a choice.

    - first_byte: physical offset of the log's first byte; what was before it is gone
    - file_size: of the log's files; no read crosses from one into the next
    - cold_below: records before this physical offset have the smaller limits
    - max_count, max_bytes: most messages and bytes; the first is chosen however long it is
    - cold_count, cold_bytes: the smaller limits
    """

    first_byte: int
    file_size: int
    cold_below: int
    max_count: int
    max_bytes: int
    cold_count: int
    cold_bytes: int


ReadRun = tuple[int, int, int, int]
"""A read of the log: physical offset, bytes, number of the first entry whose record it brings, and of the one
after the last."""


class EntryChoice(NamedTuple):
    """Which entries were chosen.

    - runs: how to read them
    - taken: for each entry 1 if it was chosen, else 0; empty if all were that were looked at
    - scanned: how many were looked at
    - chosen: how many
    - removing: was one left out because its record is gone?
    - last_position: physical offset of the last one looked at; 0 if there was none
    """

    runs: list[ReadRun]
    taken: bytes
    scanned: int
    chosen: int
    removing: bool
    last_position: int


def choose_entries(entries: bytes, bounds: ReadBounds, codes: frozenset[int] | None) -> EntryChoice:
    """Choose among a queue's entries.

    - entries: back to back; a last one that isn't whole is left out
    - bounds: see there
    - codes: of the wanted tags, as int32; None: all
    """
    runs = list[ReadRun]()
    taken, skipped, removing = bytearray(), False, False
    count = total = scanned = position = first = start = end = file_end = 0
    wanted = None if codes is None else {code & _LOW_32 for code in codes}
    whole = len(entries) - len(entries) % ENTRY_SIZE
    for number, (at, claim, code) in enumerate(QUEUE_ENTRY.iter_unpack(entries[:whole])):
        size = max(claim, 0)  # one of less than nothing is wrong, and takes no bytes from the others
        if count:
            cold = at < bounds.cold_below
            if count >= (bounds.cold_count if cold else bounds.max_count):
                break
            if total + size > (bounds.cold_bytes if cold else bounds.max_bytes):
                break
        scanned, position = number + 1, at
        gone = at < bounds.first_byte or size == PRE_BLANK_SIZE
        removing = removing or gone
        if gone or (wanted is not None and code & _LOW_32 not in wanted):
            taken.append(0)
            skipped = True
            continue
        taken.append(1)
        if count and (at >= file_end or not 0 <= at - end <= MAX_GAP):
            runs.append((start, end - start, first, number))
            start, first = at, number
        elif not count:
            start, first = at, number
        if start == at:
            # An entry whose record can't be anywhere is read by itself.
            file_end = at - at % bounds.file_size + bounds.file_size if at < PHYSICAL_LIMIT else 0
        end = at + size
        count, total = count + 1, total + size
    if count:
        runs.append((start, end - start, first, scanned))
    return EntryChoice(runs, bytes(taken) if skipped else b"", scanned, count, removing, position)


def own_bytes(
    data: bytes, run: ReadRun, entries: bytes, taken: bytes, index: int, queue: QueueRecords
) -> bytes | int:
    """The chosen records of one read of the log, back to back; or the number of the first entry whose record isn't
    there, or isn't the queue's at that offset.

    - data: what the read has brought, less than was asked for where entries are wrong
    - run: what was asked for
    - entries, taken: those that the choice was made of, and which were chosen
    - index: queue offset of the first of the entries
    - queue: whose records they are to be
    """
    base, _, first, stop = run
    pieces = list[bytes]()
    for number in range(first, stop):
        if taken and not taken[number]:
            continue
        position, size = PLACE.unpack_from(entries, number * ENTRY_SIZE)
        at = position - base
        if at < 0 or size < 0 or size > len(data) - at:
            return number
        if not queue.has(data, at, size, index + number, position):
            return number
        pieces.append(data[at : at + size])
    return b"".join(pieces)


ChooseEntries = Callable[[bytes, ReadBounds, frozenset[int] | None], EntryChoice]
OwnBytes = Callable[[bytes, ReadRun, bytes, bytes, int, QueueRecords], bytes | int]
