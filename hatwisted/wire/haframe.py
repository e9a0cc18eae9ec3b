"""The HA link's classic dialect: 8-byte reports from the slave, headers and log bytes from the master.

Both receivers are sans-IO: they take what a socket read returned and give what is complete. The link
carries gigabytes, so the frame receiver copies no body that arrived in one read (frames are views of that
read) and copies one that did not exactly once, into a buffer of its final size. Rejected: a ring buffer
(every body would be copied), and a list of pieces joined at the end (a peer that dribbles single bytes would
cost 50 bytes each).

A report is taken at face value here; whether it is plausible (not negative, not beyond what was sent) is
decided by the link, which knows the log. Sizes are checked here, because a wrong one makes all that follows
unreadable.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple

Buffer = bytes | bytearray | memoryview
_OFFSET: Final = struct.Struct(">q")
_HEADER: Final = struct.Struct(">qi")
REPORT_SIZE: Final = _OFFSET.size
HEADER_SIZE: Final = _HEADER.size
MAX_BODY: Final = 4 * 1024 * 1024 - HEADER_SIZE
"""Bytes; a RocketMQ slave buffers 4 MiB for header and body, so no master may send more."""


class HaProtocolError(ValueError):
    """The peer sent what the HA link's format doesn't allow; the only cure is to drop the link."""


class HaAck(Enum):
    """What a slave's acknowledgement promises (config value `haAck`)."""

    RECEIVED = "received"
    """Written to the slave's log, as in RocketMQ: survives a crash of its process, not a power failure."""
    DURABLE = "durable"
    """Synced to the slave's disk (B91)."""


class HaFirstSync(Enum):
    """Where a slave with an empty log begins (config value `haFirstSync`)."""

    LAST_FILE = "lastFile"
    """RocketMQ's rule (B40): the start of the master's last file."""
    MIN_OFFSET = "minOffset"
    """The oldest byte the master holds: a full copy (B158)."""


class Frame(NamedTuple):
    """Log bytes for `offset`; an empty body is a heartbeat. The view is valid as long as it is held."""

    offset: int
    body: memoryview


def encode_report(offset: int) -> bytes:
    """Slave to master: "I have written all bytes below `offset`"; the first one says where to start."""
    return _OFFSET.pack(offset)


def encode_heartbeat(offset: int) -> bytes:
    """Master to slave: a header without body; `offset` is where the next data will go."""
    return _HEADER.pack(offset, 0)


def encode_frames(start: int, body: Buffer, batch_size: int) -> list[Buffer]:
    """Header, slice, header, slice ... The slices are views, nothing is copied.

    - start: log offset of the first byte
    - body: log bytes; the caller makes sure that they don't cross the end of a file
    - batch_size: bytes of a slice at most
    """
    if len(body) <= batch_size:
        return [_HEADER.pack(start, len(body)), body] if body else []
    view = memoryview(body)
    parts: list[Buffer] = []
    for at in range(0, len(view), batch_size):
        piece = view[at : at + batch_size]
        parts += (_HEADER.pack(start + at, len(piece)), piece)
    return parts


def encode_heads(start: int, size: int, batch_size: int) -> list[tuple[bytes, int]]:
    """The same frames as `encode_frames` makes, of bodies that are elsewhere: of each one its header and how many
    bytes follow it.

    - start: log offset of the first byte
    - size: how many bytes
    - batch_size: bytes of a frame at most
    """
    end = start + size
    return [
        (_HEADER.pack(at, min(batch_size, end - at)), min(batch_size, end - at))
        for at in range(start, end, batch_size)
    ]


TakeFrames = Callable[[memoryview, int, int, list[Frame]], int]
"""Appends the whole frames that a read has from a place on: (the read, place, bytes of a body at most, frames) ->
the place of the first that isn't whole or valid. What a receiver does by itself, compiled."""

FittingFrames = Callable[[Sequence[Frame], int, int, list[Buffer]], tuple[int, int]]
"""Takes the leading frames that continue a log, none across the end of a file: (frames, the log's end, bytes of a
log file, bodies that aren't empty) -> (how many, the log's end with them)."""


class ReportReceiver:
    """Master side. Only the last complete 8 bytes matter; `count` counts all reports."""

    __slots__ = ("_rest", "count")

    def __init__(self) -> None:
        self._rest = b""  # invariant: fewer than 8 bytes
        self.count = 0

    def receive(self, data: bytes) -> int | None:
        """The newest report, or None while there are fewer than 8 bytes."""
        if self._rest:
            data = self._rest + data
        whole = len(data) & -REPORT_SIZE
        self._rest = data[whole:]
        if not whole:
            return None
        self.count += whole // REPORT_SIZE
        offset: int = _OFFSET.unpack_from(data, whole - REPORT_SIZE)[0]
        return offset


class FrameReceiver:
    """Slave side. Gives complete frames in order, and keeps the part of the last one that has arrived.

    After a HaProtocolError the receiver can't be used any more: frame boundaries are lost.
    """

    __slots__ = ("_body", "_filled", "_head", "_max_body", "_take_frames", "pending_header")

    def __init__(self, max_body: int = MAX_BODY, take_frames: TakeFrames | None = None) -> None:
        self._max_body = max_body
        self._take_frames = take_frames
        self._head = b""  # invariant: fewer than 12 bytes, and empty while a body is being filled
        self._body = bytearray()
        self._filled = 0
        self.pending_header: tuple[int, int] | None = None
        """(offset, size) of the frame whose body is incomplete: lets a wrong offset be seen at once."""

    @property
    def buffered(self) -> int:
        """Bytes of the unfinished frame held here."""
        return self._filled + (HEADER_SIZE if self.pending_header else len(self._head))

    def receive(self, data: bytes) -> list[Frame]:
        """All frames that `data` completes. HaProtocolError for a negative or oversized body length."""
        frames: list[Frame] = []
        position = 0
        if self.pending_header is not None:
            position = self._fill(data, frames)
        elif self._head:
            data = self._head + data
            self._head = b""
        end = len(data)
        view = memoryview(data)
        if self._take_frames is not None:
            position = self._take_frames(view, position, self._max_body, frames)
        while end - position >= HEADER_SIZE:
            offset, size = _HEADER.unpack_from(data, position)
            if not 0 <= size <= self._max_body:
                raise HaProtocolError(
                    f"frame for offset {offset} announces {size} bytes, allowed are 0 to {self._max_body}"
                )
            position += HEADER_SIZE
            if end - position < size:
                self._start_body(offset, size, view[position:])
                return frames
            frames.append(Frame(offset, view[position : position + size]))
            position += size
        if position < end:
            self._head = data[position:]
        return frames

    def _start_body(self, offset: int, size: int, piece: memoryview) -> None:
        self.pending_header = (offset, size)
        self._body = bytearray(size)
        self._filled = len(piece)
        self._body[: self._filled] = piece

    def _fill(self, data: bytes, frames: list[Frame]) -> int:
        """Put the beginning of `data` into the unfinished body; returns how much of it that took."""
        assert self.pending_header is not None
        offset, size = self.pending_header
        taken = min(size - self._filled, len(data))
        self._body[self._filled : self._filled + taken] = data[:taken]
        self._filled += taken
        if self._filled == size:
            frames.append(Frame(offset, memoryview(self._body).toreadonly()))
            self.pending_header = None
            self._body = bytearray()
            self._filled = 0
        return taken
