"""Limits that are tight in some runs: reached, never exceeded, and as before afterwards."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.pull import pullhold
from hatwisted.broker.pull.pullhold import PullHold
from hatwisted.remoting import server
from hatwisted.remoting.partialframes import PartialFrames
from hatwisted.sim.deliberatebugs import planted
from hatwisted.sim.faultplan import Fault
from hatwisted.sim.history import Violation
from hatwisted.sim.outcome import Outcome
from hatwisted.sim.setup import draw_setup
from hatwisted.sim.simulation import Simulation
from hatwisted.sim.tightlimits import LIMITS, TightLimits

SILENT = (
    Fault(at=1.0, kind="slow", amount=0.03, lasts=6.0),
    Fault(at=1.0, kind="pieces", count=40, lasts=2.0),
    Fault(at=4.0, kind="pause", host="b", lasts=8.0),
    Fault(at=5.0, kind="full", host="a", lasts=6.0),
    Fault(at=12.0, kind="pause", host="a", lasts=8.0),
)
"""Frames come in pieces, the slave stands still, then the master."""


def run(**fields: object) -> Outcome:
    setup = msgspec.structs.replace(
        draw_setup(5),
        seconds=24.0,
        pause=0.05,
        sizes=(500, 3000),
        log_file_size=1 << 14,
        sync_master=True,
        sync_flush=True,
        copies=None,
        tight=True,
        faults=SILENT,
        **fields,
    )
    return Simulation(setup).run()


class TightLimitsTests(SynchronousTestCase):
    def test_a_run_reaches_most_of_them_and_holds_no_more(self) -> None:
        outcome = run(tables=True, transactions=True, delayed=0.4)
        self.assertEqual(outcome.violations, [])
        missing = {limit.name for limit in LIMITS} - set(outcome.reached)
        self.assertLessEqual(len(missing), 5, missing)

    def test_elsewhere_none_is_looked_at(self) -> None:
        self.assertEqual(Simulation(draw_setup(2, ())).run().reached, [])

    def test_what_fits_is_no_violation(self) -> None:
        violations: list[Violation] = []
        limits = TightLimits(violations)
        limits.tighten()
        try:
            frames = PartialFrames()
            frames.hold(_Connection(), 1999)
            self.assertEqual(violations, [])
            self.assertIn("bytes of incomplete frames", limits.reached)
        finally:
            limits.end()

    def test_a_limit_that_holds_nothing_down(self) -> None:
        violations: list[Violation] = []
        with planted("frames-unlimited"):
            limits = TightLimits(violations)
            limits.tighten()
            try:
                frames = PartialFrames()
                frames.hold(_Connection(), 1500)
                frames.hold(_Connection(), 1500)
                frames.hold(_Connection(), 1)
            finally:
                limits.end()
        told = [str(violation) for violation in violations]
        self.assertEqual(told[0], "limits: 3000 bytes of incomplete frames, 2000 are allowed")

    def test_they_are_as_before_afterwards(self) -> None:
        before = [getattr(*limit.grows) for limit in LIMITS], pullhold.MAX_HELD, server.READ_SIZE
        limits = TightLimits([])
        limits.tighten()
        self.assertEqual((pullhold.MAX_HELD, server.READ_SIZE), (5, 1 << 10))
        self.assertIsNot(PullHold.hold, before[0][2])
        limits.relax()
        self.assertEqual((pullhold.MAX_HELD, server.READ_SIZE), (before[1], 1 << 10))
        limits.end()
        after = [getattr(*limit.grows) for limit in LIMITS], pullhold.MAX_HELD, server.READ_SIZE
        self.assertEqual(after, before)


class _Connection:
    def reject(self, reason: str) -> None:
        self.reason = reason
