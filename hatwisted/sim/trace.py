"""What happened, as one number: two runs of a seed have the same, to the byte."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b


class Trace:
    """A digest of everything noted. seconds: the clock."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.events = 0
        self.listener: Callable[[str], None] | None = None
        """Told what is noted, without its bytes."""
        self._seconds = seconds
        self._digest = blake2b(digest_size=16)

    def note(self, what: str, data: bytes | bytearray | memoryview = b"") -> None:
        """Something happened, with these bytes."""
        self.events += 1
        self._digest.update(f"{self._seconds():.9f} {what} {len(data)};".encode())
        self._digest.update(data)
        if self.listener is not None:
            self.listener(what)

    def digest(self) -> str:
        """Of all that was noted, in order."""
        return self._digest.hexdigest()
