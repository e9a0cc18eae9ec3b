"""What rows tell, with an arena that only notes what is asked of it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

from twisted.trial.unittest import SynchronousTestCase

from bench import bareping, sampling, scaling, sending
from bench.arena import Arena
from bench.figures import Outcome
from testbed.brokergroup import JAVA, OURS

RESULT: dict[str, Any] = {
    "rate": 1000.0,
    "rates": [1000.0],
    "codes": {"0": 1000},
    "p50_ms": 0.2,
    "p99_ms": 0.4,
    "max_ms": 1.0,
    "master_us": 20.0,
    "slave_us": 5.0,
}


class LatencyTests(SynchronousTestCase):
    def row(self) -> Outcome:
        duel = MagicMock()
        duel.return_value.started.return_value.__enter__.return_value.contest.return_value = {
            OURS: [RESULT],
            JAVA: [{**RESULT, "master_us": 40.0}],
        }
        with patch.object(sending, "Duel", duel), patch.object(bareping, "told", return_value=""):
            return sending.latency(Arena(Path(self.mktemp()), [OURS, JAVA]))

    def test_cpu_time_of_both_brokers_is_told_without_a_target(self) -> None:
        told = {each.label: each for each in self.row().figures if "CPU time" in each.label}
        label = "send, SYNC_MASTER, 1 in flight: CPU time of the {} for a message"
        self.assertEqual(set(told), {label.format("master"), label.format("slave")})
        master, slave = told[label.format("master")], told[label.format("slave")]
        self.assertEqual((master.ours, master.java, slave.ours), ([20.0], [40.0], [5.0]))
        self.assertEqual([(each.target, each.met) for each in told.values()], [("–", None)] * 2)

    def test_times_stay_the_row_s_first_figures(self) -> None:
        self.assertEqual([each.label.rpartition(" ")[2] for each in self.row().figures[:2]], ["p50", "p99"])


class WarmthTests(SynchronousTestCase):
    """Memory is warmed right before what is measured."""

    def setUp(self) -> None:
        self.arena = Arena(Path(self.mktemp()), [OURS], quick=True)
        self.asked: list[str] = []
        stack = ExitStack()
        self.addCleanup(stack.close)
        for name, answer in (("warm_memory", None), ("load", RESULT), ("start_load", MagicMock())):
            self.note(stack, name, answer)
        stack.enter_context(patch.object(self.arena, "finish_load", return_value=RESULT))

    def note(self, stack: ExitStack, name: str, answer: object) -> None:
        def asked(*_: object, **__: object) -> object:
            self.asked.append(name)
            return answer

        stack.enter_context(patch.object(self.arena, name, asked))

    def test_before_a_watched_load_but_not_while_it_is_watched(self) -> None:
        """The kernel would take pages back that processes have let go of: their memory would seem to shrink."""

        def watch() -> MagicMock:
            self.asked.append("watch")
            return MagicMock(failure="", samples=[{}] * 4)

        sampler = MagicMock()
        sampler.return_value.__enter__.side_effect = watch
        with patch.object(sampling, "Sampler", sampler):
            sampling._under_load(self.arena, MagicMock(master_kind=OURS), dict, [{}, {}], 1)
        self.assertEqual(self.asked, ["warm_memory", "watch", "load", "load"])

    def test_before_groups_are_loaded_together(self) -> None:
        self.assertEqual(scaling._rate_of(self.arena, MagicMock(), MagicMock()), 2000.0)
        self.assertEqual(self.asked, ["warm_memory", "start_load", "start_load"])

    def test_the_limit_of_memory(self) -> None:
        self.assertEqual(sampling.MEMORY_LIMIT, 60.0)
