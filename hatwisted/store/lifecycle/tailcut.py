"""Cutting the log's tail so that no failure brings it back.

What was cut is zeroed, and the zeros are synced. If that sync fails, this process shows zeros to the next one,
while the disk may hold the tail still; and a recovery that finds nothing to cut wouldn't sync anything. So the
tail's last byte stays until the others are on the disk. A recovery after a failure finds it, and cuts the whole
tail again.
"""

from __future__ import annotations

from hatwisted.logcodec.logwalk import CHUNK
from hatwisted.store.log.filequeue import FileQueue


class TailCut:
    """Of one log.

    - files: of the log
    """

    def __init__(self, files: FileQueue) -> None:
        self._files = files
        self._end = self._stale_end = 0
        self._changed = False

    def cut(self, end: int, written: int) -> int:
        """Remove the files after `end`, and zero what the last one still holds there, but for its last byte.

        - end: of the log
        - written: offset after the last byte that isn't zero

        Returns how many files were removed. Raises StoreFull or another OSError.
        """
        removed = self._files.delete_from(end + 1)
        self._end, self._stale_end = end, min(written, self._files.capacity_end)
        self._changed = removed > 0 or self._stale_end > end
        for at in range(end, self._stale_end - 1, CHUNK):
            self._files.write(at, (bytes(min(CHUNK, self._stale_end - 1 - at)),))
        return removed

    def sync(self) -> None:
        """Make it durable, and the last byte zero. Raises OSError."""
        if self._changed:
            self._files.datasync(self._end - 1, self._files.capacity_end)
        if self._stale_end > self._end:
            self._files.write(self._stale_end - 1, (b"\0",))
            self._files.datasync(self._stale_end - 1, self._stale_end)
