"""The key index: a sequence of index files, the last one being filled.

Files are named by when they were made and never change once full. The next one is made in the worker
(`nextindexfile`); until it's there `append` takes nothing: the dispatcher waits for `when_ready` and offers the
same items again. It's begun early (`PREPARE_AT`), so that happens at a store's very first message only.

Differences from RocketMQ, none visible in the bytes of a store that was never killed: items of records that a
recovery has cut are cut as well (RocketMQ leaves them and then doesn't index new records below them); an
unclean exit doesn't cost the newest file (it's checked and linked again); a record half of whose keys were
indexed before a crash gets the other half only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from os.path import basename, dirname, join
from typing import cast

import numpy as np
from twisted.internet.defer import Deferred, execute, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.logcodec.fewscan import key_hash
from hatwisted.store.errors import StoreError, StoreFull, WrongFile
from hatwisted.store.index.indexfile import (
    DEFAULT_ITEMS,
    DEFAULT_SLOTS,
    NAME_DIGITS,
    IndexFile,
    Ints,
    Item,
    Longs,
    file_length,
    file_name_at,
)
from hatwisted.store.index.nextindexfile import NextIndexFile
from hatwisted.store.interfaces import IFileSystem, IWorker, LocalTime
from hatwisted.store.log.filequeue import NO_ROOM

PREPARE_AT = 0.75
"""Share of a file's items in use at which the next one is made: 5 million items ahead by default, minutes."""


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """What index files are made with.

    - slots, items: of every file; not stored in it, so they must stay what they were
    - local_time: the one after which files are named
    """

    slots: int = DEFAULT_SLOTS
    items: int = DEFAULT_ITEMS
    local_time: LocalTime


