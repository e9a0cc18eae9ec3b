"""The checkpoint file: how far, in store time, log, queues and index are known to be on disk.

After an unclean exit recovery begins at the newest log file that is older than all of them. So a time here
must never be newer than what is synced; an older one only makes recovery longer. A missing or short file
therefore reads as zeros, which means "from the first file".

Times are what RocketMQ reads and writes, and a clock that is ahead makes them wrong: once it's right again, all
that is stored for hours counts as synced. So the same three stand here as offsets of the log, and count where they
are known.

RocketMQ maps the file and forces it; here it's replaced whole, so that no crash can leave half a number. Our notes
stand at its very end, which RocketMQ neither reads nor changes: those offsets, and how far the index is complete.
Each offset names the time that it was written with: RocketMQ changes that as it goes on, and not the note.
"""

from __future__ import annotations

import struct
from typing import Final

from twisted.logger import Logger

from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.interfaces import IFileSystem

CHECKPOINT_SIZE: Final = 4096
"""Bytes of the file; zeros after the fields."""

SAFETY_MARGIN: Final = 3000
"""ms that recovery goes back further than the oldest time, as RocketMQ does: records of one time may lie on
both sides of a flush."""

FUTURE = 24 * 3600 * 1000
"""ms by which a stored time may be ahead of the clock (another broker's, or a clock set back): beyond that it's
garbage, and trusting it would keep a damaged log from being looked at. One that is ahead by less counts as now."""

_FIELDS = struct.Struct(">qqqqq")
_NOTE = struct.Struct(">8sqq")
_NOTE_AT = CHECKPOINT_SIZE - _NOTE.size
_NOTE_MARK = b"indexed\0"
_FLUSHED_AT = _NOTE_AT - _NOTE.size
_FLUSHED_MARK = b"flushed\0"
_QUEUED_AT = _FLUSHED_AT - _NOTE.size
_QUEUED_MARK = b"queued\0\0"
_FILLED_AT = _QUEUED_AT - _NOTE.size
_FILLED_MARK = b"idxfull\0"


