"""What incomplete frames and unread answers leave to each other of a process's memory.

Either alone may take all that it has a limit for, and honest clients fill either now and then: a few large
messages on their way at a time, a reader that lags. Both at once are a stranger's doing, who would have twice as
much of a server: so what one takes beyond SURE, the other lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SURE: Final = 20 << 20
"""Bytes that either has whatever the other takes: one frame of the largest size, and some."""

Beside = Callable[[], int]
"""Bytes that the other takes."""


def nothing_beside() -> int:
    """Of who shares with nobody."""
    return 0


def room(most: int, beside: int) -> int:
    """Bytes that one may take.

    - most: if it were alone
    - beside: what the other takes
    """
    return max(min(most, SURE), most - max(0, beside - SURE))
