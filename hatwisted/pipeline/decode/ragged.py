"""Substrings of a buffer as Arrow arrays, without a loop.

The edges of all substrings, start and end by turns, are the offsets of one Arrow array over the whole buffer whose
every second element is a substring wanted; `take` then copies these together. It is the fastest way to a compact
array that numpy and pyarrow offer: some 10 ns a substring plus the copying.

Substrings must be in the buffer's order and not overlap, as the parts of records never do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hatwisted.kernel import copy_spans
from hatwisted.logcodec.plaincolumns import CopySpans
from hatwisted.pipeline.decode.filebytes import PREFIX

Longs = npt.NDArray[np.int64]


def gather(octets: Any, starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> pa.Array:
    """Substrings as binary[n], in a buffer of their own.

    - octets: the bytes
    - starts: where each begins
    - ends: where each ends
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    if copy_spans is not None:
        return _copied(copy_spans, octets, starts, ends)
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2] = starts
    edges[1::2] = ends
    edges[-1] = edges[-2]
    return _spread(octets, edges).take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def _copied(copy: CopySpans, octets: Any, starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> pa.Array:
    """The same by the compiled twin."""
    starts, ends = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)
    size, edges = int((ends - starts).sum()), np.empty(len(starts) + 1, np.int32)
    # Arrow's own memory is used again, where numpy's comes fresh from the system, a page at a time.
    data = pa.allocate_buffer(size)
    copy(octets, starts, ends, edges, np.frombuffer(data, np.uint8) if size else np.empty(0, np.uint8))
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(edges), data])


def join_separated(octets: Any, starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> pa.Array:
    """The substrings with a separator before each and after the last, then padding, as binary[2n + 2] whose
    buffer holds them all in a row. Substring i is element 2i + 1.

    - octets: the bytes, beginning with the prefix of `new_buffer`
    - starts: where each begins
    - ends: where each ends
    """
    count = len(starts)
    edges = np.empty(2 * count + 4, np.int32)
    edges[0], edges[1], edges[2] = 0, PREFIX - 1, PREFIX
    edges[3:-1:2] = starts
    edges[4::2] = ends
    edges[-1] = edges[-2] if count else PREFIX
    rows = np.ones(2 * count + 2, np.int32)
    rows[1:-1:2] = np.arange(3, 2 * count + 3, 2, dtype=np.int32)
    rows[-1] = 0
    return _spread(octets, edges).take(pa.array(rows))


def _spread(octets: Any, edges: npt.NDArray[np.int32]) -> pa.Array:
    """Everything between neighbouring edges, as one array over the buffer itself."""
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(octets)]
    return pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)


def contents(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of all elements of a binary array in a row, without a copy."""
    if not len(array):
        return np.zeros(0, np.uint8)
    edges = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    return np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[edges[0] : edges[-1]]


def is_ascii(array: pa.Array) -> bool:
    """Is there no byte above 127 in a binary array?"""
    octets = contents(array)
    return not len(octets) or int(octets.max()) < 0x80


def texts(array: pa.Array, *, ascii_only: bool | None = None) -> pa.Array:
    """Binary as string; broken UTF-8 becomes U+FFFD as it does in Java. ascii_only: known to be so."""
    if is_ascii(array) if ascii_only is None else ascii_only:
        return array.view(pa.string())
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        mended = [None if raw is None else raw.decode("utf-8", "replace") for raw in array.to_pylist()]
        return pa.array(mended, pa.string())


def invalid_texts(array: pa.Array) -> int | None:
    """The first element of a binary array that isn't UTF-8; None if all are."""
    if is_ascii(array):
        return None
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        for row, raw in enumerate(array.to_pylist()):
            try:
                raw.decode()
            except UnicodeDecodeError:
                return row
    return None


def patch(array: pa.Array, rows: npt.NDArray[Any], values: pa.Array) -> pa.Array:
    """The array with other values in some rows.

    - array: the values so far
    - rows: numbers of the rows
    - values: their new values
    """
    order = np.arange(len(array))
    order[rows] = len(array) + np.arange(len(rows))
    return pa.concat_arrays([array, values]).take(pa.array(order))


def constant(text: str, count: int) -> pa.Array:
    """The same text in every row."""
    return pa.repeat(pa.scalar(text, pa.string()), count)
