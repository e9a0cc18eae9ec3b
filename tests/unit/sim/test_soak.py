"""Many seeds: what is added up of them, how one that fails is repeated and told, and the command's own words.

Most runs here are made up (`Runs`): which setup breaks a promise is the test's word.
"""

from __future__ import annotations

import gc
import io
import itertools
import json
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import msgspec
from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim import soak
from hatwisted.sim.__main__ import main
from hatwisted.sim.deferredwatch import DeferredWatch
from hatwisted.sim.faultplan import Fault
from hatwisted.sim.outcome import Outcome
from hatwisted.sim.setup import FAULT_KINDS, Setup
from hatwisted.sim.soak import Job, Report, Totals, run_job, run_seeds, told

KILL = Fault(at=1.0, kind="kill", host="a")
CUT = Fault(at=2.0, kind="cut", host="a", other="b")
STOP = Fault(at=3.0, kind="stop", host="b")


def outcome(seed: int = 7, *violations: str, **more: object) -> Outcome:
    usual = {
        "refusals": [],
        "emptied": 0,
        "seconds": 20.0,
        "turns": 1,
        "digest": "d",
        "answers": {"0": 3},
        "struck": {"kill": 1},
        "reached": [],
    }
    return Outcome(seed=seed, violations=list(violations), **(usual | more))


def report(found: Outcome, **more: object) -> Report:
    return Report(job=Job(seed=found.seed, kinds=FAULT_KINDS), outcome=found, cpu=0.5, **more)


class Runs:
    """In place of `run_one`. breaks: the violations of a setup; `digests` differ where it shall not replay."""

    def __init__(self, breaks: Callable[[Setup], list[str]]) -> None:
        self.breaks = breaks
        self.setups: list[Setup] = []
        self.digests = itertools.repeat("same")

    def __call__(self, setup: Setup) -> Outcome:
        self.setups.append(setup)
        return outcome(setup.seed, *self.breaks(setup), digest=next(self.digests))


class TotalsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.totals = Totals()

    def test_figures_are_sums(self) -> None:
        self.totals.add(report(outcome(1, answers={"0": 3, "none": 1}, reached=["pulls"])))
        more = {"struck": {"kill": 1, "cut": 2}, "refusals": ["damaged"], "emptied": 1, "reached": ["pulls"]}
        self.totals.add(report(outcome(2, "stored: lost", seconds=40.0, **more)))
        self.totals.elapsed = 4.0
        expected = {
            "seeds": 2,
            "simulated_hours": 0.02,
            "simulated_seconds_a_second": 15,
            "simulated_seconds_a_cpu_second": 60,
            "cpu_ms_a_seed": 500,
            "answers": {"0": 6, "none": 1},
            "faults": {"cut": 2, "kill": 2},
            "limits_reached": {"pulls": 2},
            "starts_refused": 1,
            "slaves_emptied": 1,
            "failed": [2],
        }
        self.assertEqual(self.totals.figures(), expected)
        line = self.totals.line(4.0)
        for words in (
            "2 seeds,",
            "(15 s a second, 500 ms of CPU a seed)",
            "7 messages, 4 faults",
            "1 failed",
        ):
            self.assertIn(words, line)

    def test_before_the_first_seed_there_are_figures_too(self) -> None:
        self.assertEqual(self.totals.figures()["cpu_ms_a_seed"], 0)
        self.assertIn("0 seeds", self.totals.line(0.0))

    def test_the_one_to_look_at_has_most_kinds_of_faults(self) -> None:
        for seed, struck in ((1, {"kill": 1}), (2, {"kill": 1, "cut": 1}), (3, {"stop": 9})):
            self.totals.add(report(outcome(seed, struck=struck)))
        self.assertEqual(self.totals.telling.outcome.seed, 2)

    def test_or_it_is_the_first_that_failed(self) -> None:
        self.totals.add(report(outcome(1, struck={"kill": 1, "cut": 1})))
        self.totals.add(report(outcome(2), replayed=False))
        self.totals.add(report(outcome(3, "stored: lost", struck={"kill": 1, "cut": 1, "stop": 1})))
        self.assertEqual(self.totals.telling.outcome.seed, 2)
        self.assertEqual(self.totals.figures()["failed"], [2, 3])


