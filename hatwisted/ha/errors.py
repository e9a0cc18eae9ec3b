"""What the other side of an HA link can do wrong; our own mistakes are AssertionErrors and StoreErrors."""

from __future__ import annotations

from hatwisted.wire.haframe import HaProtocolError


class ImplausibleReport(HaProtocolError):
    """A slave reported an offset that it can't have; `str()` says why, the link is closed."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"reported offset {offset}: {reason}")


class FrameMismatch(HaProtocolError):
    """A master sent a frame that doesn't continue our log.

    - offered: the frame's offset
    - size: its body bytes; 0: a heartbeat
    - reason: what is wrong, for people
    """

    def __init__(self, offered: int, size: int, reason: str) -> None:
        super().__init__(reason)
        self.offered = offered
        self.size = size
