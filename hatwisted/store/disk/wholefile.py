"""Small files that are written whole: settings, the checkpoint, marks.

Each step goes through the file system's seam, so that a disk can fail, or lose what wasn't synced, at any of
them: the new content lies synced under another name before it takes the place of the old one.
"""

from __future__ import annotations

from contextlib import closing
from os.path import dirname

from hatwisted.store.interfaces import IFileSystem

TEMPORARY = ".tmp"


def replace_file(fs: IFileSystem, path: str, data: bytes) -> None:
    """Replace a file's content, atomically and durably. Blocks. Raises OSError; the old content is then still
    there.

    - fs: the disk
    - path: of the file
    - data: its new content
    """
    temporary = path + TEMPORARY
    try:
        with closing(fs.open(temporary, create=True)) as file:
            file.extend(0)
            file.pwrite((data,), 0)
            file.datasync()
        fs.replace(temporary, path)
    except OSError:
        fs.remove(temporary)
        raise
    fs.sync_folder(dirname(path))