class StoreCheckpoint:
    """The fields of one checkpoint file; plain attributes, written by `flush`.

    physic_timestamp: storeTimestamp (ms) of the last flushed log record; logics_timestamp: of the last record
    with a flushed queue entry; index_timestamp: of the last item of the last full index file.
    master_flushed_offset, confirm_offset: log offsets that 5.x keeps here, 0 from a 4.x store; kept as found.
    indexed: (physical offset of the index's last item that is on the disk, -1 without one; log offset up to which
    nothing after it needed an item). After a clean exit it holds if the index still ends with that item, after
    another if it still has it.
    flushed, queued: log offsets up to which the log, and the queue entries of its records, are on the disk;
    filled: physical offset of the last item of the last full index file that is, -1 without one. None: not known.
    """

    _log = Logger()

    def __init__(self, fs: IFileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._stored = b""
        self._believed = False
        self.physic_timestamp = 0
        self.logics_timestamp = 0
        self.index_timestamp = 0
        self.master_flushed_offset = 0
        self.confirm_offset = 0
        self.indexed: tuple[int, int] | None = None
        self.flushed: int | None = None
        self.queued: int | None = None
        self.filled: int | None = None

    def advance(self, *, physic: int = 0, logics: int = 0, index: int = 0) -> None:
        """Something is on disk. Times are ms, and earlier ones than known change nothing.

        - physic: the log, as far as records stored at this time
        - logics: the queues, so far
        - index: the index, so far
        """
        self.physic_timestamp = max(self.physic_timestamp, physic)
        self.logics_timestamp = max(self.logics_timestamp, logics)
        self.index_timestamp = max(self.index_timestamp, index)

    def load(self, now: int | None = None) -> None:
        """Read the file; zeros for what isn't there, and for times that can't be true at `now` (ms)."""
        self._stored = self._fs.read(self._path) if self._fs.exists(self._path) else b""
        (
            self.physic_timestamp,
            self.logics_timestamp,
            self.index_timestamp,
            self.master_flushed_offset,
            self.confirm_offset,
        ) = _FIELDS.unpack_from(self._stored.ljust(_FIELDS.size, b"\0"))
        stored = self._stored.ljust(CHECKPOINT_SIZE, b"\0")
        mark, last_item, end = _NOTE.unpack_from(stored, _NOTE_AT)
        self.indexed = (last_item, end) if mark == _NOTE_MARK else None
        self.flushed = _noted(stored, _FLUSHED_AT, _FLUSHED_MARK, self.physic_timestamp)
        self.queued = _noted(stored, _QUEUED_AT, _QUEUED_MARK, self.logics_timestamp)
        self.filled = _noted(stored, _FILLED_AT, _FILLED_MARK, self.index_timestamp)
        times = (self.physic_timestamp, self.logics_timestamp, self.index_timestamp)
        impossible = min(times) < 0 or (now is not None and max(times) > now + FUTURE)
        self._believed = not impossible and len(self._stored) >= _FIELDS.size
        if impossible:
            self._log.warn("{path} has impossible times and is ignored", path=self._path)
            self.physic_timestamp = self.logics_timestamp = self.index_timestamp = 0
        elif now is not None:
            # Written under a clock that was ahead. New records get earlier times; this one knows nothing of them.
            self.physic_timestamp = min(self.physic_timestamp, now)
            self.logics_timestamp = min(self.logics_timestamp, now)
            self.index_timestamp = min(self.index_timestamp, now)

    def encode(self) -> bytes:
        """The whole file as it's to be."""
        fields = _FIELDS.pack(
            self.physic_timestamp,
            self.logics_timestamp,
            self.index_timestamp,
            self.master_flushed_offset,
            self.confirm_offset,
        )
        offsets = (
            (_FILLED_MARK, self.filled, self.index_timestamp),
            (_QUEUED_MARK, self.queued, self.logics_timestamp),
            (_FLUSHED_MARK, self.flushed, self.physic_timestamp),
        )
        notes = [b"" if offset is None else _NOTE.pack(mark, offset, time) for mark, offset, time in offsets]
        notes.append(b"" if self.indexed is None else _NOTE.pack(_NOTE_MARK, *self.indexed))
        return fields.ljust(_FILLED_AT, b"\0") + b"".join(note.ljust(_NOTE.size, b"\0") for note in notes)

    def flush(self) -> None:
        """Write the fields if they have changed. Blocks, may run in another thread."""
        data = self.encode()
        if data != self._stored:
            replace_file(self._fs, self._path, data)
            self._stored = data

    @property
    def synced_until(self) -> int | None:
        """Store time (ms) of the last record known to be on disk, 0 if none is; None if the file didn't say."""
        return self.physic_timestamp if self._believed else None

    def covers(self, offset: int, stored: int, *, with_index: bool) -> bool:
        """Is all that the log has before this record on disk, in log and queues?

        - offset: where the record begins
        - stored: when, in ms; it counts where offsets aren't known
        - with_index: in the index as well (`messageIndexSafe`)
        """
        offsets = [self.flushed, self.queued, *([self.filled] if with_index else [])]
        known = [each for each in offsets if each is not None]
        if len(known) == len(offsets):
            return offset < min(known)
        return 0 < stored <= (self.min_timestamp_with_index if with_index else self.min_timestamp)

    def recovered(self, end: int, again_from: int) -> None:
        """A recovery has cut the log at `end`, and built queues and index again from `again_from` on."""
        self.indexed = None  # of the last exit; the next one notes its own
        least = min(end, again_from)
        self.queued = None if self.queued is None else min(self.queued, least)
        self.filled = None if self.filled is None else min(self.filled, least - 1)

    @property
    def min_timestamp(self) -> int:
        """Records stored up to then (ms) are in log and queues on disk; 0 if nothing is known."""
        return max(0, min(self.physic_timestamp, self.logics_timestamp) - SAFETY_MARGIN)

    @property
    def min_timestamp_with_index(self) -> int:
        """As `min_timestamp`, and in the index as well (`messageIndexSafe`)."""
        return max(0, min(self.min_timestamp, self.index_timestamp))


def _noted(stored: bytes, at: int, mark: bytes, time: int) -> int | None:
    """The offset of a note, if it was written with this time (ms)."""
    found, offset, noted_with = _NOTE.unpack_from(stored, at)
    return int(offset) if found == mark and noted_with == time else None
