"""Bodies as a consumer gets them: decompressed, if the producer compressed them.

Bodies are gathered as stored, without a loop; each compressed one is then replaced by its decompressed form. The
size of a body is limited, and so is that of all bodies of a batch: a few megabytes of zeros compress to a few
kilobytes, and thousands of such bodies fit into one read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal import isal_zlib

from hatwisted.kernel import span_crcs
from hatwisted.logcodec.octets import Longs
from hatwisted.logcodec.scan import Records
from hatwisted.pipeline.decode.ragged import gather, patch
from hatwisted.wire import layout
from hatwisted.wire.inflate import NotInflated, inflate

LARGEST_BODY: Final = 256 << 20
"""Bytes a body may have when decompressed. RocketMQ's default limit is 4 MiB, compressed."""
BATCH_BYTES: Final = 64 << 20
"""Decompressed bytes after which a batch ends."""

SMALL_BODY: Final = 512
"""Bytes of an average body below which passing bodies as bytes objects, made all at once, is cheaper than as
slices of the buffer, which aren't copied."""

_ARROW_CODECS: Final = {layout.SYS_COMPRESSION_LZ4: "lz4", layout.SYS_COMPRESSION_ZSTD: "zstd"}


class Bodies(NamedTuple):
    """Bodies of the first `len(values)` records (binary); bad: by row, why its body can't be decompressed. Such a
    row's value is the body as stored."""

    values: pa.Array
    bad: dict[int, str]


class BadBody(ValueError):
    """A body that isn't compressed as its sysFlag says."""


def stored_bodies(records: Records) -> pa.Array:
    """binary[n]."""
    return gather(records.octets, records.body_at, records.body_ends)


def bodies(records: Records, stored: pa.Array) -> Bodies:
    """The bodies of the records, or of as many of the first as a batch may hold; stored: as they are stored."""
    flags = records.heads["sys_flag"]
    rows = np.flatnonzero(flags & layout.SYS_COMPRESSED)
    if not len(rows):
        return Bodies(stored, {})
    found, bad, stop = _decompress(records, rows, flags[rows].tolist())
    return Bodies(patch(stored[:stop], rows[: len(found)], pa.array(found, pa.binary())), bad)


def _decompress(
    records: Records, rows: npt.NDArray[Any], flags: list[int]
) -> tuple[list[bytes | memoryview], dict[int, str], int]:
    """Bodies of compressed rows, what is wrong with some, and the row before which the batch ends."""
    view = memoryview(records.buf)
    starts, ends = records.body_at[rows].tolist(), records.body_ends[rows].tolist()
    found: list[bytes | memoryview] = []
    bad: dict[int, str] = {}
    total = 0
    for row, flag, start, end in zip(rows.tolist(), flags, starts, ends, strict=True):
        if total >= BATCH_BYTES:
            return found, bad, row
        try:
            found.append(decompress(view[start:end], flag))
        except BadBody as error:
            bad[row] = str(error)
            found.append(bytes(view[start:end]))
        total += len(found[-1])
    return found, bad, len(records)


def decompress(stored: memoryview, sys_flag: int, limit: int = LARGEST_BODY) -> bytes:
    """One body. Raises BadBody if it isn't what its sysFlag says.

    - stored: its bytes in the log
    - sys_flag: the record's, which names the compression
    - limit: bytes at most, decompressed
    """
    kind = sys_flag & layout.SYS_COMPRESSION_MASK
    if not len(stored):
        raise BadBody("the body is empty, which a compressed one never is")
    if kind in _ARROW_CODECS:
        found = _with_arrow(stored, _ARROW_CODECS[kind], limit)
    elif kind in (0, layout.SYS_COMPRESSION_ZLIB):
        try:
            return inflate(stored, limit)
        except NotInflated as error:
            raise BadBody(f"the body is {error}") from None
    else:
        raise BadBody(f"sysFlag {sys_flag:#x} names an unknown compression")
    if len(found) > limit:
        raise BadBody(f"the body has more than {limit} bytes when decompressed")
    return found


def _with_arrow(stored: memoryview, codec: str, limit: int) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(stored)), codec) as stream:
            found: bytes = stream.read(limit + 1)
    except OSError as error:
        raise BadBody(f"the body isn't {codec}: {error}") from None
    return found


def crcs_right(records: Records, stored: Callable[[], pa.Array]) -> pa.Array:
    """bool[n]: is the checksum that of the body as stored? An empty body has none. stored: makes the bodies."""
    lengths = records.body_ends - records.body_at
    if span_crcs is not None:
        sums = np.empty(len(records), np.uint32)
        span_crcs(records.octets, records.body_at, records.body_ends, sums)
        return _equal(records, sums, lengths)
    if len(records) and lengths.sum() // len(records) < SMALL_BODY:
        found: Iterable[int] = map(isal_zlib.crc32, stored().to_numpy(zero_copy_only=False).tolist())
    else:
        view = memoryview(records.buf)
        spans = zip(records.body_at.tolist(), records.body_ends.tolist(), strict=True)
        found = (isal_zlib.crc32(view[start:end]) for start, end in spans)
    return _equal(records, np.fromiter(found, np.uint32, len(records)), lengths)


def _equal(records: Records, sums: npt.NDArray[np.uint32], lengths: Longs) -> pa.Array:
    computed = sums & layout.CRC_MASK
    return pa.array((computed == records.heads["body_crc"].view(">u4")) | (lengths == 0))