class JobTests(SynchronousTestCase):
    def run_job(self, runs: Runs, faults: tuple[Fault, ...] | None = None) -> Report:
        self.patch(soak, "run_one", runs)
        return run_job(Job(seed=7, kinds=FAULT_KINDS, faults=faults))

    def test_a_seed_that_keeps_its_promises_is_run_once(self) -> None:
        runs = Runs(lambda setup: [])
        found = self.run_job(runs)
        self.assertEqual((found.outcome.violations, found.replayed, found.fewest), ([], True, None))
        self.assertEqual(len(runs.setups), 1)

    def test_one_that_fails_is_shrunk_to_the_faults_that_break_the_same_promise(self) -> None:
        def breaks(setup: Setup) -> list[str]:
            if len(setup.faults) == 1:
                return ["waits: too long"]  # another promise: no reason to go on leaving out
            return ["stored: lost"] if {CUT, STOP} <= set(setup.faults) else []

        runs = Runs(breaks)
        self.patch(soak, "draw_setup", _with_faults(KILL, CUT, STOP))
        found = self.run_job(runs)
        self.assertEqual((found.outcome.violations, found.replayed), (["stored: lost"], True))
        self.assertEqual(found.fewest, (CUT, STOP))

    def test_given_faults_are_run_and_repeated_but_not_shrunk(self) -> None:
        runs = Runs(lambda setup: ["stored: lost"])
        found = self.run_job(runs, (KILL, CUT))
        self.assertEqual([setup.faults for setup in runs.setups], [(KILL, CUT)] * 2)
        self.assertEqual((found.replayed, found.fewest), (True, None))

    def test_one_that_comes_to_something_else_did_not_replay(self) -> None:
        runs = Runs(lambda setup: ["stored: lost"])
        runs.digests = map(str, itertools.count())
        self.assertFalse(self.run_job(runs, (KILL,)).replayed)

    def test_a_failure_that_nobody_handled_counts_when_it_is_collected(self) -> None:
        gc.disable()  # as in a worker: nothing is collected by chance
        self.addCleanup(gc.enable)

        class Leaky:
            def __init__(self, setup: Setup) -> None:
                self.seed = setup.seed
                self.deferreds = DeferredWatch()

            def run(self) -> Outcome:
                _fail_unseen(KeyError("forgotten"))
                return outcome(self.seed)

        self.patch(soak, "Simulation", Leaky)
        earlier = _fail_unseen(ValueError("of an earlier run"))
        self.addCleanup(gc.freeze)  # other tests' objects, which a run thaws
        (found,) = soak.run_one(Job(seed=7, kinds=()).setup()).violations
        self.assertIn("KeyError: 'forgotten'", found)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)
        kept = earlier()
        assert kept is not None
        del kept.itself  # as the collector would, without a look at all else
        del kept
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)


class CollectorTests(SynchronousTestCase):
    def test_no_garbage_is_collected_during_a_run(self) -> None:
        """Not in this process either: an earlier run's would stir among the Deferreds that are watched."""
        enabled = []

        class Observed:
            def __init__(self, setup: Setup) -> None:
                self.seed = setup.seed
                self.deferreds = DeferredWatch()

            def run(self) -> Outcome:
                enabled.append(gc.isenabled())
                return outcome(self.seed)

        self.patch(soak, "Simulation", Observed)
        self.addCleanup(gc.freeze)
        for before in (True, False):
            (gc.enable if before else gc.disable)()
            self.addCleanup(gc.enable)
            soak.run_one(Job(seed=7, kinds=()).setup())
            self.assertEqual(gc.isenabled(), before)
        self.assertEqual(enabled, [False, False])


def _fail_unseen(error: Exception) -> weakref.ref[Deferred[None]]:
    lost = fail(error)
    lost.itself = lost  # only the collector finds it
    return weakref.ref(lost)


def _with_faults(*faults: Fault) -> Callable[..., Setup]:
    drawn = soak.draw_setup

    def draw(*words: object) -> Setup:
        return msgspec.structs.replace(drawn(*words), faults=faults)

    return draw


class ToldTests(SynchronousTestCase):
    def test_each_violation_and_the_command_that_repeats_them(self) -> None:
        found = report(outcome(7, "stored: lost", "tables: gone"))
        expected = [
            "seed 7 failed:",
            "  stored: lost",
            "  tables: gone",
            "  again: python -m hatwisted.sim --first 7 --seeds 1",
        ]
        self.assertEqual(told(found).splitlines(), expected)

    def test_with_the_kinds_and_the_faults_it_takes(self) -> None:
        found = Report(
            job=Job(seed=7, kinds=("kill", "cut")),
            outcome=outcome(7, "stored: lost"),
            cpu=0.1,
            replayed=False,
            fewest=(KILL,),
        )
        text = told(found)
        self.assertIn("didn't replay", text)
        self.assertIn("--first 7 --seeds 1 --kinds kill,cut\n", text)
        faults = text.partition("--faults '")[2].removesuffix("'")
        self.assertEqual(json.loads(faults), [{"at": 1.0, "kind": "kill", "host": "a"}])


