"""How far the log is synced, noted where a killed process leaves it to the next: the file `flushed`.

The note isn't synced itself. It's needed only while the kernel goes on, which shows it to the next process as it
shows all that was written; after a crash of the system it may be of any time, and nobody asks for it. Rejected:
the checkpoint, which counts after such a crash too and has to be synced each time.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from os.path import join
from typing import Final

from twisted.logger import Logger

from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.interfaces import IFile, IFileSystem
from hatwisted.wire.storenames import FLUSHED_FILE

_OFFSET: Final = struct.Struct(">q")


class FlushedMark:
    """The note of one store.

    - fs: the disk
    - root: the store folder, locked when anything is written
    """

    _log = Logger()

    def __init__(self, fs: IFileSystem, root: str) -> None:
        self._fs = fs
        self._path = join(root, FLUSHED_FILE)
        self._file: IFile | None = None

    def read(self) -> int | None:
        """Log offset up to which the run before has synced, if the system has gone on since; None: no note was
        left, or it's none. Blocks."""
        try:
            data = self._fs.read(self._path)
        except OSError:
            return None
        offset: int = _OFFSET.unpack(data)[0] if len(data) == _OFFSET.size else -1
        return offset if offset >= 0 else None

    def begin(self, offset: int) -> None:
        """Nothing after `offset` is known to be synced from now on. Blocks; to be called before any append. Raises
        OSError if another run's note can't be taken back."""
        try:
            replace_file(self._fs, self._path, _OFFSET.pack(offset))
            self._file = self._fs.open(self._path)
        except OSError as error:
            # No note is safer than one of another log.
            self._log.warn("can't write {path}: {error}", path=self._path, error=error)
            self._fs.remove(self._path)

    def note(self, offset: int) -> None:
        """All before `offset` is synced. Runs in the thread that has synced it. Where it can't be written the note
        before stands, which claims less."""
        if self._file is not None:
            with suppress(OSError):
                self._file.pwrite((_OFFSET.pack(offset),), 0)

    def close(self) -> None:
        """No more notes; idempotent."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def remove(self) -> None:
        """An orderly stop: whoever opens the store next learns nothing from here. Blocks. Raises OSError."""
        self.close()
        self._fs.remove(self._path)
