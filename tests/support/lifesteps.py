"""Steps of a landing, and its end at one of them.

A step is a call or a return within the packages that write tables, or a call that one of their functions makes
into a library.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, NamedTuple

import hatwisted
from tests.support import landingfaults, letterfaults

PIPELINE = os.path.join(os.path.dirname(hatwisted.__file__), "pipeline", "")
ROOMS = (
    *(os.path.join(PIPELINE, *path, "") for path in (("delta",), ("iceberg",), ("jobs", "land"))),
    os.path.join(PIPELINE, "jobs", "latest", ""),
    landingfaults.__file__,
    letterfaults.__file__,
)
"""Where steps are counted."""


class End(NamedTuple):
    """Where a life ends: at this step, when it's taken for the nth time."""

    step: str
    number: int
    sign: int = signal.SIGKILL


def drawn(
    steps: dict[str, int], chance: random.Random, sign: int = signal.SIGKILL, near: str | None = None
) -> End:
    """A step of a life like one that has ended; rare ones are as likely as those that are taken often.

    - steps: how often each was taken
    - chance: what draws
    - sign: signal that ends it
    - near: half of the time a step of this fault's own code, if it has some
    """
    own = [step for step in steps if near is not None and f" {near.replace('-', '_')}" in step]
    step = chance.choice(sorted(own if own and chance.random() < 0.5 else steps))
    return End(step, chance.randint(1, steps[step]), sign)


class Steps:
    """Counts them, and ends the process at one of them.

    - end: which; None: at none
    - whose: what their names begin with
    - before: those that were taken before
    """

    def __init__(self, end: End | None, whose: str = "", before: Mapping[str, int] | None = None) -> None:
        self.counts = Counter[str](before)
        self._end = end
        self._whose = whose
        self._ours: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code not in self._ours:
            self._ours[code] = code.co_filename.startswith(ROOMS)
        if self._ours[code]:
            library = f" {argument.__name__}" if event.startswith("c_") else ""
            step = f"{self._whose}{event} {code.co_qualname}{library}"
            self.counts[step] += 1
            if self._end is not None and self._end[:2] == (step, self.counts[step]):
                os.kill(os.getpid(), self._end.sign)
