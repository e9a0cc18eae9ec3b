"""Java's `String.hashCode` of many substrings of one buffer at once.

Tags codes and index slots are made of this hash, so it is computed two or three times for every record. Here
all substrings of a batch are gathered as rows of one byte matrix, each row ending where its substring ends,
bytes in front of a shorter substring zeroed, and the matrix is multiplied with the powers of 31: some 15 ns
a key.

Measured and rejected: prefix sums over the whole buffer with inverse powers of 31 (each byte of the buffer
costs as much as each byte of a key, and only a third of it are keys); Horner's rule column by column (two
numpy calls per column, dear for batches of a few hundred); the dot product as `@` (twice the time of einsum
for integers); eight bytes at a time inside 64-bit words (more passes than it saves).

Substrings that aren't ASCII are hashed one by one by `wire.javahash`, over their UTF-16 units as Java does.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hatwisted.wire.javahash import java_hash
from hatwisted.wire.layout import MAX_PROPERTIES_LENGTH

Positions = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]

WIDTHS: Final = (8, 32, 64, 256)
"""Matrix widths (bytes); a substring goes into the narrowest that holds it, so that one long key doesn't
widen the rows of a thousand short ones. Longer ones (rare) are hashed one by one."""

ONE_MATRIX: Final = 1 << 15
"""Bytes up to which one matrix as wide as the longest substring needs is cheaper than several calls."""


def _powers(count: int) -> Hashes:
    """31**k mod 2**32 for k = 0 .. count - 1."""
    table = np.full(count, 31, np.uint32)
    table[0] = 1
    return np.multiply.accumulate(table, dtype=np.uint32)


POWERS: Final = _powers(MAX_PROPERTIES_LENGTH + 1)
"""31**k by k: what a prefix's hash is multiplied with when k UTF-16 units follow it."""
_FIRST_POWERS: Final = POWERS[:512].tolist()
"""The same as plain numbers, for keys taken one by one."""
_WEIGHTS: Final = {width: POWERS[:width][::-1].copy() for width in WIDTHS}
_COLUMNS: Final = {width: np.arange(width, 0, -1) for width in WIDTHS}
"""How long a substring must be to have a byte in each column."""


def hash_spans(data: bytes, starts: Positions, ends: Positions) -> tuple[Hashes, Positions]:
    """Hash of each data[start:end] (UTF-8) and its length in UTF-16 units.

    starts, ends: int64[n], 0 <= start <= end <= len(data). Returns uint32[n] (Java's int, unsigned)
    and int64[n].
    """
    units = ends - starts
    if not len(units):
        return np.zeros(0, np.uint32), units
    longest = int(units.max())
    widest = next((width for width in WIDTHS if width >= longest), 0)
    if widest * len(units) <= ONE_MATRIX and widest:
        hashes = _hash_rows(data, ends, units, widest)
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
        rows = np.flatnonzero((units > narrower) & (units <= width))
        if len(rows):
            hashes[rows] = _hash_rows(data, ends[rows], units[rows], width)
        narrower = width
    for row in np.flatnonzero(units > narrower).tolist():
        hashes[row] = _hash_text(data[starts[row] : ends[row]])[0]
    return hashes


def _hash_rows(data: bytes, ends: Positions, units: Positions, width: int) -> Hashes:
    """Byte-wise hashes of substrings of at most `width` bytes."""
    if int(ends.min()) < width:
        data, ends = bytes(width) + data, ends + width
    # A view of `width` bytes at every byte position: indexing it copies rows with one memcpy each.
    windows: npt.NDArray[Any] = np.ndarray((len(data) - width + 1,), f"V{width}", data, 0, (1,))
    rows = windows[ends - width].view(np.uint8).reshape(-1, width)
    if int(units.min()) < width:
        rows *= _COLUMNS[width] <= units[:, None]
    hashes: Hashes = np.einsum("ij,j->i", rows, _WEIGHTS[width], dtype=np.uint32, casting="unsafe")
    return hashes


def _hash_text(raw: bytes) -> tuple[int, int]:
    """Hash and UTF-16 units of one UTF-8 string; broken UTF-8 becomes U+FFFD as it does in Java."""
    text = raw.decode("utf-8", "replace")
    units = len(text) + sum(character > "\uffff" for character in text)
    return java_hash(text) & 0xFFFFFFFF, units


def _patch_non_ascii(
    data: bytes, starts: Positions, ends: Positions, hashes: Hashes, units: Positions
) -> None:
    """Hash anew what was hashed by bytes but isn't ASCII."""
    # Count of bytes >= 0x80 in front of each position: its growth over a substring tells whether it has any.
    high = np.zeros(len(data) + 1, np.int64)
    np.cumsum(np.frombuffer(data, np.uint8) >> 7, out=high[1:])
    for row in np.flatnonzero(high[ends] != high[starts]).tolist():
        hashes[row], units[row] = _hash_text(data[starts[row] : ends[row]])


def index_hashes(prefixes: Hashes, hashes: Hashes, units: Positions) -> npt.NDArray[np.int32]:
    """Key hashes as an index file stores them: |hash(topic + "#" + key)|, 0 for -2**31.

    prefixes: hash of each key's `topic#`; hashes, units: the keys' own, from `hash_spans`.
    """
    whole = (prefixes * POWERS[units] + hashes).view(np.int32)
    return np.maximum(np.abs(whole), np.int32(0))


def index_hash(prefix: int, key: str) -> int:
    """The same for one key: `prefix` is java_hash(topic + "#")."""
    units = len(key) if key.isascii() else len(key.encode("utf-16-be", "surrogatepass")) // 2
    power = _FIRST_POWERS[units] if units < len(_FIRST_POWERS) else pow(31, units, 1 << 32)
    whole = (prefix * power + java_hash(key)) & 0xFFFFFFFF
    if whole >> 31:
        whole = (1 << 32) - whole
    return whole & 0x7FFFFFFF
