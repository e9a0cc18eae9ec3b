"""The faults of a run as a list of values: drawn from a seed, written as JSON, and left out one by one when
shrunk.

Every fault stands for itself: what it breaks it mends after `lasts` seconds, so that any subset of a plan is a
plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from hatwisted.wire.storenames import INDEX_FOLDER, LOG_FOLDER, QUEUE_FOLDER

HOSTS = ("a", "b")
"""Machines of the two brokers. Which of them is master changes."""

PEERS = (("a", "b"), ("a", "clients"), ("b", "clients"), ("a", "names"), ("b", "names"), ("names", "clients"))


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault.

    - at: seconds from the run's start
    - kind: a key of KINDS
    - host, other: names of machines
    - lasts: seconds until it's mended; for processes and power: until it's started again
    - amount: its size, in the kind's own unit
    - count: operations that go well before it strikes
    """

    at: float
    kind: str
    host: str = ""
    other: str = ""
    lasts: float = 0.0
    amount: float = 0.0
    count: int = 0

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def _lasts(random: Random) -> float:
    return random.choice((0.05, 0.5, 3.0, 8.0, 25.0)) * random.uniform(0.5, 1.5)


def _cut(random: Random, at: float) -> Fault:
    one, other = random.choice(PEERS)
    if random.random() < 0.5:
        one, other = other, one
    return Fault(at=at, kind="cut", host=one, other=other, lasts=_lasts(random))


def _partition(random: Random, at: float) -> Fault:
    one, other = random.choice(PEERS)
    return Fault(at=at, kind="partition", host=one, other=other, lasts=_lasts(random))


def _stall(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="stall", host=random.choice(HOSTS), lasts=_lasts(random))


def _slow(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="slow", amount=random.choice((0.03, 0.3, 1.5)), lasts=_lasts(random))


def _pieces(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="pieces", count=random.choice((40, 700, 3000)), lasts=_lasts(random) / 8)


def _storm(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="storm", amount=random.choice((0.05, 0.4)), lasts=min(6.0, _lasts(random)))


def _kill(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="kill", host=random.choice(HOSTS), lasts=_lasts(random))


def _conf(random: Random, at: float) -> Fault:
    return Fault(
        at=at, kind="conf", host=random.choice(HOSTS), lasts=_lasts(random), count=random.randrange(8)
    )


def _stop(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="stop", host=random.choice(HOSTS), lasts=_lasts(random))


def _die(random: Random, at: float) -> Fault:
    count = int(random.choice((2, 12, 60)) * random.random())
    return Fault(
        at=at,
        kind="die",
        host=random.choice(HOSTS),
        lasts=_lasts(random),
        count=count,
        amount=random.random(),
    )


def _power(random: Random, at: float) -> Fault:
    return Fault(
        at=at, kind="power", host=random.choice((*HOSTS, "all")), lasts=_lasts(random), amount=random.random()
    )


def _pause(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="pause", host=random.choice(HOSTS), lasts=_lasts(random))


def _promote(random: Random, at: float) -> Fault:
    return Fault(
        at=at, kind="promote", lasts=_lasts(random), amount=random.random(), count=random.randrange(3)
    )


def _full(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="full", host=random.choice(HOSTS), lasts=_lasts(random))


def _descriptors(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="descriptors", host=random.choice(HOSTS), lasts=_lasts(random) / 4)


def _io_error(random: Random, at: float) -> Fault:
    operation = random.choice(("pwrite", "datasync", "reserve", "sync_folder", "replace", "extend"))
    return Fault(
        at=at,
        kind="io",
        host=random.choice(HOSTS),
        other=operation,
        count=random.randrange(20),
        amount=random.random(),
    )


def _slow_disk(random: Random, at: float) -> Fault:
    amount = random.choice((0.05, 0.5, 3.0))
    return Fault(at=at, kind="slowdisk", host=random.choice(HOSTS), amount=amount, lasts=_lasts(random))


def _write_back(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="writeback", host=random.choice(HOSTS), amount=random.random())


def _leap(random: Random, at: float) -> Fault:
    amount = random.choice((2.0, 5 * 3600.0, 100 * 24 * 3600.0 + 4 * 3600.0))
    return Fault(at=at, kind="leap", host=random.choice(HOSTS), amount=amount, lasts=_lasts(random))


def _failing(random: Random, at: float) -> Fault:
    return Fault(
        at=at,
        kind="failing",
        host=random.choice(HOSTS),
        other=random.choice(("pwrite", "datasync")),
        lasts=random.uniform(0.2, 3.0),
        amount=random.uniform(0.5, 1.0),
    )


def _flicker(random: Random, at: float) -> Fault:
    return Fault(
        at=at,
        kind="flicker",
        host=random.choice(HOSTS),
        lasts=random.choice((1.0, 4.0, 6.0)),
        amount=random.choice((1.0, random.random())),
        count=random.choice((2, 4)),
    )


def _twin(random: Random, at: float) -> Fault:
    return Fault(at=at, kind="twin", host=random.choice(HOSTS))


KINDS: dict[str, Callable[[Random, float], Fault]] = {
    "cut": _cut,
    "partition": _partition,
    "stall": _stall,
    "slow": _slow,
    "pieces": _pieces,
    "storm": _storm,
    "kill": _kill,
    "stop": _stop,
    "conf": _conf,
    "die": _die,
    "power": _power,
    "pause": _pause,
    "promote": _promote,
    "full": _full,
    "descriptors": _descriptors,
    "io": _io_error,
    "slowdisk": _slow_disk,
    "writeback": _write_back,
    "leap": _leap,
    "failing": _failing,
    "flicker": _flicker,
    "twin": _twin,
}
"""How a fault of each kind is drawn."""

ROT = "rot"
"""The kind of fault that is drawn by itself: a bit changes at rest."""


def draw_plan(random: Random, seconds: float, kinds: Sequence[str], count: int) -> list[Fault]:
    """Faults in order of time. Some come in bursts.

    - random: draws them
    - seconds: within so many
    - kinds: that may happen
    - count: how many
    """
    faults: list[Fault] = []
    at = 0.0
    for _ in range(count):
        at = at + random.random() * 0.2 if faults and random.random() < 0.25 else random.random() * seconds
        faults.append(KINDS[random.choice(kinds)](random, round(at, 3)))
    return sorted(faults, key=lambda fault: fault.at)


def draw_rot(random: Random, seconds: float) -> list[Fault]:
    """Bits that change at rest.

    - random: draws them
    - seconds: within so many
    """
    return [
        Fault(
            at=round(random.uniform(0.2, 1.0) * seconds, 3),
            kind=ROT,
            host=random.choice(HOSTS),
            other=random.choice((LOG_FOLDER, LOG_FOLDER, QUEUE_FOLDER, QUEUE_FOLDER, INDEX_FOLDER)),
            amount=random.random(),
            count=random.randrange(8),
        )
        for _ in range(random.choice((1, 2, 4)))
    ]


def draw_member_faults(
    random: Random, seconds: float, kinds: Sequence[str], members: Sequence[str]
) -> list[Fault]:
    """What happens to processes of consumer groups.

    - random: draws it
    - seconds: within so many
    - kinds: that may happen
    - members: names of their machines
    """
    possible = [kind for kind in ("kill", "pause", "stop") if kind in kinds]
    count = random.choice((0, 2, 5)) if possible else 0
    return [
        Fault(
            at=round(random.random() * seconds, 3),
            kind=random.choice(possible),
            host=random.choice(members),
            lasts=_lasts(random),
        )
        for _ in range(count)
    ]
