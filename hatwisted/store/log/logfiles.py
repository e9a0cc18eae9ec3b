"""The files of a log that nobody appends to, as those want it that read a broker's log."""

from __future__ import annotations

from hatwisted.store.log.filequeue import FileQueue


class LogFiles:
    """The files of a log up to a known end, for those that read a log which nobody appends to."""

    def __init__(self, files: FileQueue, end: int) -> None:
        self._files = files
        self.max_offset = end
        self.file_size = files.file_size

    @property
    def min_offset(self) -> int:
        """Offset of the first byte still held."""
        return self._files.min_offset

    def read(self, offset: int, limit: int) -> bytes:
        """See IReplicatedLog."""
        size = min(limit, self.max_offset - offset)
        return self._files.read(offset, size) if size > 0 else b""
