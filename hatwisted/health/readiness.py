"""What a broker knows of itself that keeps clients away from it, and what to do about each: probes have the one,
the live page has both."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

from hatwisted.health.judgement import LATE, Finding, Weight


class Kind(Enum):
    """Of a reason: the name of its finding."""

    STARTING = "starting"
    LOG = "log-stopped"
    DISPATCH = "dispatch-stalled"
    DISK = "disk-full"
    SLAVES = "puts-refused"
    LINK = "slave-problem"
    DIFFERENT = "logs-differ"
    NAMES = "not-registered"


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why clients had better go elsewhere, in one line."""

    kind: Kind
    text: str


ADVICE: Final = {
    Kind.STARTING: "wait: its log says how far it is",
    Kind.LOG: "mend what the line names, then restart the broker: it recovers what the disk holds",
    Kind.DISPATCH: "its log says which file; mend it, then restart the broker",
    Kind.DISK: "make room, or lower fileReservedTime",
    Kind.SLAVES: "start the slaves that are missing; puts are taken again once they have caught up",
    Kind.LINK: "is the master running, and can this host reach its listenPort + 1?",
    Kind.DIFFERENT: "'hatwisted log compare' shows where they differ; an emptied slave copies everything again",
    Kind.NAMES: "start the name server, or correct namesrvAddr",
}
SAME: Final = {
    Kind.LINK: {"slave-problem", "slave-not-linked", "slave-stands-still"},
    Kind.DIFFERENT: {"slave-problem", "slave-not-linked", "slave-ahead"},
    Kind.DISK: {"disk-full"},
    Kind.SLAVES: {"sync-master-alone"},
}
"""Findings of `judgement` that say the same from outside, and less."""


def of_itself(where: str, reasons: Iterable[Reason], seen: Iterable[Finding]) -> list[Finding]:
    """A broker's own reasons, and what somebody sees who asks all brokers; each thing once, problems first.

    - where: the broker, as findings name it
    - reasons: its own
    - seen: from outside
    """
    reasons = list(reasons)
    own = [
        Finding(
            weight=Weight.PROBLEM,
            name=each.kind.value,
            where=where,
            what=each.text,
            advice=ADVICE[each.kind],
        )
        for each in reasons
    ]
    said = set().union(*(SAME.get(each.kind, ()) for each in reasons))
    others = [each for each in seen if each.where != where or each.name not in said]
    return sorted([*own, *others], key=lambda each: each.weight is not Weight.PROBLEM)


def late(where: str, seconds: float) -> list[Finding]:
    """A slave that is too far behind its master in time. where: as findings name it."""
    if seconds <= LATE:
        return []
    advice = (
        "compare the rate of its link with that of puts; look at its disk, and at the network between the two"
    )
    what = f"is {seconds:,.0f} s behind its master"
    return [Finding(weight=Weight.PROBLEM, name="slave-late", where=where, what=what, advice=advice)]
