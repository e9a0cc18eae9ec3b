"""Steps of a landing, and its end at one of them.

A step is a call or a return within the packages that write tables, or a call that one of their functions makes
into a library. Its name says which moment of the landing it belongs to, too: "commit: call append".
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
from hatwisted.pipeline.delta import commits
from hatwisted.pipeline.delta.landedfiles import commit_next
from hatwisted.pipeline.iceberg import snapshots
from hatwisted.pipeline.jobs.land.deltalanding import DeltaLanding
from hatwisted.pipeline.jobs.land.icebergbatches import IcebergLanding
from hatwisted.pipeline.jobs.land.locallanding import LocalLanding
from hatwisted.pipeline.jobs.land.taskedlanding import TaskedLanding
from tests.support import landingfaults, letterfaults
from tests.support.deck import Deck

PIPELINE = os.path.join(os.path.dirname(hatwisted.__file__), "pipeline", "")
ROOMS = (
    *(os.path.join(PIPELINE, *path, "") for path in (("delta",), ("iceberg",), ("jobs", "land"))),
    os.path.join(PIPELINE, "jobs", "latest", ""),
    landingfaults.__file__,
    letterfaults.__file__,
)
"""Where steps are counted."""
BEGIN, CLAIM, WRITE, COMMIT, UPKEEP = MOMENTS = ("begin", "claim", "write", "commit", "upkeep")
"""Of a landing: each goes on until the next one's first call."""
_FIRST = {
    commits.claim.__code__: CLAIM,
    snapshots.claim.__code__: CLAIM,
    LocalLanding._land_batch.__code__: WRITE,
    TaskedLanding._land_batch.__code__: WRITE,
    commit_next.__code__: COMMIT,
    IcebergLanding.commit.__code__: COMMIT,
    DeltaLanding.upkeep.__code__: UPKEEP,
    IcebergLanding.upkeep.__code__: UPKEEP,
}


class End(NamedTuple):
    """Where a life ends: at this step, when it's taken for the nth time."""

    step: str
    number: int
    sign: int = signal.SIGKILL


def drawn(steps: Mapping[str, int], chance: random.Random, sign: int = signal.SIGKILL) -> End:
    """A step of a life like one that has ended; rare ones are as likely as those that are taken often.

    - steps: how often each was taken
    - chance: what draws
    - sign: signal that ends it
    """
    step = chance.choice(sorted(steps))
    return End(step, chance.randint(1, steps[step]), sign)


class DealtEnds:
    """Ends of lives, which come at each moment of a landing in turn, and half of the time where a planted fault
    calls `between`, if it does. chance: what draws."""

    def __init__(self, chance: random.Random) -> None:
        self._moments, self._halfway = Deck(MOMENTS, chance), Deck((True, False), chance)
        self._chance = chance

    def deal(self, steps: Mapping[str, int], sign: int = signal.SIGKILL) -> End:
        """As `drawn`."""
        halfway = [step for step in steps if step.split()[-1] == landingfaults.between.__name__]
        if not halfway or not self._halfway.deal():
            moment = self._moments.deal()
            halfway = [step for step in steps if step.partition(":")[0] == moment]
        return drawn({step: steps[step] for step in halfway or steps}, self._chance, sign)


class Steps:
    """Counts them, and ends the process at one of them.

    - end: which; None: at none
    - whose: what their names begin with after the moment, if they are a worker's
    - before: those that were taken before
    """

    def __init__(self, end: End | None, whose: str = "", before: Mapping[str, int] | None = None) -> None:
        self.counts = Counter[str](before)
        self._end = end
        self._whose = whose
        self._moment = WRITE if whose else BEGIN
        self._others: dict[int, CodeType] = {}
        """Code of other packages, by its id: a code's hash is that of all it has. Most of what a life does comes
        here, and took longer than the landing."""

    def take(self, frame: FrameType, event: str, argument: Any) -> None:
        """What `sys.setprofile` is given."""
        if id(frame.f_code) not in self._others:
            self._look(frame.f_code, event, argument)

    def _look(self, code: CodeType, event: str, argument: Any) -> None:
        if not code.co_filename.startswith(ROOMS):
            self._others[id(code)] = code
        else:
            if event == "call":
                self._moment = _FIRST.get(code, self._moment)
            library = f" {argument.__name__}" if event.startswith("c_") else ""
            step = f"{self._moment}: {self._whose}{event} {code.co_qualname}{library}"
            self.counts[step] += 1
            if self._end is not None and self._end[:2] == (step, self.counts[step]):
                os.kill(os.getpid(), self._end.sign)
