"""Walking the commit log: where its records are, whether they are whole, and what their fixed fields say.

Everything that reads the log from end to end (dispatch to queues and index, recovery, offline tools) goes
through here, so it is built for speed: a tight loop follows the chain of sizes (about 100 ns a record), then
numpy gathers the fixed fields of all records of the chunk at once, through a view of 88 bytes at every byte
position whose indexing is one memcpy a record. Topics are told apart by comparing whole columns of bytes.
What the properties say is a second step (`dispatchscan`), because recovery needs only this one.

Numpy's calls cost about 1 us each however little they are given, so a handful of records is decoded one by
one instead: see `fewscan`, which must agree with this in every detail, as both must with
`wire.decode_record`.

Rejected: finding records by searching the magic (costs per byte instead of per record, and a body may hold
the magic); numba and C (not everywhere where this has to run).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from isal.isal_zlib import crc32

from hatwisted.wire import layout
from hatwisted.wire.record import CorruptRecord, Record, decode_record

Buffer = bytes | memoryview
Longs = npt.NDArray[np.int64]

MAX_RECORDS: Final = 2048
"""Records of one scan: bounds the time of one step of the dispatch (about 2 ms) and its scratch memory,
however small the records."""

LARGEST_RECORD: Final = 64 << 20
"""Bytes; a record said to be longer is damage rather than something to read into memory. RocketMQ's default
limit is 4 MiB and 64 KiB."""

PEELED_TOPICS: Final = 8
"""Distinct topics of a chunk told apart by comparing columns, each about 12 ns a record; beyond that a
dictionary of slices (about 80 ns a record) is cheaper."""


class Stop(enum.Enum):
    """Why a scan ended where it ended."""

    LIMIT = "as many records as were asked for"
    NEED_DATA = "the record goes on behind the buffer"
    BLANK = "the rest of the file is filler"
    END = "nothing is written here"
    CORRUPT = "no valid record"


class ScanEnd(NamedTuple):
    """Where and why a scan ended.

    position: in the buffer, behind the last valid record; size: bytes of the blank, or of the record that
    goes on behind the buffer (0 if not even its head is there); reason: what is wrong, for CORRUPT.
    """

    position: int
    stop: Stop
    size: int = 0
    reason: str = ""


_HEAD: Final = struct.Struct(">ii").unpack_from
_FIELDS: Final = np.dtype(
    {
        "names": [
            *("size", "magic", "crc", "queue_id", "queue_offset", "physical_offset"),
            *("sys_flag", "store_timestamp", "body_length"),
        ],
        "formats": [">i4", ">i4", ">i4", ">i4", ">i8", ">i8", ">i4", ">i8", ">u4"],
        "offsets": [
            *(layout.TOTAL_SIZE_AT, layout.MAGIC_AT, layout.BODY_CRC_AT, layout.QUEUE_ID_AT),
            *(layout.QUEUE_OFFSET_AT, layout.PHYSICAL_OFFSET_AT, layout.SYS_FLAG_AT),
            *(layout.STORE_TIMESTAMP_AT, layout.BODY_LENGTH_AT),
        ],
        "itemsize": layout.BODY_AT,
    }
)
"""The fields that anything behind this looks at, for IPv4 hosts. The body length is read unsigned: a negative
one then points far behind the buffer instead of before it."""


def walk(buf: Buffer, start: int = 0, limit: int = MAX_RECORDS) -> tuple[list[int], ScanEnd]:
    """Positions of the records that follow one another from `start` on, by magic and size alone."""
    positions: list[int] = []
    add, head = positions.append, _HEAD
    magic_v1, smallest, end = layout.MAGIC_V1_SIGNED, layout.FIXED_SIZE, len(buf)
    at, last = start, end - layout.BLANK_HEAD_SIZE
    stop = None
    for _ in range(limit):
        if at > last:
            stop = ScanEnd(at, Stop.NEED_DATA)
            break
        size, magic = head(buf, at)
        if (magic != magic_v1 and magic != layout.MAGIC_V2_SIGNED) or size < smallest:
            stop = look(buf, at)
            break
        add(at)
        at += size
    if at > end:
        at = positions.pop()
        stop = look(buf, at)
    return positions, stop or ScanEnd(at, Stop.LIMIT)


def look(buf: Buffer, at: int, base: int | None = None, check_crc: bool = False) -> ScanEnd:
    """What is at a position where the chain of valid records ends."""
    offset = None if base is None else base + at
    try:
        found = decode_record(buf, at, check_crc=check_crc, at=offset, max_size=LARGEST_RECORD)
    except CorruptRecord as error:
        return ScanEnd(at, Stop.CORRUPT, 0, error.reason)
    size, magic = _HEAD(buf, at)
    if magic == layout.MAGIC_BLANK_SIGNED:
        return ScanEnd(at, Stop.BLANK, size)
    if magic == 0:
        return ScanEnd(at, Stop.END)
    if isinstance(found, Record):
        return ScanEnd(at, Stop.CORRUPT, 0, "lengths contradict one another")
    return ScanEnd(at, Stop.NEED_DATA, size)


@dataclass(slots=True)
class ScanResult:
    """The whole valid records of a chunk of log, one column per field, n rows in log order.

    buf, base: the chunk and its physical offset. positions, sizes: in the chunk, bytes. topics: the distinct
    ones; topic_rows: index into them. properties_at: start of the property area, which reaches to the
    record's end. Timestamps in ms. end: where and why the scan stopped.
    """

    buf: Buffer
    base: int
    positions: Longs
    sizes: Longs
    queue_ids: Longs
    queue_offsets: Longs
    sys_flags: Longs
    store_timestamps: Longs
    topics: list[str]
    topic_rows: Longs
    properties_at: Longs
    end: ScanEnd

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def physical_offsets(self) -> Longs:
        """int64[n]."""
        return self.positions + self.base

    def take(self, rows: npt.NDArray[Any]) -> ScanResult:
        """Only these rows (a mask or indices); topics and end stay."""
        return replace(
            self,
            positions=self.positions[rows],
            sizes=self.sizes[rows],
            queue_ids=self.queue_ids[rows],
            queue_offsets=self.queue_offsets[rows],
            sys_flags=self.sys_flags[rows],
            store_timestamps=self.store_timestamps[rows],
            topic_rows=self.topic_rows[rows],
            properties_at=self.properties_at[rows],
        )


def scan_records(
    buf: Buffer, base: int, *, start: int = 0, limit: int = MAX_RECORDS, check_crc: bool = False
) -> ScanResult:
    """Scan the records of `buf` from position `start` on; `base` is the physical offset of `buf[0]`.

    A record counts if its magic and all its lengths are right, it carries the offset it lies at, and, with
    `check_crc`, its body's checksum is right. The scan stops at the first that doesn't.
    """
    positions, end = walk(buf, start, limit)
    return gather(buf, base, positions, end, check_crc)


def gather(buf: Buffer, base: int, positions: list[int], end: ScanEnd, check_crc: bool = False) -> ScanResult:
    """The columns of walked records, cut in front of the first that isn't valid."""
    at = np.array(positions, np.int64)
    if not len(at):
        return ScanResult(buf, base, at, at, at, at, at, at, [], at, at, end)
    heads = _view(buf, layout.BODY_AT)[at].view(_FIELDS)
    sizes = heads["size"].astype(np.int64)
    sys_flags = heads["sys_flag"].astype(np.int64)
    store_timestamps = heads["store_timestamp"].astype(np.int64)
    body_at, body_lengths = at + layout.BODY_AT, heads["body_length"].astype(np.int64)
    if (sys_flags & (layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6)).any():
        _shift_for_ipv6(buf, at, sys_flags, store_timestamps, body_at, body_lengths)
    topic_at, topic_lengths, properties_at, valid = _parts(buf, heads, at + sizes, body_at, body_lengths)
    valid &= heads["physical_offset"] == at + base
    count = len(at) if valid.all() else int(np.argmin(valid))
    if check_crc:
        count = _check_bodies(buf, body_at[:count], body_lengths[:count], heads["crc"][:count])
    names, topic_rows = group_topics(buf, topic_at[:count], topic_lengths[:count])
    topics, count = _decode_topics(names, topic_rows)
    if count < len(at):
        end = look(buf, positions[count], base, check_crc)
    return ScanResult(
        buf=buf,
        base=base,
        positions=at[:count],
        sizes=sizes[:count],
        queue_ids=heads["queue_id"][:count].astype(np.int64),
        queue_offsets=heads["queue_offset"][:count].astype(np.int64),
        sys_flags=sys_flags[:count],
        store_timestamps=store_timestamps[:count],
        topics=topics,
        topic_rows=topic_rows[:count],
        properties_at=properties_at[:count],
        end=end,
    )


