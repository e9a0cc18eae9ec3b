"""The fewest faults that still break the promise: delta debugging over a setup's list of faults.

Zeller's ddmin: leave out ever smaller parts, keep what still fails. As every fault mends itself and every
purpose draws from a random source of its own, each part of a plan is a plan; the same violation, by its
promise's name, must come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hatwisted.sim.faultplan import Fault
from hatwisted.sim.setup import Setup

TRIES = 200
"""Runs at most."""


def shrink(setup: Setup, fails: Callable[[Setup], bool], tries: int = TRIES) -> Setup:
    """A setup with as few of the faults as are needed to fail.

    - setup: one that fails
    - fails: does this one?
    - tries: most calls of `fails`
    """

    def still(faults: Sequence[Fault]) -> bool:
        nonlocal tries
        tries -= 1
        return tries >= 0 and fails(msgspec.structs.replace(setup, faults=tuple(faults)))

    kept = list(setup.faults)
    parts = 2
    while len(kept) >= 2:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            if still(fewer):
                kept, parts = fewer, max(parts - 1, 2)
                break
        else:
            if size == 1 or tries <= 0:
                break
            parts = min(2 * parts, len(kept))
    if len(kept) == 1 and still([]):
        kept = []
    return msgspec.structs.replace(setup, faults=tuple(kept))
