"""Who has a store in use: for commands that leave it alone then, or say so."""

from __future__ import annotations

import os

from hatwisted.store.disk.filesystem import lock_holder
from hatwisted.wire.storenames import LOCK_FILE


def store_holder(root: str) -> int | None:
    """Pid of the process that has the store at `root` in use, as far as the kernel says; changes nothing."""
    try:
        fd = os.open(os.path.join(root, LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return lock_holder(fd)
    finally:
        os.close(fd)
