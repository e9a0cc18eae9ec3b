"""Records that are encoded and not yet written."""

from __future__ import annotations

from typing import Any, Final

UNLIMITED: Final = 1 << 62
"""More bytes than any put has."""


class AppendRun:
    """Records encoded but not yet written; all in one file.

    - start: physical offset of the first
    - room_end: no record may end behind this one
    """

    __slots__ = ("at", "parts", "puts", "room_end", "start")

    def __init__(self, start: int, room_end: int) -> None:
        self.start = start
        self.at = start
        """Where the next record goes."""
        self.room_end = room_end
        self.parts: list[bytes] = []
        self.puts: list[Any] = []
