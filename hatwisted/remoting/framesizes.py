"""How large the frames of a connection's requests were: for rates of bytes, where there are any.

A request doesn't know it. Its header is decoded by quick ways that keep nothing of it, and what they leave out
(spaces, unknown fields) has been sent, too. So the lengths that the frames begin with are read once more, only at
servers with such a rate, and kept beside the requests until these have been worked on.

Rejected: a field in each command (the compiled twins would write it for every message of every server), adding up
a request's texts (250 KiB of spaces would cost nothing).
"""

from __future__ import annotations

from collections.abc import Iterable

from hatwisted.wire.remoting import RemotingCommand

_LENGTH_SIZE = 4


class FrameSizes:
    """Of one connection."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        """By the requests' ids, which are theirs as long as they wait."""
        self._head = b""
        """The first bytes of a length."""
        self._size = self._left = 0
        """Of the frame that has begun: bytes of all of it, and of what is still to come."""

    def note(self, data: bytes, requests: Iterable[RemotingCommand]) -> None:
        """Keep the sizes of these, whose frames end in a read's bytes."""
        self._of.update(zip(map(id, requests), self._ended(data), strict=True))

    def size(self, request: RemotingCommand) -> int:
        """Bytes of one's frame."""
        return self._of[id(request)]

    def forget(self) -> None:
        """All of them have been worked on."""
        self._of.clear()

    def _ended(self, data: bytes) -> list[int]:
        """The sizes of the frames that end in it."""
        data = self._head + data
        ended, position = [], 0
        while len(data) - position >= (self._left or _LENGTH_SIZE):
            if not self._left:
                length = int.from_bytes(data[position : position + _LENGTH_SIZE], "big")
                self._size = self._left = _LENGTH_SIZE + length
                continue
            ended.append(self._size)
            position += self._left
            self._left = 0
        if self._left:  # numbers are kept of it: it may be large
            self._head = b""
            self._left -= len(data) - position
        else:
            self._head = data[position:]
        return ended
