"""Where the records of a chunk of log lie, and where the parts of each, all at once.

A chunk is one buffer that is filled again and again. The starts of its records are found in one of two ways, both
of which follow the chain of sizes to the byte. Large records are walked in a loop, some 150 ns each. For small
ones it is faster to look at every byte: numpy finds the first byte of the magic, the candidates must carry the
physical offset they lie at, and each must begin where its predecessor ends; where one doesn't (a body may hold a
whole record) the loop decides. The heads of all records are then gathered by one indexing of a view that has 88
bytes at every byte position, and every length is checked, as `wire.decode_record` does for one.

Heads of records with IPv6 hosts are brought into the form of the others after gathering, so that nothing behind
this knows the difference, except whoever wants the hosts.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hatwisted.pipeline.decode.ragged import PREFIX, Longs, gather, invalid_texts
from hatwisted.wire import layout
from hatwisted.wire.record import CorruptRecord, Record, decode_record

LARGEST_RECORD: Final = 64 << 20
"""Bytes; a record said to be longer is damage rather than something to read into memory. RocketMQ's default limit
is 4 MiB and 64 KiB."""

WALK_FROM: Final = 600
"""Bytes of an average record from which on walking (per record) is cheaper than searching (per byte)."""

HEAD: Final = np.dtype(
    {
        "names": [
            *("size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag"),
            *("born_timestamp", "born_host", "store_timestamp", "store_host", "reconsume_times"),
            *("prepared_transaction_offset", "body_length"),
        ],
        "formats": [
            *(">i4", ">i4", ">i4", ">i4", ">i4", ">i8", ">i8", ">i4"),
            *(">i8", ">u8", ">i8", ">u8", ">i4"),
            *(">i8", ">u4"),
        ],
        "offsets": [
            *(layout.TOTAL_SIZE_AT, layout.MAGIC_AT, layout.BODY_CRC_AT, layout.QUEUE_ID_AT, layout.FLAG_AT),
            *(layout.QUEUE_OFFSET_AT, layout.PHYSICAL_OFFSET_AT, layout.SYS_FLAG_AT),
            *(layout.BORN_TIMESTAMP_AT, layout.BORN_HOST_AT, layout.STORE_TIMESTAMP_AT, layout.STORE_HOST_AT),
            *(layout.RECONSUME_TIMES_AT, layout.PREPARED_OFFSET_AT, layout.BODY_LENGTH_AT),
        ],
        "itemsize": layout.BODY_AT,
    }
)
"""A record's head with IPv4 hosts, each host as one number: address, then port. The body length is read unsigned:
a negative one then points far behind the buffer instead of before it."""

_V6: Final = layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6
_SIZE: Final = struct.Struct(">i").unpack_from
_HEAD: Final = struct.Struct(">ii").unpack_from


class Stop(enum.Enum):
    """Why the chain of records ends where it ends."""

    LIMIT = "as far as was asked for"
    NEED_DATA = "the record goes on behind the buffer"
    BLANK = "the rest of the file is filler"
    END = "nothing is written here"
    CORRUPT = "no record"


class ChainEnd(NamedTuple):
    """Where the chain ends: physical offset, behind the last record; size: bytes of the blank, or of the record
    that goes on (0 if not even its head is there); reason: what is wrong, for CORRUPT."""

    offset: int
    stop: Stop
    size: int = 0
    reason: str = ""


class Chunk:
    """A piece of log in memory: `octets` (uint8) of which [PREFIX, stop) is log, the first byte at physical
    offset `begin`. The PREFIX bytes in front belong to `ragged`."""

    def __init__(self, octets: npt.NDArray[np.uint8], begin: int, stop: int) -> None:
        self.octets = octets
        self.begin = begin
        self.stop = stop
        self.shift = begin - PREFIX

    def view(self, width: int, kind: str) -> npt.NDArray[Any]:
        """A value of `width` bytes at every byte position, without a copy."""
        return np.ndarray((max(self.stop - width + 1, 0),), kind, self.octets, 0, (1,))


@dataclass(slots=True)
class Records:
    """Whole valid records of a chunk, n rows in log order; positions are indices into `chunk.octets`.

    heads: HEAD[n]. starts, ends: of the record. topics: binary[n], valid UTF-8. The properties reach from
    `properties_at` to the record's end.
    """

    chunk: Chunk
    starts: Longs
    ends: Longs
    heads: npt.NDArray[Any]
    body_at: Longs
    body_ends: Longs
    properties_at: Longs
    topics: pa.Array

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: npt.NDArray[Any]) -> Records:
        """Only these rows (indices, ascending)."""
        return replace(
            self,
            topics=self.topics.take(pa.array(rows)),
            **{name: getattr(self, name)[rows] for name in _ROWS},
        )

    def slice(self, start: int, stop: int) -> Records:
        """Rows [start, stop), without a copy."""
        return replace(
            self,
            topics=self.topics[start:stop],
            **{name: getattr(self, name)[start:stop] for name in _ROWS},
        )


_ROWS: Final = tuple(field.name for field in fields(Records) if field.name not in ("chunk", "topics"))


def frame(chunk: Chunk, limit: int, mean_size: float, *, placed: bool = True) -> tuple[Records, ChainEnd]:
    """The records of the chain that begins where the chunk begins, as long as they start below `limit` (a
    physical offset) and lie wholly in the chunk; and where and why the chain ends.

    mean_size: bytes of records hereabouts. placed: do records carry the offset they lie at? Not in what a broker
    answers to a pull.
    """
    last = max(PREFIX, min(limit - chunk.shift, chunk.stop - layout.BODY_AT + 1))
    starts = _walk(chunk, last) if mean_size >= WALK_FROM or not placed else _search(chunk, last)
    records, valid = _locate(chunk, starts, placed)
    if not valid.all():
        records = records.slice(0, int(np.argmin(valid)))
    if (bad := invalid_texts(records.topics)) is not None:
        records = records.slice(0, bad)
    at = int(records.ends[-1]) if len(records) else PREFIX
    return records, _look(chunk, at, limit, placed)


def _walk(chunk: Chunk, last: int) -> Longs:
    """Starts of the records that follow one another, by their sizes alone."""
    found: list[int] = []
    add, size_at, view = found.append, _SIZE, chunk.octets.data
    at = PREFIX
    while at < last:
        (size,) = size_at(view, at)
        if size < layout.FIXED_SIZE:
            break
        add(at)
        at += size
    return np.array(found, np.int64)


def _search(chunk: Chunk, last: int) -> Longs:
    """The same starts, found by looking for the magic."""
    magic_at = layout.MAGIC_AT
    first_bytes = chunk.octets[PREFIX + magic_at : last + magic_at]
    starts: Longs = np.flatnonzero(first_bytes == layout.MAGIC_V1 >> 24) + PREFIX
    starts = starts[chunk.view(8, ">i8")[starts + layout.PHYSICAL_OFFSET_AT] == starts + chunk.shift]
    if not len(starts):
        return starts
    sizes = chunk.view(4, ">i4")[starts]
    if starts[0] != PREFIX or not np.array_equal(starts[:-1] + sizes[:-1], starts[1:]):
        return _walk(chunk, last)
    return starts


def _locate(chunk: Chunk, starts: Longs, placed: bool) -> tuple[Records, npt.NDArray[np.bool_]]:
    """The parts of records that begin at `starts`, and which are whole and have all their lengths right.

    Positions beyond the chunk are clipped for reading; the unclipped ones don't add up then.
    """
    heads = chunk.view(layout.BODY_AT, f"V{layout.BODY_AT}")[starts].view(HEAD)
    ends: Longs = starts + heads["size"]
    body_at: Longs = starts + layout.BODY_AT
    if (heads["sys_flag"] & _V6).any():
        _level_ipv6(chunk, starts, heads, body_at)
    body_ends: Longs = body_at + heads["body_length"]
    topic_at: Longs = body_ends + 1
    topic_lengths = chunk.octets[np.minimum(body_ends, chunk.stop - 1)].astype(np.int64)
    valid = topic_lengths < 0x80
    if not (heads["magic"] == layout.MAGIC_V1_SIGNED).all():
        _long_topics(chunk, heads, body_ends, topic_at, topic_lengths, valid)
    topic_ends = topic_at + topic_lengths
    shorts, clipped = chunk.view(2, ">i2"), chunk.stop - 2
    properties_lengths = shorts[np.minimum(topic_ends, clipped)].astype(np.int64)
    properties_at: Longs = topic_ends + 2
    valid &= (properties_at + properties_lengths == ends) & (properties_lengths >= 0) & (ends <= chunk.stop)
    # Properties that end in a zero byte are those of a torn record.
    valid &= (chunk.octets[np.clip(ends, 1, chunk.stop) - 1] != 0) | (properties_lengths == 0)
    if placed:
        valid &= heads["physical_offset"] == starts + chunk.shift
    whole = len(starts) if valid.all() else int(np.argmin(valid))
    topics = gather(chunk.octets, topic_at[:whole], topic_ends[:whole])
    records = Records(chunk, starts, ends, heads, body_at, body_ends, properties_at, topics)
    return records.slice(0, whole), valid[:whole]


def _level_ipv6(chunk: Chunk, starts: Longs, heads: npt.NDArray[Any], body_at: Longs) -> None:
    """Put what follows long host fields where it would be behind short ones."""
    rows = np.flatnonzero(heads["sys_flag"] & _V6)
    flags = heads["sys_flag"][rows].astype(np.int64)
    born = (flags >> 4 & 1) * layout.IPV6_EXTRA
    both = born + (flags >> 5 & 1) * layout.IPV6_EXTRA
    at = starts[rows]
    for name, field_at, moved in (
        ("store_timestamp", layout.STORE_TIMESTAMP_AT, born),
        ("reconsume_times", layout.RECONSUME_TIMES_AT, both),
        ("prepared_transaction_offset", layout.PREPARED_OFFSET_AT, both),
        ("body_length", layout.BODY_LENGTH_AT, both),
    ):
        kind = HEAD[name]
        values = chunk.view(kind.itemsize, kind.str)
        heads[name][rows] = values[np.minimum(at + field_at + moved, chunk.stop - kind.itemsize)]
    body_at[rows] += both


def _long_topics(
    chunk: Chunk,
    heads: npt.NDArray[Any],
    body_ends: Longs,
    topic_at: Longs,
    topic_lengths: Longs,
    valid: npt.NDArray[np.bool_],
) -> None:
    """Version 2 has two bytes for the topic's length; what is neither version is no record."""
    rows = np.flatnonzero(heads["magic"] == layout.MAGIC_V2_SIGNED)
    lengths = chunk.view(2, ">u2")[np.minimum(body_ends[rows], chunk.stop - 2)]
    topic_lengths[rows] = lengths
    topic_at[rows] += 1
    valid[rows] = lengths < 0x8000
    valid &= (heads["magic"] == layout.MAGIC_V1_SIGNED) | (heads["magic"] == layout.MAGIC_V2_SIGNED)


def _look(chunk: Chunk, at: int, limit: int, placed: bool) -> ChainEnd:
    """What is at a position where the records of the chunk end."""
    offset = at + chunk.shift
    if offset >= limit:
        return ChainEnd(offset, Stop.LIMIT)
    if chunk.stop - at < layout.BLANK_HEAD_SIZE:
        return ChainEnd(offset, Stop.NEED_DATA)
    view = chunk.octets.data[: chunk.stop]
    size, magic = _HEAD(view, at)
    if magic == layout.MAGIC_BLANK_SIGNED and size >= layout.BLANK_MIN_SIZE:
        return ChainEnd(offset, Stop.BLANK, size)
    if size == 0 and magic == 0:
        return ChainEnd(offset, Stop.END)
    try:
        found = decode_record(
            view, at, check_crc=False, at=offset if placed else None, max_size=LARGEST_RECORD
        )
    except CorruptRecord as error:
        return ChainEnd(offset, Stop.CORRUPT, 0, error.reason)
    if isinstance(found, Record):
        return ChainEnd(offset, Stop.CORRUPT, 0, "its fields contradict one another")
    return ChainEnd(offset, Stop.NEED_DATA, size)