def _view(buf: Buffer, width: int, dtype: str | None = None) -> npt.NDArray[Any]:
    """`width` bytes at every byte position of `buf`, without a copy."""
    return np.ndarray((len(buf) - width + 1,), dtype or f"V{width}", buf, 0, (1,))


def _shift_for_ipv6(
    buf: Buffer,
    at: Longs,
    sys_flags: Longs,
    store_timestamps: Longs,
    body_at: Longs,
    body_lengths: Longs,
) -> None:
    """Correct the columns of the records with long host fields. Positions are clipped into the buffer: a
    record too short for its hosts then gets some length that doesn't add up."""
    rows = np.flatnonzero(sys_flags & (layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6))
    born = (sys_flags[rows] >> 4 & 1) * layout.IPV6_EXTRA
    both = born + (sys_flags[rows] >> 5 & 1) * layout.IPV6_EXTRA
    times_at = np.minimum(at[rows] + layout.STORE_TIMESTAMP_AT + born, len(buf) - 8)
    store_timestamps[rows] = _view(buf, 8, ">i8")[times_at]
    lengths_at = np.minimum(at[rows] + layout.BODY_LENGTH_AT + both, len(buf) - 4)
    body_lengths[rows] = _view(buf, 4, ">u4")[lengths_at]
    body_at[rows] += both


