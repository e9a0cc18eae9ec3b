"""The commit log's files ahead of its end: made when they are needed, or better before, in the worker.

RocketMQ's AllocateMappedFileService. The file after the one just begun is prepared at once; where that has failed
it's made on the spot when it's needed.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.store.errors import StoreFull
from hatwisted.store.interfaces import IWorker
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.wire.layout import file_name


class FileAllocation:
    """Makes files for one log.

    - files: the log's
    - worker: prepares the next one
    - on_full: called with the reason when there's no room for a file
    """

    _log = Logger()

    def __init__(self, files: FileQueue, worker: IWorker, on_full: Callable[[str], None]) -> None:
        self._files = files
        self._worker = worker
        self._on_full = on_full
        self._preparing = False
        self._unprepared = -1
        self._missing = -1
        self.refusal = "commit log has no room for another file"
        """Why `have` last said no."""

    def have(self, start: int) -> bool:
        """Make sure that the file starting at `start` exists; the one after it is prepared off the thread."""
        if not self._files.has(start):
            try:
                self._files.create(start)
            except (OSError, StoreFull) as error:
                self._log_no_file(start, error)
                return False
        self._prepare(start + self._files.file_size)
        return True

    def _log_no_file(self, start: int, error: Exception) -> None:
        self.refusal = str(error)
        if not isinstance(error, StoreFull):
            self.refusal = f"commit log file {file_name(start)} couldn't be made: {error}"
        if self._missing != start:
            self._missing = start
            self._log.warn("{reason}", reason=self.refusal)
        self._on_full(self.refusal)

    def _prepare(self, start: int) -> None:
        if self._preparing or self._unprepared == start or self._files.has(start):
            return
        self._preparing = True
        done = self._files.prepare(start, self._worker)
        done.addErrback(self._not_prepared, start).addBoth(self._prepared)

    def _not_prepared(self, failure: Failure, start: int) -> None:
        # Not again at the next append, which may be a moment away: when it's needed it's made on the spot.
        self._unprepared = start
        self._log.warn("the next commit log file couldn't be reserved in advance: {why}", why=failure.value)

    def _prepared(self, _result: object) -> None:
        self._preparing = False
