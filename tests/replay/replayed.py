"""Targets of the fuzz as test cases: a test for each, fed with its corpus and with what chance makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from tests.fuzz.mutation import mutated
from tests.fuzz.target import Target, read_corpus
from tests.support.soak import times

SHARE = 14 if times(1) > 1 else 8
"""Times a target's `tries`: all targets together are half a minute of a process in `make test`, where several
share two cores. It is a number of inputs, the same ones on each machine, not a time."""


class Replayed(SynchronousTestCase):
    """Feeds targets."""

    def feed(self, name: str, target: Target, data: bytes) -> None:
        try:
            target.feed(data)
        except Exception:
            self.fail(f"{name}, fed with {data!r}:\n{Failure().getTraceback()}")

    def replay(self, name: str, target: Target) -> None:
        known = [*target.seeds(), *read_corpus(name)]
        for data in known:
            self.feed(name, target, data)
        random = Random(name)
        for _ in range(times(SHARE * target.tries)):
            self.feed(name, target, mutated(random, known))


def replaying(targets: Mapping[str, Target]) -> Callable[[type[Replayed]], type[Replayed]]:
    """Gives a class a test for each of these."""

    def fill(case: type[Replayed]) -> type[Replayed]:
        for name, target in targets.items():
            setattr(case, f"test_{name.replace('-', '_')}", _test(name, target))
        return case

    return fill


def _test(name: str, target: Target) -> Callable[[Replayed], None]:
    def test(self: Replayed) -> None:
        self.replay(name, target)

    return test
