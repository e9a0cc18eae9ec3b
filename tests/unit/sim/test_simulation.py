"""Whole runs: seeds keep every promise, replay to the byte, and a broken promise is found."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha.haclient import HAClient
from hatwisted.sim.setup import draw_setup
from hatwisted.sim.simulation import Outcome, Simulation

LINK_AND_PROCESS = ("cut", "partition", "slow", "pieces", "storm", "kill", "stop", "pause")


def run(seed: int, kinds: tuple[str, ...] = LINK_AND_PROCESS) -> Outcome:
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

    def test_seeds_with_faults_of_network_and_processes(self) -> None:
        for seed in range(26, 32):
            outcome = run(seed)
            self.assertEqual(outcome.violations, [], f"seed {seed}")

    def test_an_acknowledgement_before_the_append_is_found(self) -> None:
        honest = HAClient._report

        def early(client: HAClient, offset: int) -> None:
            honest(client, offset + 400)

        self.patch(HAClient, "_report", early)
        self.assertTrue(any(run(seed).violations for seed in (2, 27)))
