"""The promises notice bugs: each is planted, and a seed that is sound without it must fail."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.deliberatebugs import BUGS, planted
from hatwisted.sim.setup import FAULT_KINDS
from hatwisted.sim.soak import catch
from hatwisted.store.log.commitlog import CommitLog

NEAR = 12
"""Seeds that are tried from the one on that once was enough: what a seed does changes with the program."""


class DeliberateBugTests(SynchronousTestCase):
    def caught(
        self, bug: str, first: int, promises: Sequence[str], kinds: Sequence[str] = FAULT_KINDS
    ) -> None:
        found = catch(bug, kinds, first, NEAR)
        assert found is not None, f"{bug} wasn't caught"
        self.assertIn(found.violation.partition(":")[0], promises)

    def test_a_slave_that_acknowledges_more_than_it_has(self) -> None:
        self.caught("ack-ahead", 20, ("whole", "stored"))

    def test_a_durable_acknowledgement_before_the_sync(self) -> None:
        self.caught("ack-before-sync", 39, ("stored", "readable"))

    def test_a_slave_that_joins_with_any_log(self) -> None:
        self.caught("join-unchecked", 21, ("equal", "stored"))

    def test_an_answer_that_hasnt_waited_for_the_slave(self) -> None:
        self.caught("slave-unawaited", 20, ("stored",))

    def test_an_answer_that_hasnt_waited_for_the_flush(self) -> None:
        self.caught("flush-unawaited", 229, ("stored", "readable"), ("die", "power"))

    def test_a_flush_that_syncs_nothing(self) -> None:
        self.caught("flush-not-done", 31, ("stored", "readable"))

    def test_a_checkpoint_that_trusts_queues_without_a_sync(self) -> None:
        self.caught("queues-unsynced", 41, ("readable", "entries"))

    def test_a_wrong_queue_offset_in_the_answer(self) -> None:
        self.caught("wrong-number", 20, ("stored",))

    def test_a_timer_left_behind(self) -> None:
        self.caught("timer-left", 29, ("leak",))

    def test_a_bug_is_gone_with_its_run(self) -> None:
        honest = CommitLog.datasync
        for bug in (*BUGS, None):
            with planted(bug):
                pass
        with planted("flush-not-done"):
            self.assertIsNot(CommitLog.datasync, honest)
        self.assertIs(CommitLog.datasync, honest)