def _parts(
    buf: Buffer, heads: npt.NDArray[Any], ends: Longs, body_at: Longs, body_lengths: Longs
) -> tuple[Longs, Longs, Longs, npt.NDArray[np.bool_]]:
    """Topic start and length, properties start, and which records' lengths add up.

    Positions beyond the buffer are clipped for reading; the unclipped ones don't add up then.
    """
    octets = np.frombuffer(buf, np.uint8)
    lengths_at = body_at + body_lengths
    topic_lengths = octets[np.minimum(lengths_at, len(buf) - 1)].astype(np.int64)
    topic_at = lengths_at + 1
    too_long = topic_lengths
    if (heads["magic"] != layout.MAGIC_V1_SIGNED).any():
        rows = np.flatnonzero(heads["magic"] == layout.MAGIC_V2_SIGNED)
        topic_lengths[rows] = _view(buf, 2, ">u2")[np.minimum(lengths_at[rows], len(buf) - 2)]
        topic_at[rows] += 1
        too_long = topic_lengths.copy()
        too_long[rows] >>= 8
    properties_at = topic_at + topic_lengths + 2
    properties_lengths = _view(buf, 2, ">u2")[np.minimum(properties_at, len(buf)) - 2].astype(np.int64)
    valid = properties_at + properties_lengths == ends
    valid &= (too_long | properties_lengths >> 8) < 0x80
    return topic_at, topic_lengths, properties_at, valid


def _check_bodies(buf: Buffer, starts: Longs, lengths: Longs, stored: npt.NDArray[Any]) -> int:
    """How many records from the first on have the right body checksum (an empty body has none)."""
    view = memoryview(buf)
    ends = (starts + lengths).tolist()
    computed = [crc32(view[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)]
    right = (np.array(computed, np.uint32) & 0x7FFFFFFF) == stored
    right |= lengths == 0
    return len(starts) if right.all() else int(np.argmin(right))


def group_topics(buf: Buffer, starts: Longs, lengths: Longs) -> tuple[list[bytes], Longs]:
    """The distinct topics and for every record its index among them."""
    names: list[bytes] = []
    rows = np.zeros(len(starts), np.int64)
    if len(starts) and _all_equal(buf, starts, lengths):
        return [bytes(buf[starts[0] : starts[0] + lengths[0]])], rows
    left = np.arange(len(starts))
    while len(left) and len(names) < PEELED_TOPICS:
        first = left[0]
        length = int(lengths[first])
        name = bytes(buf[starts[first] : starts[first] + length])
        same = lengths[left] == length
        if length:
            # Of equal length they are compared whole: numpy's padding with zeros makes no difference.
            candidates = left[same]
            same[same] = _view(buf, length, f"S{length}")[starts[candidates]] == name
        rows[left[same]] = len(names)
        names.append(name)
        left = left[~same]
    if len(left):
        known = {name: index for index, name in enumerate(names)}
        stops = (starts + lengths)[left].tolist()
        slices = [bytes(buf[a:b]) for a, b in zip(starts[left].tolist(), stops, strict=True)]
        rows[left] = [known.setdefault(name, len(known)) for name in slices]
        names = list(known)
    return names, rows


def _all_equal(buf: Buffer, starts: Longs, lengths: Longs) -> bool:
    """Is there one topic only?"""
    length, first = int(lengths[0]), int(starts[0])
    if not (lengths == length).all():
        return False
    name = bytes(buf[first : first + length])
    return not length or _view(buf, length)[starts].tobytes() == name * len(starts)


def _decode_topics(names: list[bytes], rows: Longs) -> tuple[list[str], int]:
    """Topics as text, and how many records come before the first whose topic isn't UTF-8."""
    topics: list[str] = []
    count = len(rows)
    for index, name in enumerate(names):
        try:
            topics.append(name.decode())
        except UnicodeDecodeError:
            topics.append("")
            count = min(count, int(np.argmax(rows == index)))
    return topics, count
