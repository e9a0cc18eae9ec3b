"""What a landing keeps next to its table, and what Spark's checkpoint says of where it is; no JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land import landingstate
from hatwisted.pipeline.jobs.land.checkpoint import reached
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.land.landingstate import LandingState, landing_state


class CheckpointTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True)

    def begun(self, batch: int, end: int, *, done: bool = True) -> None:
        # Two lines of Spark's own come first (Spark 4.2).
        lines = ["v1", '{"batchWatermarkMs":0}', json.dumps({"a": end})]
        (self.folder / "offsets" / str(batch)).write_text("\n".join(lines))
        if done:
            (self.folder / "commits" / str(batch)).write_text("v1\n{}")

    def reached(self, committed: int = -1) -> object:
        return reached(str(self.folder), lambda batch: batch <= committed)

    def test_what_was_done_last(self) -> None:
        self.assertIsNone(self.reached())
        for batch in range(12):
            self.begun(batch, 100 * batch)
        self.assertEqual(self.reached(), {"a": 1100})

    def test_a_batch_that_was_only_begun_is_in_the_table_or_not(self) -> None:
        self.begun(0, 100, done=False)
        self.assertEqual(self.reached(), {})
        self.assertEqual(self.reached(committed=0), {"a": 100})
        self.begun(0, 100)
        self.begun(1, 200, done=False)
        self.assertEqual(self.reached(committed=0), {"a": 100})
        self.assertEqual(self.reached(committed=1), {"a": 200})

    def test_what_is_no_checkpoint_is_refused(self) -> None:
        for text in ("v1", "v1\n{}\n[1]", "v1\n{}\n{"):
            (self.folder / "offsets" / "0").write_text(text)
            (self.folder / "commits" / "0").touch()
            with self.assertRaisesRegex(PipelineError, "offsets/0: .*give a new checkpoint"):
                self.reached()


class StateTests(SynchronousTestCase):
    def test_renewed_progress_has_another_name_and_nothing_of_sparks(self) -> None:
        folder = Path(self.mktemp())

        def taken() -> LandingState:
            with landing_state(folder, table_id="t", kind="commitlog", identity=Writer.of("a")) as state:
                return state

        first = taken()
        offsets = Path(first.spark_folder, "offsets")
        offsets.mkdir(parents=True)
        (offsets / "0").touch()
        self.assertFalse(taken().fresh)
        renewed = taken().renewed()
        self.assertTrue(renewed.fresh)
        self.assertNotEqual(renewed.application, first.application)
        self.assertEqual(taken(), renewed)

    def test_a_run_that_is_killed_as_it_renews_leaves_all_of_sparks_or_nothing(self) -> None:
        folder = Path(self.mktemp())

        def taken() -> LandingState:
            with landing_state(folder, table_id="t", kind="commitlog", identity=Writer.of("a")) as state:
                return state

        def half_removed(path: str, ignore_errors: bool = False) -> None:
            shutil.rmtree(path if ignore_errors else Path(path, "offsets"), ignore_errors)
            if not ignore_errors:
                raise KeyboardInterrupt

        for _ in range(2):
            spark = Path(taken().spark_folder)
            for name in ("offsets", "commits"):
                (spark / name).mkdir(parents=True)
                (spark / name / "0").touch()
            with (
                mock.patch.object(landingstate, "rmtree", half_removed),
                self.assertRaises(KeyboardInterrupt),
            ):
                taken().renewed()
            # Spark's query would end at each start: it finds that batch 0 is done, and hasn't begun it.
            self.assertTrue(taken().fresh)
            self.assertFalse(spark.exists())
        spark.mkdir()
        taken().renewed()
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["landing.json", "lock"])


class SourceTests(SynchronousTestCase):
    def test_a_table_is_beyond_offsets_that_others_have_passed(self) -> None:
        tails = {"a": Tail("a", 100, 50, None, None)}
        for at, beyond in ((149, True), (150, False), (200, False)):
            self.assertEqual(Stores(["/a"]).is_beyond({"a": at}, tails, lambda brokers: {}), beyond)
        self.assertTrue(Stores(["/a"]).is_beyond({"b": 500}, tails, lambda brokers: {}))
