"""Java's `String.hashCode` of many substrings of one buffer at once.

Tags codes and index slots are computed from this hash, so it is computed two or three times for every record. Here
all substrings of a batch are gathered as rows of one byte matrix, each row ending where its substring ends,
bytes before a shorter substring zeroed, and the matrix is multiplied with the powers of 31: some 15 ns
a key.

Measured and rejected: prefix sums over the whole buffer with inverse powers of 31 (each byte of the buffer
costs as much as each byte of a key, and only a third of it are keys); Horner's rule column by column (two
numpy calls per column, expensive for batches of a few hundred); the dot product as `@` (twice the time of einsum
for integers); eight bytes at a time inside 64-bit words (more passes than it saves).

Substrings that aren't ASCII are hashed one by one by `wire.javahash`, over their UTF-16 units as Java does.
"""

from __future__ import annotations

from operator import mul
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hatwisted.wire.javahash import java_hash
from hatwisted.wire.layout import MAX_PROPERTIES_LENGTH

Positions = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]

WIDTHS: Final = (8, 32, 64, 256)
"""Matrix widths (bytes) for substrings of very different lengths: each goes into the narrowest that holds it,
so that one long key doesn't widen the rows of a thousand short ones. Longer ones (rare) are hashed one by
one."""

ONE_MATRIX: Final = 1 << 15
"""Bytes up to which one matrix as wide as the longest substring is cheaper than several calls."""


def _powers(count: int) -> Hashes:
    """31**k mod 2**32 for k = 0 .. count - 1."""
    table = np.full(count, 31, np.uint32)
    table[0] = 1
    return np.multiply.accumulate(table, dtype=np.uint32)


POWERS: Final = _powers(MAX_PROPERTIES_LENGTH + 1)
"""31**k by k: what a prefix's hash is multiplied with when k UTF-16 units follow it."""
_WEIGHTS: Final = POWERS[: WIDTHS[-1]][::-1].copy()
"""The last w of these are the weights of the columns of a matrix of width w."""
_REACH: Final = np.arange(WIDTHS[-1], 0, -1, dtype=np.uint16)
"""How long a substring must be to have a byte in each column; the last w for a width of w."""
_DOT: Final = [tuple(POWERS[:units][::-1].tolist()) for units in range(WIDTHS[-2] + 1)]
"""By length, the weights of a key taken by itself."""


def hash_spans(data: bytes, starts: Positions, ends: Positions) -> tuple[Hashes, Positions]:
    """Hashes of pieces of UTF-8, uint32[n] (Java's int, unsigned), and their lengths in UTF-16 units, int64[n].

    - data: holds the pieces
    - starts, ends: int64[n], 0 <= start <= end <= len(data)
    """
    units = ends - starts
    if not len(units):
        return np.zeros(0, np.uint32), units
    shortest, longest = int(units.min()), int(units.max())
    if longest <= WIDTHS[-1] and (longest == shortest or longest * len(units) <= ONE_MATRIX):
        hashes = _hash_rows(data, ends, units, longest, shortest)
    else:
        hashes = _hash_classes(data, starts, ends, units)
    if not data.isascii():
        _patch_non_ascii(data, starts, ends, hashes, units)
    return hashes, units


def _hash_classes(data: bytes, starts: Positions, ends: Positions, units: Positions) -> Hashes:
    """One matrix per width."""
    hashes = np.zeros(len(units), np.uint32)
    narrower = -1
    for width in WIDTHS:
        rows = ((units > narrower) & (units <= width)).nonzero()[0]
        if len(rows):
            hashes[rows] = _hash_rows(data, ends[rows], units[rows], width, narrower + 1)
        narrower = width
    for row in (units > narrower).nonzero()[0].tolist():
        hashes[row] = _hash_text(data[starts[row] : ends[row]])[0]
    return hashes


def _hash_rows(data: bytes, ends: Positions, units: Positions, width: int, shortest: int) -> Hashes:
    """Byte-wise hashes of substrings of `shortest` to `width` bytes."""
    if width == 0:
        return np.zeros(len(ends), np.uint32)
    if int(ends.min()) < width:
        data, ends = bytes(width) + data, ends + width
    # A view of `width` bytes at every byte position: indexing it copies rows with one memcpy each.
    windows: npt.NDArray[Any] = np.ndarray((len(data) - width + 1,), f"V{width}", data, 0, (1,))
    rows = windows[ends - width].view(np.uint8).reshape(-1, width)
    if shortest < width:
        rows *= _REACH[-width:] <= units.astype(np.uint16)[:, None]
    hashes: Hashes = np.einsum("ij,j->i", rows, _WEIGHTS[-width:], dtype=np.uint32, casting="unsafe")
    return hashes


def _hash_text(raw: bytes) -> tuple[int, int]:
    """Hash and UTF-16 units of one UTF-8 string; broken UTF-8 becomes U+FFFD as it does in Java."""
    text = raw.decode("utf-8", "replace")
    units = len(text) + sum(character > "\uffff" for character in text)
    return java_hash(text) & 0xFFFFFFFF, units


def _patch_non_ascii(
    data: bytes, starts: Positions, ends: Positions, hashes: Hashes, units: Positions
) -> None:
    """Rehash the strings that were hashed bytewise but aren't ASCII."""
    # Count of bytes >= 0x80 before each position: its growth over a substring tells whether it has any.
    high = np.zeros(len(data) + 1, np.int64)
    np.cumsum(np.frombuffer(data, np.uint8) >> 7, out=high[1:])
    for row in (high[ends] != high[starts]).nonzero()[0].tolist():
        hashes[row], units[row] = _hash_text(data[starts[row] : ends[row]])


def index_hashes(prefixes: Hashes, hashes: Hashes, units: Positions) -> npt.NDArray[np.int32]:
    """Key hashes as an index file stores them: |hash(topic + "#" + key)|, 0 for -2**31.

    - prefixes: hash of each key's `topic#`
    - hashes, units: the keys' own, from `hash_spans`
    """
    whole = (prefixes * POWERS[units] + hashes).view(np.int32)
    return np.maximum(np.abs(whole), np.int32(0))


def index_hash(prefix: int, key: bytes) -> int:
    """The same for one key (UTF-8): `prefix` is java_hash(topic + "#")."""
    own: int
    if len(key) < len(_DOT) and key.isascii():
        own, units = sum(map(mul, key, _DOT[len(key)])), len(key)
    else:
        own, units = _hash_text(key)
    whole = (prefix * pow(31, units, 1 << 32) + own) & 0xFFFFFFFF
    if whole >> 31:
        whole = (1 << 32) - whole
    return whole & 0x7FFFFFFF