class IndexService:
    """All index files of a store. Belongs to the reactor thread.

    - fs: the disk
    - directory: the folder
    - clock: names new files
    - options: what they are made with
    - worker: makes the next file in advance; None: it's made when it's needed
    """

    _log = Logger()

    def __init__(
        self,
        fs: IFileSystem,
        directory: str,
        clock: IReactorTime,
        options: IndexOptions,
        worker: IWorker | None = None,
    ) -> None:
        slots, items = options.slots, options.items
        if slots < 1 or items < 2:
            raise ValueError(f"an index file of {slots} slots and {items} items holds nothing")
        self._fs = fs
        self._directory = directory
        self._clock = clock
        self._local_time = options.local_time
        self._slots = slots
        self._items = items
        self._worker = worker
        self._next = NextIndexFile(fs, directory, file_length(slots, items), worker)
        self._names_changed = self._names_synced = 0
        """How often files were made or removed, and how many of these times are on the disk."""
        self.files: list[IndexFile] = []
        """Oldest first."""
        self.checkpoint_timestamp = 0
        """Last store timestamp (ms) of the newest full file that is on disk, for the checkpoint."""
        self.filled = -1
        """Physical offset of that file's last record; -1 without one."""

    # -- what is there ---------------------------------------------------------------------------------------

    @property
    def end_physical(self) -> int:
        """Physical offset of the last record indexed; -1 if there is none."""
        last = self.files[-1] if self.files else None
        if last is None or (last.count == 1 and last.end_physical == 0):
            return -1
        return int(last.end_physical)

    @property
    def synced(self) -> bool:
        """Is everything on the disk for certain? Not if a sync has ever failed."""
        known = self._names_changed == self._names_synced
        return known and not any(file.dirty or file.doubtful for file in self.files)

    def load(self) -> None:
        """Open the files. WrongFile for one that can't be an index file of these slots and items."""
        self._next.clear()
        for name in self._fs.listdir(self._directory):
            path = join(self._directory, name)
            if not (len(name) == NAME_DIGITS and name.isdigit()):
                raise WrongFile(f"{path} isn't named like an index file; move it elsewhere")
            size, expected = self._fs.size(path), file_length(self._slots, self._items)
            if size != expected:
                raise WrongFile(
                    f"{path} has {size} bytes, {self._slots} slots and {self._items} items make {expected}; "
                    "set maxHashSlotNum and maxIndexNum to what the store was made with, or remove the index "
                    "folder to have it rebuilt"
                )
            self.files.append(IndexFile(self._fs.open(path), path, self._slots, self._items))

    def repair(self, trusted_timestamp: int, filled: int | None = None) -> None:
        """After an unclean exit: check and link again every file not known to be on disk as a whole, and write it
        again: a sync of it may have failed. What doesn't hold is cut, to be dispatched again.

        - trusted_timestamp: ms, of the last item that is known to be, by the checkpoint
        - filled: physical offset of its record, which counts instead; None: not known
        """
        for position, file in enumerate(self.files):
            timely = file.end_timestamp <= trusted_timestamp
            if file.room == 0 and (timely if filled is None else file.end_physical <= filled):
                continue
            sound, found = file.sound_count(), file.count
            with _room_for(file):
                changed = file.relink(sound)
            self._write_again(file)
            if changed:
                self._log.warn("index file {path} relinked after an unclean exit", path=file.path)
            # One that others follow was full: if it isn't now, its header hasn't reached the disk.
            lost = file.room if position < len(self.files) - 1 else found - sound
            if lost:
                self._log.warn(
                    "index file {path}: {count} items are missing or out of order; rebuilding them",
                    path=file.path,
                    count=lost,
                )
                self._drop_from(position + 1)
                break
        self._drop_empty()

    def _write_again(self, file: IndexFile) -> None:
        try:
            with _room_for(file):
                file.write_again()
        except StoreFull as error:
            self._log.warn("{error}; if a sync of it failed, it isn't made up for", error=error)

    def truncate(self, physical_end: int) -> int:
        """Cut items of records at or beyond the log's end; returns how many. Left in place they would keep
        new records at these offsets out of the index."""
        cut = 0
        for position, file in enumerate(self.files):
            kept = file.count_below(physical_end)
            if kept < file.count:
                cut += file.count - kept + sum(later.count - 1 for later in self.files[position + 1 :])
                with _room_for(file):
                    file.relink(kept)
                self._drop_from(position + 1)
                break
        self._drop_empty()
        return cut

    def _drop_from(self, position: int) -> None:
        for file in self.files[position:]:
            file.close()
            self._fs.remove(file.path)
            self._names_changed += 1
        del self.files[position:]

    def _drop_empty(self) -> None:
        while self.files and self.files[-1].count == 1:
            self._drop_from(len(self.files) - 1)

    def resume(self, physical: Sequence[int] | Longs, timestamps: Sequence[int] | Longs) -> int:
        """How many of the first of these items (of records in log order) the index already has: to be asked
        when records may have been dispatched before."""
        end = self.end_physical
        offsets = np.asarray(physical, np.int64)
        below = int(np.searchsorted(offsets, end, "left"))
        same = int(np.searchsorted(offsets, end, "right")) - below
        if not same:
            return below
        # A cut file knows the time of its last item to the second only.
        self.files[-1].end_timestamp = int(timestamps[below])
        return below + min(same, self._trailing(end))

    def _trailing(self, physical: int) -> int:
        """How many items the record at `physical` has, counted from the index's end."""
        count = 0
        for file in reversed(self.files):
            found = file.trailing(physical)
            count += found
            if found < file.count - 1:
                break
        return count

    # -- appending -------------------------------------------------------------------------------------------

    def append(self, hashes: Ints, physical: Longs, timestamps: Longs) -> int:
        """Add items in log order; returns how many were taken. Fewer than n: wait for `when_ready`, then
        offer the rest. Raises StoreFull if a file that was found sparse can't get its blocks; nothing is
        taken then.

        - hashes: int32[n], of the keys
        - physical: int64[n], log offsets
        - timestamps: int64[n], store timestamps (ms)
        """
        done = 0
        while done < len(hashes) and (file := self._open_file()) is not None:
            with _room_for(file):
                done += file.append(hashes[done:], physical[done:], timestamps[done:])
            self._look_ahead(file)
        return done

    def append_few(self, items: Sequence[Item]) -> int:
        """The same for a handful, as plain values."""
        done = 0
        while done < len(items) and (file := self._open_file()) is not None:
            with _room_for(file):
                done += file.append_few(items[done:] if done else items)
            self._look_ahead(file)
        return done

    def _open_file(self) -> IndexFile | None:
        """The file that takes the next item; None while it's being made."""
        if self.files and self.files[-1].room:
            return self.files[-1]
        if not self._next.made:
            self._next.prepare()
        return self._roll() if self._next.made else None

    def _look_ahead(self, file: IndexFile) -> None:
        if file.count >= self._items * PREPARE_AT and not self._next.made:
            self._next.prepare()

    def when_ready(self) -> Deferred[None]:
        """Fires when `append` may take items again; see NextIndexFile."""
        return self._next.when_ready()

    def files_at_once(self) -> contextlib.AbstractContextManager[None]:
        """See NextIndexFile.at_once."""
        return self._next.at_once()

    def _roll(self) -> IndexFile:
        """Give the prepared file its name and its place after the last one, which is full now."""
        path = join(self._directory, self._new_name())
        file = self._next.take(path)
        self._names_changed += 1
        new = IndexFile(file, path, self._slots, self._items, reserved=True)
        old = self.files[-1] if self.files else None
        new.preset(old.end_timestamp if old else 0, old.end_physical if old else 0)
        self.files.append(new)
        if old is not None:
            self.flush()
        return new

    def _new_name(self) -> str:
        """The time by the machine's clock, but above the last file's name."""
        last = basename(self.files[-1].path) if self.files else ""
        return file_name_at(self._clock.seconds(), self._local_time, last)

    # -- reading ---------------------------------------------------------------------------------------------

    def query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> list[int]:
        """Physical offsets of records that may have this key, newest first. Only hashes are stored: compare
        the record's own key.

        - topic: of the message
        - key: one of its keys
        - max_num: records at most
        - begin: stored not before this time (ms)
        - end: stored not after this time
        """
        steps = self.search(topic, key, max_num, begin, end)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return cast("list[int]", done.value)

    def search(
        self, topic: str, key: str, max_num: int, begin: int, end: int
    ) -> Generator[None, None, list[int]]:
        """`query` in steps of a millisecond, for whom chains of many files would keep others waiting.

        - topic, key, max_num, begin, end: see there
        """
        found: list[int] = []
        for physical in self._matches(key_hash(topic, key), begin, end):
            if physical is None:
                yield
            elif not found or found[-1] != physical:
                found.append(physical)
            if len(found) >= max_num:
                break
        return found

    def _matches(self, wanted: int, begin: int, end: int) -> Iterator[int | None]:
        for file in reversed(list(self.files)):
            yield from file.query(wanted, begin, end)
            if file.count > 1 and file.begin_timestamp < begin:
                return

    # -- flushing, expiry, end -------------------------------------------------------------------------------

    def flush(self) -> Deferred[None]:
        """Make everything appended by now durable, in the worker. What fails is tried again with the next
        flush, and checked at the next start all the same."""
        return self._elsewhere(self.datasync)

    def datasync(self) -> None:
        """As `flush`, here and now. Blocks, may run in another thread."""
        files, filled = list(self.files), []
        names = self._names_changed
        for file in files:
            if not file.room:
                filled.append((file, file.end_timestamp, file.end_physical))
            if file.dirty:
                try:
                    file.datasync()
                except BaseException:
                    file.dirty = file.doubtful = True
                    raise
        if names != self._names_synced:
            self._fs.sync_folder(self._directory)
            self._fs.sync_folder(dirname(self._directory))
            self._names_synced = names
        for file, timestamp, physical in filled:
            if file.doubtful:
                break
            self.checkpoint_timestamp = max(self.checkpoint_timestamp, timestamp)
            self.filled = max(self.filled, physical)

    def expire(self, min_physical: int) -> Deferred[None]:
        """The log now begins at `min_physical`: remove the files that only name records below it (never the
        last one), in the worker. One that can't be removed is back at the next start."""
        paths = []
        while len(self.files) > 1 and self.files[0].end_physical < min_physical:
            file = self.files.pop(0)
            file.close()
            paths.append(file.path)
        if not paths:
            return succeed(None)
        return self._elsewhere(self._remove, paths)

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._fs.remove(path)

    def _elsewhere(self, call: Callable[..., None], *args: object) -> Deferred[None]:
        """Run it in the worker. Errors are logged, not more: the index can be built from the log."""
        done = execute(call, *args) if self._worker is None else self._worker.run(call, *args)
        return cast("Deferred[None]", done).addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        if not isinstance(failure.value, OSError | ValueError | StoreError):
            failure.raiseException()
        self._log.warn("index files couldn't be flushed or removed: {error}", error=failure.value)

    def destroy(self) -> None:
        """Remove all files: there's no log."""
        self._drop_from(0)

    def close(self) -> None:
        """Close the files. One that was made ahead goes."""
        for file in self.files:
            file.close()
        self._next.discard()


@contextlib.contextmanager
def _room_for(file: IndexFile) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StoreFull(f"no room for the blocks of index file {file.path}: {error.strerror}") from error
        raise
