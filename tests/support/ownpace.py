"""Time as a process has had it: on a machine with other work a server may take a minute of everybody's time for a
second of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.error import HTTPError

T = TypeVar("T")


def scheduled(pid: int) -> tuple[int, int]:
    """ns that a process's main thread has run, and has waited for a processor."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran), int(waited)


def within(pid: int, seconds: float, attempt: Callable[[], T]) -> T:
    """What `attempt` gives once nothing stands in its way (OSError), such as a server that is busy.

    - pid: of the server
    - seconds: that it may take, without those in which it waited for a processor
    - attempt: is made again until it succeeds; then, or once the seconds are over, its error counts
    """
    began, waited = time.monotonic(), scheduled(pid)[1]
    while True:
        try:
            return attempt()
        except HTTPError:
            raise  # an answer
        except OSError:
            had = time.monotonic() - began - (scheduled(pid)[1] - waited) / 1e9
            if had > seconds:
                raise
        time.sleep(0.05)
