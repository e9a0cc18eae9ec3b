"""Log bytes as the frames of a dialect, none across a log file's end: the slave's files end there as well."""

from __future__ import annotations

from collections.abc import Sequence

from hatwisted.ha.interfaces import IHaDialect
from hatwisted.store.interfaces import Buffer


class Framing:
    """How a master sends its log.

    - dialect: what a frame looks like
    - file_size: bytes of a log file
    - batch_size: body bytes of a frame at most
    """

    def __init__(self, dialect: IHaDialect, file_size: int, batch_size: int) -> None:
        self._dialect = dialect
        self._file_size = file_size
        self._batch_size = batch_size

    def heads(self, start: int, size: int, most: int) -> Sequence[tuple[bytes, int]]:
        """Frames of log bytes that aren't at hand: what comes before each body, and the body's size.

        - start: their offset
        - size: how many, all of one file
        - most: body bytes of a frame, where fewer than a batch
        """
        return self._dialect.encode_heads(start, size, min(most, self._batch_size))

    def frame(self, start: int, body: Buffer) -> bytes:
        """Log bytes from `start` on."""
        parts: list[Buffer] = []
        room = self._file_size - start % self._file_size
        if len(body) <= room:
            parts.extend(self._dialect.encode_frames(start, body, self._batch_size))
            return b"".join(parts)
        view = memoryview(body)
        while view:
            piece = view[:room]
            parts.extend(self._dialect.encode_frames(start, piece, self._batch_size))
            start += len(piece)
            view = view[len(piece) :]
            room = self._file_size
        return b"".join(parts)
