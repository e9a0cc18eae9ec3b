"""What happened, as one number: two runs of a seed have the same, to the byte."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from struct import Struct

_WHEN = Struct("<d2I")
"""Of each note: clock seconds, and the sizes of what is said and of its bytes."""

AT_ONCE = 1 << 14
"""Bytes that are kept until they are worked into the digest: most notes have a hundred."""


class Trace:
    """A digest of everything noted. seconds: the clock."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.events = 0
        self.listener: Callable[[str], None] | None = None
        """Told what is noted, without its bytes."""
        self._seconds = seconds
        self._digest = blake2b(digest_size=16)
        self._noted = bytearray()
        """What is yet to be worked in."""

    def note(self, what: str, data: bytes | bytearray | memoryview = b"") -> None:
        """Something happened, with these bytes."""
        self.events += 1
        told = what.encode()
        noted = self._noted
        noted += _WHEN.pack(self._seconds(), len(told), len(data)) + told
        noted += data
        if len(noted) > AT_ONCE:
            self._work_in()
        if self.listener is not None:
            self.listener(what)

    def digest(self) -> str:
        """Of all that was noted, in order."""
        self._work_in()
        return self._digest.hexdigest()

    def _work_in(self) -> None:
        self._digest.update(self._noted)
        self._noted.clear()
