"""Bits that change while faults go on: what they touch is excused, nothing else is, and they are put right."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.deliberatebugs import planted
from hatwisted.sim.faultplan import HOSTS, ROT, Fault
from hatwisted.sim.outcome import Outcome
from hatwisted.sim.setup import FAULT_KINDS, draw_setup
from hatwisted.sim.simulation import Simulation
from hatwisted.wire.storenames import INDEX_FOLDER, LOG_FOLDER, QUEUE_FOLDER

KILL = Fault(at=16.0, kind="kill", host="a", lasts=0.5)


def rot(folder: str, *, at: float = 14.0, amount: float = 0.3, bit: int = 1) -> Fault:
    return Fault(at=at, kind=ROT, host="a", other=folder, amount=amount, count=bit)


def simulation(*faults: Fault) -> Simulation:
    setup = msgspec.structs.replace(
        draw_setup(2, ()),
        seconds=20.0,
        pause=0.15,
        sync_master=True,
        sync_flush=True,
        copies=None,
        index=True,
        log_file_size=1 << 16,
        queue_file_entries=100,
        consumers=False,
        delayed=0.0,
        transactions=False,
        audited=False,
        tight=False,
        faults=faults,
    )
    return Simulation(setup)


def run(*faults: Fault) -> tuple[Outcome, Simulation]:
    made = simulation(*faults)
    return made.run(), made


class DecayTests(SynchronousTestCase):
    def test_a_start_that_a_changed_body_stops_is_tried_again_when_it_is_right(self) -> None:
        outcome, ran = run(rot(LOG_FOLDER), KILL)
        self.assertEqual(outcome.violations, [])
        self.assertEqual(outcome.refusals, [])
        self.assertEqual((outcome.struck[ROT], ran.operator.decay.refused), (1, 1))

    def test_queues_and_index_are_served_for_all_that_is_right_in_them(self) -> None:
        for folder in (QUEUE_FOLDER, INDEX_FOLDER):
            for amount in (0.001, 0.01, 0.05):
                outcome, _ = run(rot(folder, amount=amount), KILL)
                self.assertEqual(outcome.violations, [], (folder, amount))
                self.assertEqual(outcome.struck[ROT], 1)

    def test_bits_side_by_side_are_put_right(self) -> None:
        amount = 0.3
        near = [rot(LOG_FOLDER, at=14.0 + bit, amount=amount, bit=bit) for bit in range(2)]
        outcome, ran = run(*near)
        self.assertEqual(outcome.violations, [])
        self.assertEqual(ran.operator.decay.flips, [])

    def test_what_is_not_put_right_is_noticed(self) -> None:
        made = simulation(rot(LOG_FOLDER))
        self.patch(made.operator.decay, "restore", lambda names: False)
        told = made.run().violations
        self.assertTrue(told)

    def test_a_disk_without_anything_at_rest_has_nothing_to_change(self) -> None:
        outcome, _ = run(rot(LOG_FOLDER, at=0.01))
        self.assertEqual(outcome.violations, [])
        self.assertNotIn(ROT, outcome.struck)

    def test_a_recovery_that_cuts_what_was_synced_is_noticed(self) -> None:
        power = Fault(at=16.0, kind="power", host="all", lasts=0.5, amount=1.0)
        with planted("damage-cut"):
            told = run(rot(LOG_FOLDER), power)[0].violations
        self.assertEqual(told[0].partition(":")[0], "stored")

    def test_they_are_drawn_beside_the_other_faults(self) -> None:
        setups = [draw_setup(seed) for seed in range(200)]
        rotten = [setup for setup in setups if any(fault.kind == ROT for fault in setup.faults)]
        self.assertTrue(5 < len(rotten) < 50, len(rotten))
        self.assertFalse([setup for setup in rotten if setup.read or setup.audited])
        alone = [draw_setup(setup.seed, (ROT,)).faults for setup in rotten]
        self.assertEqual({fault.kind for faults in alone for fault in faults}, {ROT})
        self.assertTrue({fault.host for faults in alone for fault in faults} <= set(HOSTS))
        self.assertNotIn(ROT, FAULT_KINDS)
