"""What a client takes from its process unless its program gives something else: its name, chance, and files.

Only drivers read it. The logic gets both through them, so that a seeded simulation replays to the byte.
"""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path
from typing import Final

RANDOMNESS: Final[random.Random] = random.SystemRandom()
"""The system's: processes that were forked from one don't draw the same."""


def process_name() -> str:
    """As "host@pid": distinguishes processes, and shows operators where to look."""
    return f"{socket.gethostname()}@{os.getpid()}"


class LocalFile:
    """The file at `path`, see WholeFile."""

    def __init__(self, path: Path) -> None:
        self._path = Path(path)

    def read(self) -> bytes | None:
        """See WholeFile."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, data: bytes) -> None:
        """See WholeFile."""
        draft = self._path.with_name(self._path.name + ".tmp")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        os.replace(draft, self._path)
