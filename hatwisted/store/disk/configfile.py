"""Tables on disk: the small JSON files (`config/*.json` of a broker, a name server's settings) that RocketMQ
reads as well.

Strategy: a table lives in memory, says when it changed, and is written whole. A write keeps the former
content as `.bak` and replaces the file atomically, so that at every instant a complete version is readable;
a file that is missing, empty or broken is read from its `.bak`. Encoding happens in the reactor (a snapshot
needs no lock), the disk work in the worker, one write of a file at a time: changes that arrive meanwhile
make one more write. A table that speaks of messages waits, encoded, until those are on the disk.

Rejected: writing inside the change, as RocketMQ does (a heartbeat would wait for the disk, and a consumer
offset changes thousands of times a second).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from twisted.internet.defer import Deferred, DeferredList, FirstError, gatherResults, inlineCallbacks, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IFileSystem, IWorker
from hatwisted.timing.periodic import PeriodicCall

BACKUP = ".bak"

FLUSH_INTERVAL = 5.0
"""Seconds between writes of what changed: what a crash may take back from consumers' progress (4.9.7: 5
s)."""


class ConfigFile:
    """One file that holds one table.

    - fs: the disk
    - path: of the file; the previous version is kept beside it as `.bak`
    - worker: writes it
    - encode: gives the table's current bytes; called in the reactor thread
    - grounds: fires once what those bytes refer to is on the disk; a failure is one of the write
    """

    _log = Logger()

    def __init__(
        self,
        fs: IFileSystem,
        path: str,
        worker: IWorker,
        encode: Callable[[], bytes],
        grounds: Callable[[], Deferred[None]] = lambda: succeed(None),
    ) -> None:
        self.path = path
        self._fs = fs
        self._worker = worker
        self._encode = encode
        self._grounds = grounds
        self._dirty = False
        self._spoilt = False
        """The file couldn't be read, so that the backup is the only version: the next write keeps it."""
        self.problem = ""
        """Why the last write failed, "" if it didn't. As logged: a full disk would be logged every few seconds."""
        self._writing = False
        self._waiting: list[Deferred[None]] = []

    def load(self, decode: Callable[[bytes], None]) -> bool:
        """Pass the file's bytes, or its backup's, to `decode`; blocks, so only before the services start.

        `decode` refuses what it can't read with ValueError and then leaves the table alone. False: there was
        no readable version; a warning has said why, unless there was no file at all.
        """
        for path in (self.path, self.path + BACKUP):
            if not self._fs.exists(path):
                continue
            try:
                decode(self._fs.read(path))
                self._spoilt = path != self.path
                return True
            except (ValueError, OSError) as error:
                self._log.warn("{path} can't be used: {error}", path=path, error=error)
        return False

    @property
    def unwritten(self) -> bool:
        """Does the file lack something, or is it being written?"""
        return self._dirty or self._writing

    def changed(self) -> None:
        """The table is no longer what the file says; the next `flush` writes it."""
        self._dirty = True

    def save(self) -> None:
        """`changed`, and write without waiting for the next round."""
        self._dirty = True
        self.flush()

    def flush(self) -> Deferred[None]:
        """Write if anything changed; fires when the file has the table's present state, or when writing failed
        (logged once, tried again at the next flush). Never fails."""
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        if not self._writing:
            self._write()
        return done

    def _write(self) -> None:
        """One write for all who wait: they may be hundreds, as each new topic is saved at once."""
        waiting, self._waiting = self._waiting, []
        if not self._dirty:
            self._fire(waiting)
            return
        self._dirty = False
        self._writing = True
        writing = self._write_table()
        writing.addCallbacks(self._written, self._not_written)
        writing.addCallback(lambda _: self._end_write(waiting))

    @inlineCallbacks
    def _write_table(self) -> Generator[Any, Any, None]:
        content = self._encode()
        yield self._grounds()
        yield self._worker.run(self._replace, content)

    def _end_write(self, waiting: Sequence[Deferred[None]]) -> None:
        self._writing = False
        self._fire(waiting)
        if self._waiting and not self._writing:
            self._write()

    def _fire(self, waiting: Sequence[Deferred[None]]) -> None:
        for done in waiting:
            done.callback(None)

    def _replace(self, content: bytes) -> None:
        """In the worker: the former content becomes the backup, then the new one the file."""
        former = self._fs.read(self.path) if self._fs.exists(self.path) else b""
        if former and not self._spoilt:
            replace_file(self._fs, self.path + BACKUP, former)
        self._fs.makedirs(self.path.rpartition("/")[0])
        # Where a link leads to: put in its place, the file would be no longer the one that others keep and edit.
        replace_file(self._fs, self._fs.real_path(self.path), content)
        self._spoilt = False

    def _written(self, _result: None) -> None:
        if self.problem:
            self.problem = ""
            self._log.info("{path}: writing works again", path=self.path)

    def _not_written(self, failure: Failure) -> None:
        self._dirty = True
        reason = failure.getErrorMessage()
        if reason != self.problem:
            self.problem = reason
            if not failure.check(OSError, StoreError):
                self._log.failure("{path} can't be encoded", failure, LogLevel.error, path=self.path)
            self._log.error("{path} was not written, will try again: {error}", path=self.path, error=reason)


def written(files: Sequence[ConfigFile]) -> Deferred[str | None]:
    """Fires when these have the present state of their tables: with None, or with a remark about those that can't
    be written, for whoever made a change. Fails only if it's cancelled."""

    def told(_: object) -> str | None:
        problems = "; ".join(f"{file.path}: {file.problem}" for file in files if file.problem)
        return f"done here, but not written to a file yet: {problems}" if problems else None

    flushed = gatherResults([file.flush() for file in files], consumeErrors=True)
    return flushed.addCallbacks(told, _only_failure)


def _only_failure(failure: Failure) -> Failure:
    """Of several that were cancelled together, instead of a FirstError with it."""
    assert isinstance(failure.value, FirstError)
    return failure.value.subFailure


class ConfigFlusher:
    """Writes the tables that have changed.

    - clock: its timer
    - files: the tables
    - interval: seconds between two looks; what has changed is also written when it is stopped
    """

    def __init__(
        self, clock: IReactorTime, files: Sequence[ConfigFile], interval: float = FLUSH_INTERVAL
    ) -> None:
        self._files = files
        self._interval = interval
        self._loop = PeriodicCall(clock, "writing tables that changed", self.flush)

    def start(self) -> None:
        self._loop.start(self._interval)

    def stop(self) -> Deferred[None]:
        """No more rounds; fires when everything is written."""
        self._loop.stop()
        return self.flush()

    def flush(self) -> Deferred[None]:
        """Write every changed file; never fails."""
        writing = [file.flush() for file in self._files if file.unwritten]
        return DeferredList(writing).addCallback(lambda _: None) if writing else succeed(None)
