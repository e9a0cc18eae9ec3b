"""Can this process own the store folder, and are its files of the sizes configured? Checked before twistd forks,
while the answer still reaches a terminal. (And can a name server write its settings?)

The answer isn't kept: a POSIX record lock belongs to a process and doesn't pass through a fork, so the lock
is released at once, and the store takes it for good when it loads. What takes long to find out, whether the
log is damaged, is left until then as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerConfig, NamesrvConfig
from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.lifecycle.storelock import StoreLock
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.tap.readahead import read_queues_ahead
from hatwisted.wire.storenames import QUEUE_FOLDER


def check_store(fs: IFileSystem, config: BrokerConfig) -> None:
    """Raise SettingError unless the folders of root and log can be made, read and written, the store isn't in
    use by another process, and log and queue files have the lengths configured."""
    root, log = config.store_path_root_dir, config.commit_log_path
    with _setting("storePathRootDir"):
        _check_folder(fs, root)
    with _setting("storePathCommitLog" if config.store_path_commit_log else "storePathRootDir"):
        _check_folder(fs, log)
    lock = StoreLock(fs, root, log)
    with _setting("storePathRootDir"):
        lock.acquire()
        lock.release()
    with _setting("mappedFileSizeCommitLog"):
        FileQueue(fs, log, config.mapped_file_size_commit_log, read_only=True).load()
    with _setting("mappedFileSizeConsumeQueue"):
        queues = os.path.join(root, QUEUE_FOLDER)
        table = ConsumeQueueTable(fs, queues, config.mapped_file_size_consume_queue, read_only=True)
        read_queues_ahead(os.path.join(queues, topic, str(queue_id)) for topic, queue_id in table.stored())
        table.load_all()


def check_settings_file(config: NamesrvConfig) -> None:
    """Raise SettingError unless the name server's settings can be read and written. Nothing is made."""
    path = config.kv_config_path
    with _setting("kvConfigPath"):
        if os.path.isdir(path):
            raise StoreError(f"{path} is a folder")
        if os.path.exists(path) and not os.access(path, os.R_OK):
            raise StoreError(f"{path}: no permission to read this file")
        folder = os.path.dirname(path) or "."
        while not os.path.exists(folder):
            folder = os.path.dirname(folder) or "."
        if not os.path.isdir(folder):
            raise StoreError(f"{folder} is not a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StoreError(f"{folder}: no permission to write in this folder")


def _check_folder(fs: IFileSystem, folder: str) -> None:
    fs.makedirs(folder)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StoreError(f"{folder}: no permission to read and write this folder")


@contextmanager
def _setting(key: str) -> Iterator[None]:
    """Attribute what goes wrong with files inside to the setting `key`."""
    try:
        yield
    except (StoreError, OSError) as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise SettingError(key, text) from None
