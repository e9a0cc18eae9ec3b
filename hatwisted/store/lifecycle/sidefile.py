"""What is cut from a log, or overwritten in it, is kept in a file of its own, in the store's folder `repair`.

The bytes are those of the log, so their records can be read and sent again. Nothing is cut before they are on the
disk there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from os.path import dirname, join
from typing import Final

from hatwisted.logcodec.onerecord import ReadableBytes
from hatwisted.store.interfaces import IFileSystem
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


def unused_side_file(fs: IFileSystem, root: str, offset: int, end: int) -> str:
    """The same, or with a number appended: nothing overwrites what has been kept before.

    - fs: the disk
    - root, offset, end: as of `side_file`
    """
    path = side_file(root, offset, end)
    number = 1
    while fs.exists(path):
        path = f"{side_file(root, offset, end)}.{number}"
        number += 1
    return path


def keep_aside(
    fs: IFileSystem, path: str, log: ReadableBytes, span: tuple[int, int], progress: Callable[[int], None]
) -> None:
    """Copy bytes of a log to a side file, durably. Blocks; raises OSError.

    - fs: where the file is to be
    - path: its own; it has that name only once it's whole
    - log: has the bytes
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
