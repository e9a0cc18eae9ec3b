"""Bytes that change at rest: a bit of one broker's log is flipped when all is well, and the slave, which compares
its log with its master's in the background, has to tell where within a round."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from hatwisted.broker.node.logaudit import ROUND_PAUSE
from hatwisted.sim.faultplan import HOSTS
from hatwisted.sim.group import Group

ROUND = 2 * ROUND_PAUSE + 10.0
"""Seconds until a flipped bit is told: the rest of a round that has passed it, and a whole one; logs are small."""


class Flip(NamedTuple):
    """name: of the machine; offset: of the byte in its log."""

    name: str
    offset: int


def flip_bit(group: Group, random: Random) -> Flip | None:
    """Change a bit of what both logs hold; None if they hold nothing in common.

    - group: linked, and equal
    - random: draws which bit, and on which side
    """
    ranges = [group.store(name).log_range() for name in HOSTS]
    begin, end = max(first for first, _ in ranges), min(last for _, last in ranges)
    if begin >= end:
        return None
    flip = Flip(random.choice(HOSTS), random.randrange(begin, end))
    at = flip.offset % group.setup.log_file_size
    path = f"/store/commitlog/{flip.offset - at:020d}"
    group.machines[flip.name].disk.flip_bit(path, 8 * at + random.randrange(8))
    group.trace.note(f"bit flipped at {flip.offset} of {flip.name}")
    return flip
