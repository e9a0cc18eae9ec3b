"""Each limit that docs/architecture.md lists, and each deadline of docs/security.md, has a test that names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.test_architecture import PACKAGE, PAGE, missing

TESTS = PACKAGE.parent / "tests"
SECURITY, METRICS = PAGE.parent / "security.md", PAGE.parent / "metrics.md"
REACHED = PACKAGE / "sim" / "tightlimits.py"
"""Limits that simulated runs make tight and reach: `tests/unit/sim/test_tightlimits.py` looks at each of them."""


class Limit(NamedTuple):
    """module: its path in the package."""

    module: str
    name: str


def limits(text: str) -> Iterator[Limit]:
    """Those in a text like "`a/b.py` `ONE`, `OTHER`; `c/d.py` `THIRD`"."""
    module = ""
    for word in re.findall(r"`([^`]+)`", text):
        if word.endswith(".py"):
            module = word
        else:
            yield Limit(module, word)


def table(page: Path, title: str) -> list[list[str]]:
    """The rows of a section's table, by cells."""
    section = page.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines[2:]]


def words(text: str) -> set[str]:
    """All of them."""
    return set(re.findall(r"\w+", text))


@cache
def words_of_tests() -> list[set[str]]:
    """By file."""
    return [words(path.read_text()) for path in (*TESTS.rglob("*.py"), REACHED)]


def is_tested(limit: Limit, files: list[set[str]]) -> bool:
    """Does one of the files name it, and the module that it's in?"""
    return any({limit.name, Path(limit.module).stem} <= file for file in files)


class LimitTests(SynchronousTestCase):
    def test_a_limit_without_a_test_is_noticed(self) -> None:
        (known, unknown) = limits("`acl/aclfile.py` `MAX_NESTING`, `MAX_NOTHING`")
        self.assertTrue(is_tested(known, words_of_tests()))
        self.assertFalse(is_tested(unknown, [words("from hatwisted.acl import aclfile")]))
        self.assertFalse(is_tested(known, [words("MAX_NESTING")]))

    def test_each_limit_has_a_test_that_names_it(self) -> None:
        found = [each for row in table(PAGE, "Where the limits live") for each in limits(row[-1])]
        self.assertGreater(len(found), 180)
        self.assertEqual([each for each in found if not is_tested(each, words_of_tests())], [])


class FigureTests(SynchronousTestCase):
    def test_what_tells_that_a_limit_is_met_is_a_figure_of_the_page(self) -> None:
        figures = set(re.findall(r"^\| `(\w+)`", METRICS.read_text(), re.MULTILINE))
        rows = table(METRICS, "What has a limit")
        self.assertGreater(len(rows), 12)
        for what, tells in rows:
            named = set(re.findall(r"`((?:hatwisted|rocketmq|process)_\w+)`", tells))
            self.assertTrue(named, what)
            self.assertEqual(named - figures, set(), what)


class DeadlineTests(SynchronousTestCase):
    def test_each_deadline_is_where_the_page_says_and_in_the_test_that_it_names(self) -> None:
        rows = table(SECURITY, "Deadlines")
        self.assertGreater(len(rows), 12)
        for what, _, named, shown in rows:
            self.assertEqual(missing(named), [], what)
            files = re.findall(r"`(tests/[^`]+)`", shown)
            known = words(" ".join((PACKAGE.parent / file).read_text() for file in files))
            for limit in limits(named):
                if limit.name.isupper():
                    self.assertIn(limit.name, known, f"{what}: {files}")
