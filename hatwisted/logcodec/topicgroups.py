"""The distinct topics of many records: distinguished by a hash of their bytes, which is verified.

Most pieces of log hold one topic, or a few that repeat. Each topic's bytes are mixed into its key, eight at a
time; records whose keys share a slot and whose bytes are equal get one number, the others go through another
round.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.octets import Buffer, Longs, at_every_byte
from hatwisted.wire import layout


def group_topics(buf: Buffer, starts: Longs, lengths: Longs) -> tuple[list[bytes], Longs]:
    """The distinct topics and for every record its index among them.

    - buf: a piece of log
    - starts: position of each record's topic
    - lengths: bytes of each
    """
    rows = np.zeros(len(starts), np.int64)
    if not len(starts):
        return [], rows
    longest = int(lengths.max())
    if _all_equal(buf, starts, lengths, longest):
        return [bytes(buf[starts[0] : starts[0] + longest])], rows
    ends = starts + lengths
    if longest > layout.MAX_TOPIC_LENGTH:
        known: dict[bytes, int] = {}
        slices = [bytes(buf[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        rows[:] = [known.setdefault(name, len(known)) for name in slices]
        return list(known), rows
    words = _words(buf, ends, lengths, longest)
    keys = lengths.view(np.uint64)
    for word, mix in zip(words, _MIX, strict=False):
        keys = keys + word * mix
    firsts: list[int] = []
    left: Longs | None = None
    while left is None or len(left):
        # Of the records that share a slot, those that equal its first one get a number; others come again.
        keys = keys * _MIX[0]
        slots = (keys >> _SLOT_SHIFT).view(np.int64)
        table = np.empty(_SLOTS, np.int64)
        numbers = np.arange(len(keys))
        table[slots[::-1]] = numbers[::-1]
        first = table[slots]
        same = lengths == lengths[first]
        for word in words:
            same &= word == word[first]
        heads = (first == numbers).nonzero()[0]
        table[slots[heads]] = np.arange(len(firsts), len(firsts) + len(heads))
        firsts += (heads if left is None else left[heads]).tolist()
        if left is None and same.all():
            rows = table[slots]
            break
        rows[same.nonzero()[0] if left is None else left[same]] = table[slots[same]]
        again = (~same).nonzero()[0]
        left = again if left is None else left[again]
        keys, lengths, words = keys[again], lengths[again], [word[again] for word in words]
    return [bytes(buf[starts[row] : ends[row]]) for row in firsts], rows


_SLOTS: Final = 1 << 14
_SLOT_SHIFT: Final = np.uint64(50)
_MIX: Final = np.multiply.accumulate(np.full(layout.MAX_TOPIC_LENGTH // 8 + 1, 0x9E3779B97F4A7C15, np.uint64))
"""Odd factors, one for each word of a topic."""


def _words(buf: Buffer, ends: Longs, lengths: Longs, longest: int) -> list[npt.NDArray[np.uint64]]:
    """Eight bytes of each topic at a time, from its end on; what is before it is zeroed."""
    every, shortest = at_every_byte(buf, 8, ">u8"), int(lengths.min())
    words = []
    for reach in range(8, longest + 8, 8):
        word: npt.NDArray[np.uint64] = every[
            ends - reach if reach <= layout.BODY_AT else np.maximum(ends - reach, 0)
        ].astype(np.uint64)
        if shortest == longest < reach:
            word <<= np.uint64(8 * (reach - longest))
        elif shortest < reach:
            # A shift by 64 or more leaves nothing.
            word <<= (np.maximum(reach - lengths, 0) << 3).view(np.uint64)
        words.append(word)
    return words


def _all_equal(buf: Buffer, starts: Longs, lengths: Longs, length: int) -> bool:
    """Is there one topic only?"""
    if not (lengths == length).all():
        return False
    first = int(starts[0])
    name = bytes(buf[first : first + length])
    return not length or at_every_byte(buf, length)[starts].tobytes() == name * len(starts)
