"""What is cut from a log is kept in a file of its own, under `repair` in the store's folder.

The bytes are those of the log, so their records can be read and sent again. Nothing is cut before they are on the
disk there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from os.path import dirname, join
from typing import Final

from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.wire.layout import FILE_NAME_DIGITS

SIDE_FOLDER: Final = "repair"

CHUNK: Final = 8 << 20
"""Bytes copied at once."""


def side_file(root: str, offset: int, end: int) -> str:
    """Where bytes of a log are kept once they are cut.

    - root: the store's folder
    - offset, end: the bytes [offset, end)
    """
    name = f"{offset:0{FILE_NAME_DIGITS}d}-{end:0{FILE_NAME_DIGITS}d}.bin"
    return join(root, SIDE_FOLDER, name)


def keep_aside(
    fs: IFileSystem, path: str, log: FileQueue, span: tuple[int, int], progress: Callable[[int], None]
) -> None:
    """Copy bytes of a log to a side file, durably. Blocks; raises OSError.

    - fs: where the file is to be
    - path: its own; it has that name only once it's whole
    - log: the log's files
    - span: offsets [begin, end)
    - progress: called with the offset reached
    """
    fs.makedirs(dirname(path))
    temporary = path + ".tmp"
    begin, end = span
    with contextlib.closing(fs.open(temporary, create=True)) as file:
        file.extend(0)
        at = begin
        while at < end:
            chunk = log.read(at, min(CHUNK, end - at))
            file.pwrite((chunk,), at - begin)
            at += len(chunk)
            progress(at)
        file.datasync()
    fs.replace(temporary, path)
    fs.sync_folder(dirname(path))
    fs.sync_folder(dirname(dirname(path)))
