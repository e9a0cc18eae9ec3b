"""What came of a run."""

from __future__ import annotations

import msgspec


class Outcome(msgspec.Struct, kw_only=True):
    """What a run was.

    - violations: in words; none if every promise was kept
    - refusals: starts that a store refused because of damage
    - emptied: slaves emptied by the operator
    - seconds: simulated; turns: calls of the clock
    - digest: of all that happened
    - answers: messages by the answer's code; "none" without one
    - struck: faults that took effect, by kind
    - reached: names of limits that were, in runs where they are tight
    """

    seed: int
    violations: list[str]
    refusals: list[str]
    emptied: int
    seconds: float
    turns: int
    digest: str
    answers: dict[str, int]
    struck: dict[str, int]
    reached: list[str]
