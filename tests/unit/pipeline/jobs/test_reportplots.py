"""Names in a plot: drawn as they are, and nothing else."""

from __future__ import annotations

import warnings
from typing import Any
from unittest import TestCase, mock

from hatwisted.pipeline.jobs.report.plotsheets import WIDE, Sheet
from hatwisted.pipeline.jobs.report.reportplots import _drawn


class TestNames(TestCase):
    def test_a_name_is_no_formula_and_turns_no_text_around(self):
        names = (r"$\no{formula}$", "T\x9b2J\u202eevil\x01")

        def draw(figure: Any, summary: object) -> None:
            axes = figure.subplots()
            for number, name in enumerate(names):
                axes.text(0, number / 2, name)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of signs that the font lacks
            plot = _drawn(Sheet("name", "title", "note", WIDE, draw), mock.Mock())
        for text in (plot.svg, plot.file_svg.decode()):
            self.assertIn(r"$\no{formula}$", text)
            self.assertIn(r"T\x9b2J\u202eevil\x01", text)
            self.assertTrue(text.replace("\n", "").isprintable())
