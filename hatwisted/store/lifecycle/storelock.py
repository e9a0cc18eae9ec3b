"""Small files of a store: `lock`, who owns it, and `abort`, whether it was left in order.

Ownership is a record lock, so it ends with the process, however that ends; the file itself always stays. It
has to be taken by the process that serves, after a daemon has forked: a child doesn't inherit it.

`abort` is there while a broker runs; found at the next start it says that the exit was unclean. It's made
durable before anything else is written, and goes only when all the rest is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from os.path import basename, dirname, join

from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.interfaces import IFileSystem, ILock
from hatwisted.store.log.filequeue import NO_ROOM
from hatwisted.wire.storenames import ABORT_FILE, LOCK_FILE, LOG_FOLDER


def log_lock_file(folder: str) -> str:
    """The file whose lock stands for the commit log in `folder` (its real path), wherever that lies.

    Nothing but log files may lie in the folder, or RocketMQ refuses it. One with the name that it has in a store
    has that store's lock, which a RocketMQ broker takes as well; any other has one beside it.
    """
    return join(dirname(folder), LOCK_FILE) if basename(folder) == LOG_FOLDER else f"{folder}.{LOCK_FILE}"


class StoreLock:
    """Exclusive use of a store. The log has a lock of its own: two brokers with different roots and one log
    would overwrite each other's messages.

    - fs: the disk
    - root: the store folder
    - log_folder: the commit log's, which may lie elsewhere
    """

    def __init__(self, fs: IFileSystem, root: str, log_folder: str) -> None:
        self._fs = fs
        self._paths = dict.fromkeys(
            (join(fs.real_path(root), LOCK_FILE), log_lock_file(fs.real_path(log_folder)))
        )
        self._locks: list[ILock] = []

    @property
    def held(self) -> bool:
        """Is all of it ours?"""
        return bool(self._locks)

    def acquire(self) -> None:
        """Take it, making the folders if need be. Raises StoreLocked, which names the holder if that's
        known; nothing is held then."""
        if self._locks:
            return
        try:
            for path in self._paths:
                self._fs.makedirs(dirname(path))
                self._locks.append(self._fs.lock(path))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give it back; idempotent."""
        while self._locks:
            self._locks.pop().release()


class AbortFile:
    """The mark of a broker that is running, or was killed.

    - fs: the disk
    - root: the store folder
    - process_id: gives the content, as 5.x has it (4.x writes an empty file; both only look whether it
      exists)
    """

    def __init__(self, fs: IFileSystem, root: str, process_id: Callable[[], int]) -> None:
        self._fs = fs
        self._root = root
        self._path = join(root, ABORT_FILE)
        self._process_id = process_id

    @property
    def exists(self) -> bool:
        """Did the last exit leave it (before `create`), or is a broker running (after it)?"""
        return self._fs.exists(self._path)

    def create(self) -> None:
        """Make it, durably. Blocks. On a full disk it's the file that the last exit left, or an empty one: reads
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
