"""The parts of a store folder, whichever broker wrote it: RocketMQ 4.x, 5.x or hatwisted.

The argument may be the store's root or the folder of the log files itself (brokers can be configured to keep the
two apart). No file says what sizes the store was made with, so they're taken from the files: all of one kind have
the same length. Everything is opened for reading only, so a running broker isn't disturbed.
"""

from __future__ import annotations

from os.path import abspath, basename, dirname, isdir, join

from hatwisted.cli.errors import CannotRun
from hatwisted.cli.storeholder import store_holder
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.lifecycle.filesizes import common_size, index_shape, queue_file_size
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire.layout import parse_file_name
from hatwisted.wire.storenames import INDEX_FOLDER, LOG_FOLDER, QUEUE_FOLDER


class StoreFolder:
    """Where a store's parts are. root is None for a log folder that stands alone."""

    def __init__(self, fs: IFileSystem, path: str) -> None:
        self.fs = fs
        self.path = path = abspath(path)
        if not isdir(path):
            raise CannotRun(f"{path} is not a folder")
        names = fs.listdir(path)
        if any(parse_file_name(name) is not None for name in names):
            self.log_folder = path
            self.root = dirname(path) if _is_root(dirname(path), basename(path)) else None
        elif LOG_FOLDER in names:
            self.log_folder = join(path, LOG_FOLDER)
            self.root = path
        else:
            raise CannotRun(f"{path} is not a store: it has neither a '{LOG_FOLDER}' folder nor log files")

    @property
    def queue_folder(self) -> str | None:
        """The consume queues, if there are any."""
        return self._existing(QUEUE_FOLDER)

    @property
    def index_folder(self) -> str | None:
        """The index files, if there are any."""
        return self._existing(INDEX_FOLDER)

    def _existing(self, name: str) -> str | None:
        path = join(self.root, name) if self.root else None
        return path if path and isdir(path) else None

    def required_root(self) -> str:
        """The root, for commands that need more than the log."""
        if self.root is None:
            raise CannotRun(f"{self.path} is a log folder alone; give the store's root folder instead")
        return self.root

    def open_log(self, *, read_only: bool = True) -> FileQueue:
        """The log's files, loaded. WrongFile if they aren't an unbroken sequence."""
        size = common_size(self.fs, self.log_folder)
        if not size:
            raise CannotRun(f"{self.log_folder} holds no log")
        log = FileQueue(self.fs, self.log_folder, size, read_only=read_only)
        log.load()
        return log

    def queue_file_size(self) -> int | None:
        """Bytes of a consume queue file; None without any."""
        folder = self.queue_folder
        return queue_file_size(self.fs, folder) if folder else None

    def open_queues(self) -> ConsumeQueueTable | None:
        """The consume queues, loaded and with their ends found; None without any. WrongFile as for the log."""
        folder, size = self.queue_folder, self.queue_file_size()
        if folder is None or size is None:
            return None
        table = ConsumeQueueTable(self.fs, folder, size, read_only=True)
        table.load_all()
        table.recover()
        return table

    def index_shape(self) -> tuple[int, int] | None:
        """(slots, items) of the index files, guessed from their length; None without files or a fitting
        guess."""
        folder = self.index_folder
        return index_shape(self.fs, folder) if folder else None

    def holder(self) -> int | None:
        """Pid of the process that has the store in use, as far as the kernel says; changes nothing."""
        return store_holder(self.root) if self.root else None


def _is_root(path: str, log_name: str) -> bool:
    return log_name == LOG_FOLDER or isdir(join(path, QUEUE_FOLDER))
