"""The files of one stream: same length each, named by their first byte's offset, no gaps.

RocketMQ refuses a folder that holds a file of any other length, so a file must never be seen half made: it's
made beside the folder (`commitlog.new`, a name that RocketMQ doesn't read), gets its full length and its
blocks, and only then its own name. One file is prepared ahead, off the reactor thread; from then on it's a
member of the sequence like any other, all zeros.

A name is durable only when its folder is synced, which would be one more slow call at each roll. That is left
to the next `datasync`, since nothing in a file counts as durable before that either.

Open descriptors are in an `OpenFiles`, which several queues may share: a store has one file queue per topic and
queue id, and there may be thousands.
"""

from __future__ import annotations

import contextlib
import errno
from bisect import bisect_right
from collections.abc import Sequence
from os.path import dirname, join
from typing import cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger

from hatwisted.logcodec.queueentry import PHYSICAL_LIMIT
from hatwisted.store.errors import StoreError, StoreFull, WrongFile
from hatwisted.store.interfaces import Buffer, IFile, IFileSystem, IWorker
from hatwisted.store.log.openfiles import OpenFiles
from hatwisted.wire.layout import file_name, parse_file_name

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""errno values that mean "no room now, perhaps later"."""


class FileQueue:
    """A stream of bytes in files of one size. Belongs to one thread, except for `datasync`.

    - fs: the disk
    - directory: the folder
    - file_size: bytes per file
    - reserve: new files get their blocks at once (a full disk is refused at `create`); otherwise they are
      sparse
    - read_only: never create, change or remove anything, and need no right to
    - open_files: the limit of open files, which other queues may share
    """

    _log = Logger()

    def __init__(
        self,
        fs: IFileSystem,
        directory: str,
        file_size: int,
        *,
        reserve: bool = True,
        read_only: bool = False,
        open_files: OpenFiles | None = None,
    ) -> None:
        self._fs = fs
        self._reserve = reserve
        self._read_only = read_only
        self._open = OpenFiles(fs, read_only=read_only) if open_files is None else open_files
        self._paths: dict[int, str] = {}
        self._names_changed = 0
        self._names_synced = 0
        self._preparing = False
        self._closed = False
        self.directory = directory
        self.file_size = file_size
        self.starts: list[int] = []
        """Offset of each file's first byte, ascending; consecutive ones differ by `file_size`."""

    # -- the sequence ----------------------------------------------------------------------------------------

    def load(self) -> None:
        """Take stock of the folder. Raises WrongFile for anything RocketMQ would refuse to load as well; a
        zero-length last file (a crash between making and sizing it) is removed, as 5.x does."""
        starts = self._listed()
        self.starts = starts
        self._paths = {start: join(self.directory, file_name(start)) for start in starts}
        if not self._read_only:
            for temporary in (self._new, self._next):
                self._fs.remove(temporary)

    def _listed(self) -> list[int]:
        starts: list[int] = []
        names = self._fs.listdir(self.directory)
        for name in names:
            start = parse_file_name(name)
            path = join(self.directory, name)
            if start is None or start % self.file_size:
                raise WrongFile(
                    f"{path} isn't named after a multiple of the file size {self.file_size}; move it elsewhere"
                )
            if start >= PHYSICAL_LIMIT:
                raise WrongFile(f"{path}: no file begins as late as its name says; move it elsewhere")
            size = self._fs.size(path)
            if size == 0 and name == names[-1]:
                if not self._read_only:
                    self._log.warn("removing {path}: the last file, of length 0", path=path)
                    self._fs.remove(path)
                break
            if size == 0 and not self._reserve and not self._read_only:
                self._lengthen(path)
            elif size != self.file_size:
                raise WrongFile(
                    f"{path} has {size} bytes, the configured file size is {self.file_size}; "
                    "set that to what the store was made with, or move the file elsewhere"
                )
            if starts and start != starts[-1] + self.file_size:
                raise WrongFile(
                    f"{path} follows {file_name(starts[-1])}: "
                    f"{file_name(starts[-1] + self.file_size)} is missing between them"
                )
            starts.append(start)
        return starts

    def _lengthen(self, path: str) -> None:
        """A sparse file's length had not reached the disk when the power failed, nor had anything after it."""
        with contextlib.closing(self._fs.open(path)) as file:
            file.extend(self.file_size)

    @property
    def min_offset(self) -> int:
        """Offset of the first file's first byte; 0 without files."""
        return self.starts[0] if self.starts else 0

    @property
    def capacity_end(self) -> int:
        """Offset after the last file's last byte; 0 without files."""
        return self.starts[-1] + self.file_size if self.starts else 0

    def has(self, start: int) -> bool:
        """Is there a file that begins at `start`?"""
        return start in self._paths

    def capacity_end_of(self, offset: int) -> int:
        """Offset after the last byte of the file that holds `offset`; `offset` itself if none does."""
        start = offset - offset % self.file_size
        return start + self.file_size if start in self._paths else offset

    def path_of(self, offset: int) -> str:
        """The file that holds `offset`, or would."""
        return join(self.directory, file_name(offset - offset % self.file_size))

    def file_mtime(self, start: int) -> float:
        """Last modification of the file that begins at `start`, seconds since the epoch."""
        return self._fs.mtime(self._paths[start])

    # -- bytes -----------------------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, cut at the file's end. LookupError if no file holds `offset`."""
        file, within = self.open_file(offset)
        return file.pread(min(size, self.file_size - within), within)

    def open_file(self, offset: int) -> tuple[IFile, int]:
        """The file that holds `offset`, and where in it; the next call may close it. LookupError if none does."""
        within = offset % self.file_size
        path = self._paths.get(offset - within)
        if path is None:
            raise LookupError(f"no file of {self.directory} holds offset {offset}")
        return self._open.get(path), within

    def data_from(self, offset: int) -> int:
        """The first place from `offset` on that may have been written, its file's end at most; what is passed over
        reads as zeros. LookupError if no file holds `offset`."""
        file, within = self.open_file(offset)
        return offset - within + min(file.data_from(within), self.file_size)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> int:
        """Write all buffers one after another at `offset`, within one file; returns the byte count. Raises
        StoreFull or another OSError; the bytes of the range are undefined then."""
        within = offset % self.file_size
        path = self._paths.get(offset - within)
        if path is None:
            raise LookupError(f"no file of {self.directory} holds offset {offset}")
        if within + sum(map(len, buffers)) > self.file_size:
            raise ValueError(f"a write at offset {offset} would cross the end of {path}")
        try:
            return self._open.get(path).pwrite(buffers, within)
        except OSError as error:
            raise _named(error, path) from error

    def datasync(self, begin: int, end: int) -> None:
        """Make [begin, end) durable, and the names of all files. Blocks, may run in another thread; files
        that are removed meanwhile are skipped. StoreError if the queue is closed before that."""
        self._sync_names()
        starts = list(self.starts)
        first = max(0, bisect_right(starts, begin) - 1)
        for start in starts[first:]:
            if start >= end:
                break
            if start + self.file_size > begin:
                self._sync_file(start)
        if self._closed:
            raise StoreError(f"{self.directory} was closed while it was being synced")

    @property
    def names_changed(self) -> int:
        """Rises whenever a file of the sequence is made or removed; for `names_synced`."""
        return self._names_changed

    def names_synced(self, changed: int) -> None:
        """All names are durable that there were at this `names_changed`."""
        self._names_synced = max(self._names_synced, changed)

    def _sync_names(self) -> None:
        changed = self._names_changed
        if changed == self._names_synced:
            return
        self._fs.sync_folder(self.directory)
        self._fs.sync_folder(dirname(self.directory))
        self._names_synced = changed

    def _sync_file(self, start: int) -> None:
        path = self._paths.get(start)
        if path is None:
            return
        file = self._open.peek(path)
        if file is not None:
            # Closed in between if its place was needed: then through a descriptor of our own.
            with contextlib.suppress(ValueError):
                file.datasync()
                return
        try:
            file = self._fs.open(path)
        except FileNotFoundError:
            return
        try:
            file.datasync()
        finally:
            file.close()

    # -- making files ----------------------------------------------------------------------------------------

    @property
    def _new(self) -> str:
        return self.directory + ".new"

    @property
    def _next(self) -> str:
        return self.directory + ".next"

    def create(self, start: int) -> None:
        """Make the file that begins at `start`, which must be the next one (or the first). May block for as
        long as reserving takes. Raises StoreFull; nothing is left behind then."""
        if start in self._paths:
            return
        if start % self.file_size or (self.starts and start != self.capacity_end):
            raise ValueError(
                f"{self.directory} can't continue with a file at {start}, it ends at {self.capacity_end}"
            )
        self._make(self._new, start)
        self._adopt(self._new, start)

    def prepare(self, start: int, worker: IWorker) -> Deferred[None]:
        """As `create`, with the slow part in `worker`. Nothing happens if the sequence has changed meanwhile
        so that the file isn't the next one any more. One at a time."""
        if start in self._paths:
            return succeed(None)
        if self._preparing:
            return fail(StoreError(f"{self.directory}: the next file is already being prepared"))
        self._preparing = True
        made = cast("Deferred[None]", worker.run(self._make, self._next, start))
        return made.addBoth(self._prepared).addCallback(lambda _: self._adopt_next(start))

    def _prepared(self, result: None) -> None:
        self._preparing = False
        return result

    def _adopt_next(self, start: int) -> None:
        if self.starts:
            self._adopt(self._next, start)
        else:
            # The files it was to follow are gone: it isn't the next one any more, and no first one.
            self._fs.remove(self._next)

    def _make(self, temporary: str, start: int) -> None:
        """The file for `start` in its full length, under another name for now. Runs in any thread."""
        try:
            self._fs.makedirs(self.directory)
            self._fs.remove(temporary)
            file = self._fs.open(temporary, create=True)
            try:
                if self._reserve:
                    file.reserve(self.file_size)
                    # Its name must not reach the disk before its length: no load would take it.
                    file.datasync()
                else:
                    file.extend(self.file_size)
            finally:
                file.close()
        except OSError as error:
            with contextlib.suppress(OSError):
                self._fs.remove(temporary)
            raise _named(error, join(self.directory, file_name(start))) from error

    def _adopt(self, temporary: str, start: int) -> None:
        """Give a made file its place, if that place is still the next one."""
        if self._closed or start in self._paths or (self.starts and start != self.capacity_end):
            self._fs.remove(temporary)
            return
        path = join(self.directory, file_name(start))
        try:
            self._fs.replace(temporary, path)
        except OSError as error:
            raise _named(error, path) from error
        self._names_changed += 1
        self._paths[start] = path
        self.starts.append(start)

    # -- removing files --------------------------------------------------------------------------------------

    def detach_before(self, offset: int, limit: int | None = None) -> list[str]:
        """Forget the files that lie wholly below `offset`, oldest first, at most `limit` of them; their
        paths, for a worker to remove in that order."""
        count = max(0, min(len(self.starts), (offset - self.min_offset) // self.file_size))
        if limit is not None:
            count = min(count, limit)
        gone, self.starts = self.starts[:count], self.starts[count:]
        return [self._forget(start) for start in gone]

    def restore(self, paths: Sequence[str]) -> None:
        """Take back the last of the paths that `detach_before` gave: they couldn't be removed."""
        for path in reversed(paths):
            start = self.min_offset - self.file_size
            self._paths[start] = path
            self.starts = [start, *self.starts]

    def delete_before(self, offset: int) -> int:
        """Remove the files that lie wholly below `offset`; how many. Blocks."""
        paths = self.detach_before(offset)
        for path in paths:
            self._fs.remove(path)
        return len(paths)

    def delete_from(self, offset: int) -> int:
        """Remove the files that begin at or above `offset`, newest first, so that a crash leaves no gap; how
        many. Blocks."""
        count = 0
        while self.starts and self.starts[-1] >= offset:
            self._fs.remove(self._forget(self.starts.pop()))
            self._names_changed += 1
            count += 1
        return count

    def _forget(self, start: int) -> str:
        path = self._paths.pop(start)
        self._open.forget(path)
        return path

    def close(self) -> None:
        """Close the files. A file still being prepared won't be taken in, and a late reader finds none: nobody
        would close what it opened."""
        self._closed = True
        paths, self._paths = self._paths, {}
        for path in paths.values():
            self._open.forget(path)


def _named(error: OSError, path: str) -> OSError | StoreFull:
    """The same failure, as StoreFull if that's what it is."""
    if error.errno in NO_ROOM:
        return StoreFull(f"no room for {path}: {error.strerror}")
    return error
