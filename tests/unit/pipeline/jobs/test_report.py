"""What a report writes without Spark's help."""

from unittest import TestCase

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from hatwisted.pipeline.jobs.report.reporting import utc_text


class TimeTests(TestCase):
    def test_times_are_utc_s_and_say_so_whatever_the_year(self):
        for moment, text in (
            (1795221180, "2026-11-21T00:33:00Z"),
            (-60, "1969-12-31T23:59:00Z"),
            (253_402_300_800, "10000-01-01T00:00:00Z"),
            (None, ""),
        ):
            self.assertEqual(utc_text(moment), text)
