"""What sizes a store's files were made with, taken from the files: nothing else on disk says so."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from os.path import join
from typing import Final

from hatwisted.store.index.indexfile import HEADER, ITEM, file_length
from hatwisted.store.index.indexshape import fits, slots_by_content
from hatwisted.store.interfaces import IFileSystem
from hatwisted.wire.layout import parse_file_name

ITEMS_PER_SLOT: Final = 4
"""maxIndexNum / maxHashSlotNum of RocketMQ's defaults, and of everybody who scaled both; other ratios are found by
a file's items."""


def common_size(fs: IFileSystem, folder: str) -> int | None:
    """Bytes that most of a folder's log or queue files have: a single odd one is then the wrong one. None
    without such files."""
    names = [name for name in fs.listdir(folder) if parse_file_name(name) is not None]
    sizes = Counter(size for name in names if (size := fs.size(join(folder, name))))
    return sizes.most_common(1)[0][0] if sizes else None


def queue_file_size(fs: IFileSystem, folder: str) -> int | None:
    """Bytes of a consume queue file, by the queues under `folder`; None without any."""
    topics = (join(folder, topic) for topic in fs.listdir(folder))
    queues = (join(topic, name) for topic in topics for name in _names(fs, topic))
    return next((size for queue in queues if _names(fs, queue) and (size := common_size(fs, queue))), None)


def _names(fs: IFileSystem, path: str) -> list[str]:
    """What is in a folder; nothing in a file that lies where a folder could."""
    try:
        return fs.listdir(path)
    except NotADirectoryError:
        return []


def index_shape(fs: IFileSystem, folder: str) -> tuple[int, int] | None:
    """(slots, items) of the index files in `folder`, by where the first one's items are, or, if that doesn't tell,
    by RocketMQ's ratio; None without files, or if its length doesn't fit that."""
    names = fs.listdir(folder)
    if not names:
        return None
    path = join(folder, names[0])
    size, empty, with_one = fs.size(path), file_length(0, 0), file_length(1, ITEMS_PER_SLOT)
    slots, rest = divmod(size - empty, with_one - empty)
    usual = slots if slots > 0 and not rest else None
    if size < empty:
        return None
    with closing(fs.open(path, read_only=True)) as file:
        if HEADER.unpack(file.pread(HEADER.size, 0))[5] > 1 and (
            usual is None or not fits(file, size, usual)
        ):
            found = slots_by_content(file, size)
            usual = found[0] if len(found) == 1 else usual
    return None if usual is None else (usual, (size - file_length(usual, 0)) // ITEM.size)
