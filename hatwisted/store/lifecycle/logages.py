"""How old the log's files are for certain, whatever the clock says at present.

A clock that is wrong for an hour, when a broker starts or while it runs, must not cost a log that was to be kept
for three days. So the clock is never asked how late it is. While this process runs, the age of a file is counted,
and a leap between two looks counts for no more than LOOK_LIMIT. What a file was old at the start, the log itself
says: by how much its last record is older than the log's last one, and its last write than the last write of all;
the lesser of the two, since either may have been made under a wrong clock.

Time in which no broker ran on the store doesn't count: it can't be distinguished from a clock that is wrong.
Files are kept longer by that, if the disk allows.
"""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from hatwisted.logcodec.onerecord import NO_TIME, store_timestamp_at
from hatwisted.store.log.commitlog import CommitLog

LOOK_LIMIT = 60.0
"""Seconds that may have passed between two looks, which come with each round of retention."""


class LogAges:
    """Ages of one log's files. Look often."""

    def __init__(self, log: CommitLog, clock: IReactorTime) -> None:
        self._log = log
        self._clock = clock
        self._counted = 0.0
        self._looked: float | None = None
        self._closed: dict[int, float] = {}
        """When a file got its last byte, on the clock of `_counted`, by its first offset."""

    def look(self) -> None:
        """Count the time since the last look, and note which files have been filled meanwhile."""
        now = self._clock.seconds()
        first = self._looked is None
        if self._looked is not None:
            self._counted += min(max(0.0, now - self._looked), LOOK_LIMIT)
        self._looked = now
        in_use = self._in_use()
        filled = [start for start in self._log.files.starts if start < in_use]
        self._closed = {
            start: self._closed.get(
                start, self._counted - (self._age_at_start(start, in_use) if first else 0.0)
            )
            for start in filled
        }

    def age(self, start: int) -> float:
        """Seconds since the last write to the file that begins at `start`, at the least; 0 for one in use."""
        closed = self._closed.get(start)
        return 0.0 if closed is None else self._counted - closed

    def _in_use(self) -> int:
        """First offset of the file with the log's last byte."""
        size = self._log.files.file_size
        return max(0, self._log.max_offset - 1) // size * size

    def _age_at_start(self, start: int, in_use: int) -> float:
        files = self._log.files
        # The next file's first record came right after this one's last.
        written = store_timestamp_at(self._log, start + files.file_size)
        if written == NO_TIME:
            return 0.0
        by_records = (self._log.newest_store_timestamp - written) / 1000
        by_writes = files.file_mtime(in_use) - files.file_mtime(start)
        return max(0.0, min(by_records, by_writes))
