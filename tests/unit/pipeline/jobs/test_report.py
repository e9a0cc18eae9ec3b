"""What a report writes without Spark's help."""

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import TestCase
from unittest.mock import patch

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.report import reporting
from hatwisted.pipeline.jobs.report.plotsheets import master_label
from hatwisted.pipeline.jobs.report.reporting import ReportOptions, check_folder, report, utc_text
from tests.support.golden import GOLDEN


class TimeTests(TestCase):
    def test_times_are_utc_s_and_say_so_whatever_the_year(self):
        for moment, text in (
            (1795221180, "2026-11-21T00:33:00Z"),
            (-60, "1969-12-31T23:59:00Z"),
            (253_402_300_800, "10000-01-01T00:00:00Z"),
            (None, ""),
        ):
            self.assertEqual(utc_text(moment), text)


class LabelTests(TestCase):
    def test_a_master_is_called_so_once(self):
        for broker, shown in (("broker-a", "broker-a (master)"), ("master", "master"), ("Master", "Master")):
            self.assertEqual(master_label(broker), shown)


class FolderTests(TestCase):
    def test_what_others_have_in_the_folder_stays(self):
        """A landing's `damagePath` may well be there."""
        out = Path(self.enterContext(TemporaryDirectory()))
        mine = out / "damages" / "broker-a-1-2.jsonl"
        mine.parent.mkdir()
        mine.touch()
        stale = out / reporting.DAMAGES / mine.name
        stale.parent.mkdir(exist_ok=True)
        stale.touch()
        with (
            patch.object(reporting, "spark_session", side_effect=RuntimeError),
            self.assertRaises(RuntimeError),
        ):
            report([str(GOLDEN / "master")], str(out), ReportOptions(overwrite=True))
        self.assertTrue(mine.exists())
        self.assertFalse(stale.exists())

    def test_a_folder_of_something_else_is_refused(self):
        out = Path(self.enterContext(TemporaryDirectory()))
        check_folder(str(out / "new"), False)
        for own in (".snapshot", "lost+found", "minutes.csv", "plots"):  # an interrupted report's, for one
            (out / own).mkdir()
            check_folder(str(out), False)
        (out / "topic=orders").mkdir()
        with self.assertRaisesRegex(PipelineError, "has topic=orders, which is no part of a report"):
            check_folder(str(out), False)
        check_folder(str(out), True)
        (out / reporting.PAGE).touch()
        check_folder(str(out), False)
        with self.assertRaisesRegex(PipelineError, "isn't a folder"):
            check_folder(str(out / reporting.PAGE), False)
