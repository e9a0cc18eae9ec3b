"""How the work of a function grows with its input: times that nobody can predict, compared with each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FACTOR = 8
"""The larger input beside the smaller one: what is quadratic takes 64 times as long."""

BOUND = 28
"""Between the two, far from both."""


class Unwalked(dict[Any, Any]):
    """A dict whose entries may be looked up, and not gone through."""

    def __iter__(self) -> Any:
        raise AssertionError("somebody goes through all entries")

    keys = values = items = __iter__


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Does `work(8 * size)` take about 8 times the processor time of `work(size)`? size: such that this takes a
    tenth of a millisecond at least."""
    return _seconds(work, FACTOR * size) < BOUND * _seconds(work, size)


def _seconds(work: Callable[[int], object], size: int) -> float:
    times = []
    for _ in range(3):
        began = time.thread_time()
        work(size)
        times.append(time.thread_time() - began)
    return min(times)
