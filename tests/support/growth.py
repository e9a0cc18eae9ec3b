"""How much a function does: times, which nobody can predict, compared with each other, and calls counted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from types import FrameType
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


def calls_of_steps(work: Generator[object, None, object]) -> list[int]:
    """Calls, of Python functions and of C ones, in each step of `work`: the same on every machine."""
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    steps = []
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in work:
            steps.append(counted)
            counted = 0
    finally:
        sys.setprofile(before)
    return [*steps, counted]
