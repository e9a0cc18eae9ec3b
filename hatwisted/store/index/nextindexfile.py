"""The index file after the newest one, made before it's needed.

It's large (420 MB by default) and gets all its blocks at once, so a worker makes it: under a name beside the
folder, because RocketMQ takes every file in it for an index file. It's renamed when its first item comes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.store.errors import StoreFull
from hatwisted.store.interfaces import IFile, IFileSystem, IWorker
from hatwisted.store.log.filequeue import NO_ROOM


class NextIndexFile:
    """Makes one file ahead, at most.

    - fs: the disk
    - directory: the index's folder, beside which it's made
    - length: its bytes
    - worker: makes it; None: it's made here and now
    """

    _log = Logger()

    def __init__(self, fs: IFileSystem, directory: str, length: int, worker: IWorker | None) -> None:
        self._fs = fs
        self._directory = directory
        self._path = directory + ".next"
        self._length = length
        self._worker = worker
        self._blocking = False
        self._preparing = False
        self._file: IFile | None = None
        self._failure: Failure | None = None
        self._waiting: list[Deferred[None]] = []

    def clear(self) -> None:
        """Remove what a killed process has left behind."""
        self._fs.remove(self._path)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Within it files are made here and now instead of in the worker: for a dispatch that runs before the
        reactor does."""
        self._blocking = True
        try:
            yield
        finally:
            self._blocking = False

    @property
    def made(self) -> bool:
        """Is it there, to be taken?"""
        return self._file is not None

    def prepare(self) -> None:
        """Have it made, unless that's under way. Raises StoreFull or another OSError where it's made at once."""
        if self._preparing:
            return
        self._failure = None
        if self._blocking or self._worker is None:
            self._file = self._make()
            return
        self._preparing = True
        made = cast("Deferred[IFile]", self._worker.run(self._make))
        made.addCallbacks(self._made, self._not_made)

    def _make(self) -> IFile:
        """A reserved file of zeros under a name that isn't part of the index. Runs in any thread."""
        self._fs.makedirs(self._directory)
        self._fs.remove(self._path)
        file = self._fs.open(self._path, create=True)
        try:
            file.reserve(self._length)
            file.datasync()  # before its name
        except BaseException as error:
            file.close()
            self._fs.remove(self._path)
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise StoreFull(f"no room for the next index file {self._path}: {error.strerror}") from error
            raise
        return file

    def _made(self, file: IFile) -> None:
        self._preparing = False
        self._file = file
        waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready.callback(None)

    def _not_made(self, failure: Failure) -> None:
        self._preparing = False
        waiting, self._waiting = self._waiting, []
        if not waiting:
            self._failure = failure
            self._log.warn(
                "index file couldn't be created in advance ({error}); will try again when it's needed",
                error=failure.value,
            )
        for ready in waiting:
            ready.errback(failure)

    def when_ready(self) -> Deferred[None]:
        """Fires when it can be taken; fails with StoreFull or another OSError if it couldn't be made, and the
        next `prepare` tries again."""
        if not self._preparing:
            # A worker that runs calls at once may have failed before anybody could wait.
            failure, self._failure = self._failure, None
            return succeed(None) if failure is None else fail(failure)
        ready: Deferred[None] = Deferred()
        self._waiting.append(ready)
        return ready

    def take(self, path: str) -> IFile:
        """The file, which has its name in the index from now on. Only once it's `made`."""
        self._fs.replace(self._path, path)
        file, self._file = self._file, None
        assert file is not None
        return file

    def discard(self) -> None:
        """Close and remove it, if there is one."""
        if self._file is not None:
            self._file.close()
            self._file = None
            with contextlib.suppress(OSError):
                self._fs.remove(self._path)
