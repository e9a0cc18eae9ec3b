"""Building folders elsewhere and renaming them into place, so that they are never visible half-built.

What is built lies in a folder inside the target, which may be a mount of its own, until it is complete and on
disk. Then its folders are renamed one by one, and what they replace is removed once all are in place. A
target that doesn't exist is built next to its place and takes one rename. An interrupted run leaves its build
folder, which the next one removes; one that is killed between the renames leaves a folder that is put back first.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from os.path import abspath, dirname, exists, isdir, join
from typing import Final

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.ownplace import other_than
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.errors import StoreLocked
from hatwisted.wire.storenames import (
    ABORT_FILE,
    CHECKPOINT_FILE,
    CONFIG_FOLDER,
    INDEX_FOLDER,
    LOCK_FILE,
    LOG_FOLDER,
    QUEUE_FOLDER,
)

BUILT: Final = "new"
BUILDING: Final = ".reindex"
"""Suffix of the build folder."""
STORE_NAMES: Final = (
    *(LOG_FOLDER, QUEUE_FOLDER, INDEX_FOLDER, CONFIG_FOLDER, CHECKPOINT_FILE, ABORT_FILE, LOCK_FILE),
    *(BUILT + BUILDING, QUEUE_FOLDER + ".replaced"),
)
"""Any of them makes a folder a store's, or one that was begun here."""
OLD: Final = ".replaced"
"""Suffix of what has been replaced, for the moment until it's removed."""


def check_new(target: str, names: Sequence[str]) -> None:
    """Raise PipelineError if the folder `target` has one of these, or is something else than a store."""
    other = other_than(target, (), STORE_NAMES)
    if other is not None:
        raise PipelineError(f"{target}: has {other}, and isn't a store; give a new folder, or a store's")
    there = [name for name in names if exists(join(target, name))]
    if there:
        raise PipelineError(f"{join(target, there[0])} exists; give another folder, or ask to replace it")


def take_back(target: str, names: Sequence[str]) -> None:
    """Undo what a rebuild had begun that was killed between two renames: what it put aside has no successor yet,
    and says of queues whose records have expired which offset comes next.

    - target: where the folders are
    - names: of the folders
    """
    for name in names:
        path = join(target, name)
        if isdir(path + OLD) and not exists(path):
            os.rename(path + OLD, path)


class NewFolders:
    """Folders to be built; `path` is where to build them. Raises PipelineError if the target has some that
    mustn't be replaced.

    - target: where they go
    - names: of the folders
    - replace: the target may have them already
    """

    def __init__(self, target: str, names: Sequence[str], *, replace: bool) -> None:
        self._target = abspath(target)
        self._names = tuple(names)
        take_back(self._target, names)
        if not replace:
            check_new(self._target, names)
        self.path = join(self._target, BUILT + BUILDING) if isdir(self._target) else self._target + BUILDING
        shutil.rmtree(self.path, ignore_errors=True)
        try:
            PosixFileSystem().makedirs(self.path)
        except OSError as error:
            raise PipelineError(f"{self.path} can't be made: {error.strerror}") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the target against other users; if it is a store, no broker can start on it meanwhile."""
        if not isdir(self._target):
            yield
            return
        try:
            lock = PosixFileSystem().lock(join(self._target, LOCK_FILE))
        except StoreLocked as error:
            raise PipelineError(f"{error}; or build into another folder") from error
        try:
            yield
        finally:
            lock.release()

    def put_in_place(self, *, lock: bool) -> None:
        """Everything is built: rename it. lock: the target is a store that a broker might have in use."""
        fs = PosixFileSystem()
        fs.sync_all(self.path)
        with self.held() if lock else nullcontext():
            if not isdir(self._target):
                os.rename(self.path, self._target)
            else:
                self._swap()
        fs.sync_folder(dirname(self._target))

    def _swap(self) -> None:
        for name in self._names:
            path = join(self._target, name)
            shutil.rmtree(path + OLD, ignore_errors=True)
            if exists(path):
                os.rename(path, path + OLD)
            if exists(join(self.path, name)):
                os.rename(join(self.path, name), path)
        PosixFileSystem().sync_folder(self._target)
        for name in self._names:
            shutil.rmtree(join(self._target, name + OLD), ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def discard(self) -> None:
        """Remove what has been built so far."""
        shutil.rmtree(self.path, ignore_errors=True)
