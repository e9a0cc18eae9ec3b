"""Rotten bytes of a log overwritten by intact ones, while the log is in use.

Nobody else writes there: the log only grows at its end. What was there is on the disk in a side file before the
first byte changes; a crash half-way leaves a record as rotten as it was, to be repaired again. Queue entries name
places, which stay.
"""

from __future__ import annotations

import contextlib

from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.lifecycle.sidefile import keep_aside, unused_side_file
from hatwisted.store.log.logranges import OpenedLog


def replace_range(fs: IFileSystem, root: str, log: OpenedLog, begin: int, intact: bytes) -> str:
    """Overwrite bytes within one file of a log, durably; the side file that has the old ones. Blocks; raises
    OutsideLog or OSError.

    - fs: the disk
    - root: the store's folder
    - log: its log
    - begin: offset of the first byte
    - intact: the new bytes
    """
    end = begin + len(intact)
    kept = unused_side_file(fs, root, begin, end)
    keep_aside(fs, kept, log, (begin, end), lambda offset: None)
    with contextlib.closing(fs.open(log.path_of(begin))) as file:
        file.pwrite((intact,), begin % log.file_size)
        file.datasync()
    return kept
