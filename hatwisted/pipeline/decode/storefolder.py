"""A store's folder: which log files it has, where its log ends, and how to cut it into pieces to read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a log: physical offset of its first byte, its path and its bytes."""

    base: int
    path: str
    size: int

    @property
    def name(self) -> str:
        """As the column `file` has it."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of one log file, small enough to travel: the records that start in [begin, end) belong to it.

    begin, end: physical offsets, at any byte. aligned: a record is known to start at `begin`. limit: the log's
    end where it lies in this file, as it was when the split was made; else None. Behind a limit an unfinished
    record is no damage.
    """

    store: str
    broker: str
    path: str
    base: int
    file_size: int
    begin: int
    end: int
    aligned: bool
    limit: int | None = None
