"""What a failed sync may have left out, written again so that the next sync is of it.

When a sync fails, the kernel takes the pages for clean. It shows them to the next process as it did to the last,
and leaves them out of the next sync, which then says that they are on the disk. So after an unclean exit what
isn't known to have been synced is written again, the same bytes. If the system has gone on since, the last sync
has left a note of how far it came (`flushedmark`); otherwise the checkpoint says it, as an offset, or, written by
RocketMQ, as a time.

Rejected: a mark that a failed sync leaves. It would be made on a disk that has just failed, and never by a process
that was killed while the sync hung.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hatwisted.logcodec.logwalk import CHUNK
from hatwisted.logcodec.scan import Records
from hatwisted.store.log.filequeue import FileQueue

MOST_FILES: Final = 3
"""Files at the log's end that are written again where nothing is known: a whole log would take hours."""


class UnsyncedPages:
    """Of one log.

    - files: of the log
    - flushed: log offset up to which it's known to have been synced; None: not known
    - synced_until: store time (ms) of the last record known to be on disk, 0: none is; None: not known. It counts
      where `flushed` isn't known
    """

    def __init__(self, files: FileQueue, flushed: int | None, synced_until: int | None) -> None:
        self._files = files
        self._synced_until = synced_until
        self.looking = flushed is None
        """Do the records have to say where it begins?"""
        self.begin = None if flushed is None else max(flushed, files.min_offset)
        """The first byte that isn't known to be on the disk; None: there's none."""

    def look_at(self, records: Records) -> None:
        """The log's records, in order: is one of them the first that isn't known to be on the disk?"""
        if not self.looking:
            return
        if self._synced_until is None:
            unsynced = records.positions + records.base >= self._files.starts[-MOST_FILES:][0]
        else:
            unsynced = records.store_timestamps >= self._synced_until
        if unsynced.any():
            self.begin = records.base + int(records.positions[np.argmax(unsynced)])
            self.looking = False

    def write_again(self, end: int) -> None:
        """Make them, up to the log's end, part of the next sync. Raises StoreFull or another OSError."""
        at = self.begin
        while at is not None and at < end:
            chunk = self._files.read(at, min(CHUNK, end - at))
            at += self._files.write(at, (chunk,))