class PassingTime:
    """In place of `time`: every look at the clock takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now

    process_time = monotonic


class SeedsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.out = io.StringIO()
        self.patch(sys, "stdout", self.out)
        self.patch(soak, "time", PassingTime())
        self.patch(soak, "quiet", lambda: None)

    def test_progress_and_failures_are_told_as_they_come(self) -> None:
        self.patch(soak, "run_one", Runs(lambda setup: ["stored: lost"] if setup.seed == 1 else []))
        jobs = [Job(seed=seed, kinds=(), faults=()) for seed in range(3)]
        totals = run_seeds(iter(jobs), 0, float("inf"))
        self.assertEqual((totals.seeds, [each.job.seed for each in totals.failed]), (3, [1]))
        lines = self.out.getvalue().splitlines()
        self.assertIn("seed 1 failed:", lines)
        self.assertIn("3 seeds", lines[-2])
        self.assertIn("1 failed", lines[-2])
        self.assertEqual(lines[-1], "answers {'0': 9}; faults {'kill': 3}")
        self.assertTrue(lines[0].startswith("1 seeds"), "no progress")

    def test_when_time_is_over_no_more_are_begun(self) -> None:
        self.patch(soak, "run_one", Runs(lambda setup: []))
        jobs = (Job(seed=seed, kinds=()) for seed in itertools.count())
        totals = run_seeds(jobs, 0, 60.0)
        self.assertGreater(totals.seeds, 5)
        self.assertLess(totals.seeds, 60)
        self.assertGreater(totals.elapsed, 60.0)

    def test_the_command_runs_the_seeds_that_are_asked_for(self) -> None:
        runs = Runs(lambda setup: [])
        self.patch(soak, "run_one", runs)
        figures = Path(self.mktemp())
        code = main(f"--first 5 --seeds 3 --jobs 0 --kinds kill,cut --json {figures}".split())
        self.assertEqual((code, [each.seed for each in runs.setups]), (0, [5, 6, 7]))
        self.assertLessEqual({fault.kind for each in runs.setups for fault in each.faults}, {"kill", "cut"})
        self.assertEqual(json.loads(figures.read_text())["seeds"], 3)

    def test_without_a_number_of_seeds_it_takes_a_minute(self) -> None:
        runs = Runs(lambda setup: [])
        self.patch(soak, "run_one", runs)
        self.assertEqual(main(["--jobs", "0"]), 0)
        self.assertEqual([each.seed for each in runs.setups], list(range(len(runs.setups))))
        self.assertLess(len(runs.setups), 60)
        self.assertGreater(len(runs.setups), 5)

    def test_a_failure_is_its_exit_code_and_given_faults_are_taken(self) -> None:
        runs = Runs(lambda setup: ["stored: lost"])
        self.patch(soak, "run_one", runs)
        faults = msgspec.json.encode((CUT,)).decode()
        self.assertEqual(main(["--seeds", "1", "--jobs", "0", "--faults", faults]), 1)
        self.assertEqual(runs.setups[0].faults, (CUT,))

    def test_a_page_shows_the_telling_seed(self) -> None:
        """A real run: that of a group without faults."""
        page = Path(self.mktemp())
        self.assertEqual(
            main(["--first", "2", "--seeds", "1", "--jobs", "0", "--kinds", "", "--page", str(page)]), 0
        )
        self.assertIn("<html", page.read_text())
        self.assertTrue(self.out.getvalue().endswith(f"{page} shows seed 2\n"))

    def test_a_bug_is_hunted_until_it_is_caught(self) -> None:
        """A real one, in real runs."""
        hunt = "--bug wrong-number --first 2 --jobs 0 --seeds".split()
        self.assertEqual(main([*hunt, "5"]), 0)
        row = self.out.getvalue().splitlines()[-1]
        self.assertTrue(row.startswith("| `wrong-number` | "), row)
        self.assertTrue(row.endswith("| 1 (1 to 1) | `stored` |"), row)
