"""Every decoder with its corpus and with what chance makes of it; `make fuzz` looks further."""

from __future__ import annotations

from random import Random

from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from tests.fuzz.mutation import mutated
from tests.fuzz.target import Target, read_corpus
from tests.fuzz.targets import TARGETS
from tests.support.soak import times


class TargetTests(SynchronousTestCase):
    def feed(self, name: str, target: Target, data: bytes) -> None:
        try:
            target.feed(data)
        except Exception:
            self.fail(f"{name}, fed with {data!r}:\n{Failure().getTraceback()}")

    def test_nothing_but_its_own_error_leaves_a_decoder(self) -> None:
        for name, target in TARGETS.items():
            known = [*target.seeds(), *read_corpus(name)]
            for data in known:
                self.feed(name, target, data)
            random = Random(name)
            for _ in range(times(target.tries)):
                self.feed(name, target, mutated(random, known))
