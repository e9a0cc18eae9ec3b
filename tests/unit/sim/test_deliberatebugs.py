"""The promises notice bugs: a few that a short run with one fault each is enough for. The others are hunted by
tests/system/test_deliberate_bugs.py."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.bughunt import Catch, Hunt
from hatwisted.sim.deliberatebugs import BUGS, planted
from hatwisted.sim.faultplan import Fault
from hatwisted.sim.setup import DRIFT, draw_setup
from hatwisted.sim.simulation import Simulation
from hatwisted.store.log.commitlog import CommitLog

TWIN = Fault(at=1.0, kind="twin", host="a")
POWER = Fault(at=3.0, kind="power", host="a", lasts=0.5, amount=0.0)


def broken(
    bug: str | None, *faults: Fault, seconds: float = 4.0, consumers: bool = False, drift: float = 0.0
) -> str:
    """The promise that is broken with that bug, "" without one."""
    setup = msgspec.structs.replace(
        draw_setup(5),
        seconds=seconds,
        pause=0.05,
        delayed=0.2,
        transactions=True,
        tables=True,
        audited=True,
        sync_master=True,
        sync_flush=True,
        copies=None,
        consumers=consumers,
        drift=drift,
        faults=faults,
    )
    with planted(bug):
        violations = Simulation(setup).run().violations
    return violations[0].partition(":")[0] if violations else ""


class DeliberateBugTests(SynchronousTestCase):
    def test_without_a_bug_nothing_is_broken(self) -> None:
        self.assertEqual(broken(None, TWIN, POWER), "")

    def test_an_answer_that_hasnt_waited_for_the_slave(self) -> None:
        self.assertEqual(broken("slave-unawaited", seconds=8.0), "stored")

    def test_a_wrong_queue_offset_in_the_answer(self) -> None:
        self.assertEqual(broken("wrong-number"), "stored")

    def test_a_flush_that_syncs_nothing(self) -> None:
        self.assertEqual(broken("flush-not-done", POWER), "stored")

    def test_a_log_that_two_brokers_write(self) -> None:
        self.assertEqual(broken("log-unlocked", TWIN), "locked")

    def test_a_delayed_message_that_comes_at_once(self) -> None:
        self.assertEqual(broken("delay-ignored"), "early")

    def test_a_delay_by_two_clocks_shows_only_where_clocks_drift(self) -> None:
        self.assertEqual(broken("clocks-mixed", seconds=30.0, drift=0.0), "")
        self.assertEqual(broken("clocks-mixed", seconds=30.0, drift=DRIFT), "early")
        self.assertEqual(broken(None, seconds=30.0, drift=DRIFT), "")

    def test_a_transaction_whose_end_is_answered_too_early(self) -> None:
        self.assertEqual(broken("end-unawaited", seconds=20.0), "stored")

    def test_a_transaction_that_nobody_asks_about(self) -> None:
        self.assertEqual(broken("never-asked"), "delivered")

    def test_a_change_of_a_table_that_slaves_lack_although_it_was_confirmed(self) -> None:
        self.assertEqual(broken("change-uncopied"), "tables")

    def test_a_changed_bit_that_the_slave_does_not_see(self) -> None:
        self.assertEqual(broken("rot-unseen"), "rot")

    def test_a_pull_that_is_answered_and_still_counts_as_held(self) -> None:
        self.assertEqual(broken("held-uncounted", consumers=True), "waits")

    def test_a_bug_is_gone_with_its_run(self) -> None:
        honest = CommitLog.datasync
        for bug in (*BUGS, None):
            with planted(bug):
                pass
        with planted("flush-not-done"):
            self.assertIsNot(CommitLog.datasync, honest)
        self.assertIs(CommitLog.datasync, honest)


class HuntTests(SynchronousTestCase):
    def test_a_row_tells_the_median_and_what_was_never_caught(self) -> None:
        caught = [Catch(seeds, 7, "stored: it isn't") for seeds in (4, 2, 9)]
        row = Hunt("ack-ahead", tuple(caught), 50).row()
        self.assertTrue(row.endswith("| all | 4 (2 to 9) | `stored` |"), row)
        row = Hunt("ack-ahead", (caught[0], None, None), 50).row()
        self.assertIn("| more than 50 (4 to 51) |", row)
        self.assertTrue(Hunt("ack-ahead", (None,), 50).row().endswith("| not caught |"))
