"""Can this process own the store folder? Asked before twistd forks, while a terminal still hears the answer.

The answer isn't kept: a POSIX record lock belongs to a process and doesn't pass through a fork, so the lock
is given back at once and the store takes it for good when it loads.
"""

from __future__ import annotations

import os

from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IFileSystem

LOCK_FILE = "lock"


def check_store(fs: IFileSystem, *folders: str) -> None:
    """Raise StoreError or OSError unless every folder can be made, read and written, and the first isn't in
    use by another process (StoreLocked)."""
    for folder in folders:
        fs.makedirs(folder)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise StoreError(f"{folder}: no permission to read and write this folder")
    fs.lock(os.path.join(folders[0], LOCK_FILE)).release()
