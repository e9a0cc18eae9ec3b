"""Our own requests about ranges of a log: the digests of its blocks (LOG_DIGESTS), or its bytes (READ_LOG).
REPAIR_LOG has a slave overwrite what is rotten in a range of its own.

Both name [begin, end) by physical offsets. A digest is BLAKE2b of `DIGEST_SIZE` bytes: copies with the same
digests are equal, even if an adversary made them; the last block may be shorter than the others. READ_LOG may also
ask for the record in which `begin` lies: the answer says where it begins, going by the nearest record that can be
proved, and its bytes start there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hatwisted.wire.requestheader import BadRequestField, bool_field, long_field

DIGEST_SIZE: Final = 16
"""Bytes of one digest."""
LEAST_BLOCK: Final = 4096
"""Bytes of the smallest block with a digest of its own."""
MOST_DIGESTED: Final = 16 << 20
"""Bytes of log that one request may have read: 40 ms of CPU time, a third of a second on a slow disk."""
MOST_READ: Final = 8 << 20
"""Bytes of log in one answer: the largest record and as much again; no client takes a frame above 16 MiB."""

_BEGIN, _END, _BLOCK, _RECORD = "begin", "end", "block", "record"


class LogRange(NamedTuple):
    """Bytes [begin, end) of a log, by physical offset."""

    begin: int
    end: int

    def below(self, end: int) -> LogRange | None:
        """The part below `end`; None if there is none."""
        upto = min(self.end, end)
        return LogRange(self.begin, upto) if self.begin < upto else None


class DigestsWanted(NamedTuple):
    """LOG_DIGESTS. block: bytes per digest."""

    span: LogRange
    block: int

    def to_ext(self) -> dict[str, str]:
        """The request's fields."""
        return span_fields(self.span) | {_BLOCK: str(self.block)}


class BytesWanted(NamedTuple):
    """READ_LOG. record: start at the beginning of the record in which the range begins; the same number of
    bytes."""

    span: LogRange
    record: bool = False

    def to_ext(self) -> dict[str, str]:
        """The request's fields."""
        return span_fields(self.span) | {_RECORD: "true" if self.record else "false"}


def parse_digests_wanted(ext: Mapping[str, str]) -> DigestsWanted:
    """The fields of a LOG_DIGESTS; BadRequestField if they are wrong, or ask for more than is allowed."""
    block = long_field(ext, _BLOCK)
    if block < LEAST_BLOCK:
        raise BadRequestField(_BLOCK, ext[_BLOCK])
    return DigestsWanted(_parse_span(ext, MOST_DIGESTED), block)


def parse_bytes_wanted(ext: Mapping[str, str]) -> BytesWanted:
    """The fields of a READ_LOG; BadRequestField if they are wrong, or ask for more than is allowed."""
    return BytesWanted(_parse_span(ext, MOST_READ), bool_field(ext, _RECORD))


def parse_repair_wanted(ext: Mapping[str, str]) -> LogRange:
    """The fields of a REPAIR_LOG; BadRequestField if they are wrong, or ask for more than is allowed."""
    return _parse_span(ext, MOST_DIGESTED)


def span_fields(span: LogRange) -> dict[str, str]:
    """A range as fields of a request."""
    return {_BEGIN: str(span.begin), _END: str(span.end)}


def begin_field(begin: int) -> dict[str, str]:
    """What the answer to READ_LOG says: where its bytes begin."""
    return {_BEGIN: str(begin)}


def parse_begin(ext: Mapping[str, str]) -> int:
    """Where an answer's bytes begin; BadRequestField if it doesn't say."""
    return long_field(ext, _BEGIN)


def _parse_span(ext: Mapping[str, str], most: int) -> LogRange:
    begin, end = long_field(ext, _BEGIN), long_field(ext, _END)
    if begin < 0:
        raise BadRequestField(_BEGIN, ext[_BEGIN])
    if not begin < end <= begin + most:
        raise BadRequestField(_END, ext[_END])
    return LogRange(begin, end)
