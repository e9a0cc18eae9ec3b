"""Two small files of a store folder: `lock`, who owns it, and `abort`, whether it was left in order.

Ownership is a record lock, so it ends with the process, however that ends; the file itself always stays. It
has to be taken by the process that serves, after a daemon has forked: a child doesn't inherit it.

`abort` is there while a broker runs; found at the next start it says that the exit was unclean. It's made
durable before anything else is written, and goes only when all the rest is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from os.path import join

from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.interfaces import IFileSystem, ILock
from hatwisted.store.log.filequeue import NO_ROOM
from hatwisted.wire.storenames import ABORT_FILE, LOCK_FILE


class StoreLock:
    """Exclusive use of the store folder `root`."""

    def __init__(self, fs: IFileSystem, root: str) -> None:
        self._fs = fs
        self._root = root
        self._lock: ILock | None = None

    @property
    def held(self) -> bool:
        """Is it ours?"""
        return self._lock is not None

    def acquire(self) -> None:
        """Take it, making the folder if need be. Raises StoreLocked, which names the holder if that's
        known."""
        if self._lock is None:
            self._fs.makedirs(self._root)
            self._lock = self._fs.lock(join(self._root, LOCK_FILE))

    def release(self) -> None:
        """Give it back; idempotent."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


class AbortFile:
    """The mark of a running, or uncleanly ended, broker in the store folder `root`.

    process_id: gives what the file says, as 5.x has it (4.x writes an empty one; both only look whether it
        exists).
    """

    def __init__(self, fs: IFileSystem, root: str, process_id: Callable[[], int]) -> None:
        """The mark of a broker that is running, or was killed.

        - fs: the disk
        - root: the store folder
        - process_id: gives the content, as 5.x has it (4.x writes an empty file; both only look whether it
          exists)
        """
        self._fs = fs
        self._root = root
        self._path = join(root, ABORT_FILE)
        self._process_id = process_id

    @property
    def exists(self) -> bool:
        """Did the last exit leave it (before `create`), or is a broker running (after it)?"""
        return self._fs.exists(self._path)

    def create(self) -> None:
        """Make it, durably. Blocks. On a full disk it's the file of the exit before, or an empty one: reads
        go on there."""
        self._fs.makedirs(self._root)
        try:
            replace_file(self._fs, self._path, str(self._process_id()).encode())
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._fs.open(self._path, create=True).close()
            self._fs.sync_folder(self._root)

    def remove(self) -> None:
        """Claim a clean exit, durably: everything else must be on disk by now. Blocks."""
        self._fs.remove(self._path)
        self._fs.sync_folder(self._root)
