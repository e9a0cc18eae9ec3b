"""Moments of another program's work, by the files it makes: when to kill it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

LOOK_EVERY = 0.002
"""Seconds; the stages of a small batch take some ten milliseconds each."""


def wait_for_another(files: Callable[[], Iterable[Path]], seconds: float) -> None:
    """Until there is one that wasn't when this was called, or for so long if none comes: any moment will do."""
    known, until = set(files()), time.monotonic() + seconds
    while set(files()) <= known and time.monotonic() < until:
        time.sleep(LOOK_EVERY)
