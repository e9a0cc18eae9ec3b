"""Whole runs: seeds keep every promise, replay to the byte, are shrunk when they fail, and bugs don't hide."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import msgspec
from twisted.internet.defer import fail
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim import groupmember
from hatwisted.sim.deliberatebugs import planted
from hatwisted.sim.faultplan import Fault
from hatwisted.sim.logwatch import LogWatch
from hatwisted.sim.messageload import TIMEOUT
from hatwisted.sim.outcome import Outcome
from hatwisted.sim.setup import ADDRESSES, FAULT_KINDS, draw_setup
from hatwisted.sim.shrink import shrink
from hatwisted.sim.simulation import WARM_UP, Simulation
from tests.support.soak import times

SEEDS = range(times(3))

POWER = Fault(at=2.0, kind="power", host="a", lasts=0.5)


def run(seed: int, kinds: Sequence[str] = FAULT_KINDS) -> Outcome:
    return Simulation(draw_setup(seed, kinds)).run()


class SimulationTests(SynchronousTestCase):
    def test_a_group_without_faults_takes_every_message_and_stops_clean(self) -> None:
        outcome = run(2, ())
        self.assertEqual(outcome.violations, [])
        self.assertEqual(list(outcome.answers), ["0"])

    def test_a_seed_replays_to_the_byte(self) -> None:
        first = run(22)
        self.assertTrue(first.struck)
        self.assertEqual(run(22), first)
        self.assertNotEqual(run(23).digest, first.digest)

    def test_seeds_keep_every_promise(self) -> None:
        for seed in SEEDS:
            outcome = run(seed)
            self.assertEqual(outcome.violations, [], f"seed {seed}: python -m hatwisted.sim --first {seed}")

    def test_groups_are_given_every_message_and_their_retries(self) -> None:
        simulation = Simulation(draw_setup(2, ("kill", "pause", "stop")))
        outcome = simulation.run()
        self.assertEqual(outcome.violations, [])
        for group in simulation.group.consumptions.values():
            self.assertGreater(group.deliveries, outcome.answers["0"])

    def test_a_message_that_an_ordered_group_fails_on_at_the_end_is_waited_for(self) -> None:
        self.patch(groupmember, "FAILS_IN_ORDER", 0.5)
        for seed in (5, 6, 7):
            setup = msgspec.structs.replace(
                draw_setup(seed, ()), seconds=1.0, pause=0.3, consumers=True, faults=()
            )
            self.assertEqual(Simulation(setup).run().violations, [])

    def test_members_of_a_run_that_broke_are_not_heard_in_the_next(self) -> None:
        """Their coroutines are closed whenever the collector comes to them."""
        setup = msgspec.structs.replace(draw_setup(2, ()), sync_master=True, consumers=True)
        simulation = Simulation(setup)
        with planted("slave-unawaited"):
            self.assertTrue(simulation.run().violations)
        member = simulation.group.machines["billing-1"]
        self.assertTrue(member.running)
        watch = LogWatch()
        with watch.watching():
            member.service._cluster.driver.log.exception("late", ValueError("late"))
            member.service._not_started(Failure(ValueError("late")))
            with mock.patch.object(member.service._cluster, "close", lambda: fail(ValueError("late"))):
                self.successResultOf(member.service.stopService())
        self.assertEqual(watch.violations, [])


class HealthyTests(SynchronousTestCase):
    """The message that a group must take in the end."""

    def resting(self, *faults: Fault, deaf: bool = False) -> Outcome:
        """A run whose producers rest from shortly before the faults on.

        - faults: of the run
        - deaf: does nothing get from them to the master at the end?
        """
        drawn = draw_setup(2, ())
        setup = msgspec.structs.replace(drawn, sync_flush=True, seconds=3.0, pause=0.1, faults=faults)
        simulation = Simulation(setup)
        group, load = simulation.group, simulation._load
        begun = group.clock.seconds() + WARM_UP

        def looked() -> None:
            if load.running and group.clock.seconds() > begun + 1.0:
                load.stop()
            if deaf and group.clock.seconds() > begun + setup.seconds + TIMEOUT:
                path = ADDRESSES["clients"], ADDRESSES["a"]
                self.patch(group.network, "held", lambda source, target: (source, target) == path)

        simulation.looked = looked
        return simulation.run()

    def test_a_connection_that_went_with_the_masters_power_is_no_fault_of_the_group(self) -> None:
        outcome = self.resting(POWER)
        self.assertEqual(outcome.struck, {"power": 1})
        self.assertEqual(outcome.violations, [])

    def test_a_group_that_takes_nothing_is_told_all_the_same(self) -> None:
        told = ["whole: a send to a group that is well is answered None"]
        self.assertEqual(self.resting(deaf=True).violations, told)
        self.assertEqual(self.resting(POWER, deaf=True).violations, told)


class ShrinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.setup = next(setup for setup in map(draw_setup, range(100)) if len(setup.faults) == 20)

    def shrunk(self, needed: set[int]) -> list[int]:
        """Positions of the faults that are left when the run fails with all of `needed`."""
        wanted = {self.setup.faults[number] for number in needed}
        fewest = shrink(self.setup, lambda setup: wanted <= set(setup.faults))
        return [self.setup.faults.index(fault) for fault in fewest.faults]

    def test_what_is_needed_is_left(self) -> None:
        for needed in ({3}, {0, 19}, {4, 5, 11}, set()):
            self.assertEqual(self.shrunk(needed), sorted(needed))

    def test_nothing_else_of_the_run_changes(self) -> None:
        fewest = shrink(self.setup, lambda setup: True)
        self.assertEqual(msgspec.structs.replace(fewest, faults=self.setup.faults), self.setup)

    def test_it_ends_after_so_many_tries(self) -> None:
        tried: list[int] = []

        def fails(setup: object) -> bool:
            tried.append(1)
            return False

        shrink(self.setup, fails, tries=5)
        self.assertEqual(len(tried), 5)
