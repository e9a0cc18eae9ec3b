"""Descriptors that the process holds in reserve: a folder can be synced even if all others are taken."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""errno values that mean "no descriptor now": no byte of any file is the worse for it."""

SPARE_DESCRIPTORS = 4
"""Held ready by the process for folders that have to be synced when there is no other descriptor left."""


class SpareDescriptors:
    """Some descriptors held in reserve, so that there's one for a moment when all others are taken."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._spares: list[int] = []

    def hold(self) -> None:
        """Have them, as far as there are descriptors."""
        with self._guard, contextlib.suppress(OSError):
            while len(self._spares) < SPARE_DESCRIPTORS:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """The folder, open for as long as the context lasts. Raises OSError."""
        with self._guard:
            fd = self._open(path)
        try:
            yield fd
        finally:
            os.close(fd)
            self.hold()

    def _open(self, path: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        while True:
            try:
                return os.open(path, flags)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._spares:
                    raise
                # Somebody else may be faster: then with the next one.
                os.close(self._spares.pop())


SPARES = SpareDescriptors()
"""Process-wide, as the limit is."""
