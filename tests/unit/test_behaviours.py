"""Every behaviour of docs/behaviours.md has a test that bears its id, or stands here with the reason why not; each
test that docs/guarantees.md or docs/security.md names is there."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.test_limits import table

TESTS = Path(__file__).resolve().parents[1]
BEHAVIOURS = TESTS.parent / "docs" / "behaviours.md"
GUARANTEES = TESTS.parent / "docs" / "guarantees.md"
SECURITY = TESTS.parent / "docs" / "security.md"

FAILURE_TABLE = {f"B{number}" for number in range(126, 146)}
"""Section 10: what becomes of messages when something breaks is shown with processes that are really killed."""

WITHOUT_TEST: dict[str, str] = {
    "B163": "ideas, free to take; their outcomes are B47, B56, B59 and B60",
    "B164": "a note; what heartbeats are for is shown by B35, B53, B58 and B63",
}
"""id -> why no test can show it."""


def names_of_tests(text: str) -> Iterator[str]:
    """Of the functions that pytest and trial would run: in the module and in its classes, not those always
    skipped."""
    tree = ast.parse(text)
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    for body in (tree.body, *(each.body for each in classes)):
        for each in body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test"):
                marks = [ast.unparse(decorator) for decorator in each.decorator_list]
                if not any(mark.startswith(("pytest.mark.skip(", "pytest.mark.xfail")) for mark in marks):
                    yield each.name


def ids_of(name: str) -> list[str]:
    """B-numbers in a test's name."""
    return re.findall(r"(?<=_)B\d+[a-z]?(?=_|$)", name)


@cache
def layers_of_behaviours() -> dict[str, set[str]]:
    """Folders of the tests that bear each id."""
    layers: dict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        if not re.search(r"def test\w*_B\d", text := path.read_text()):
            continue
        for name in names_of_tests(text):
            for behaviour in ids_of(name):
                layers[behaviour].add(path.relative_to(TESTS).parts[0])
    return layers


class BehaviourTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.rows = re.findall(r"^\| (B\d+[a-z]?) \|", BEHAVIOURS.read_text(), re.MULTILINE)
        self.layers = layers_of_behaviours()

    def test_the_rows_are_numbered_through(self) -> None:
        numbered = [row for row in self.rows if row[-1].isdigit()]
        self.assertEqual(numbered, [f"B{number:02d}" for number in range(1, len(numbered) + 1)])

    def test_every_row_has_a_test_or_a_reason(self) -> None:
        self.assertEqual([row for row in self.rows if row not in self.layers and row not in WITHOUT_TEST], [])

    def test_every_id_in_a_name_is_a_row(self) -> None:
        self.assertEqual(sorted(set(self.layers) - set(self.rows)), [])

    def test_what_has_a_test_needs_no_reason(self) -> None:
        self.assertEqual([row for row in WITHOUT_TEST if row in self.layers or row not in self.rows], [])

    def test_the_failure_table_is_shown_by_real_processes(self) -> None:
        missing = [row for row in FAILURE_TABLE if not self.layers.get(row, set()) & {"system", "interop"}]
        self.assertEqual(sorted(missing), [])

    def test_names_are_taken_apart(self) -> None:
        self.assertEqual(ids_of("test_B04_B97a_a_B_and_B164"), ["B04", "B97a", "B164"])
        self.assertEqual(ids_of("test_b01_xB02_"), [])


class GuaranteeTests(SynchronousTestCase):
    def test_every_test_that_shows_a_guarantee_is_there(self) -> None:
        self.check(GUARANTEES, least=20)

    def test_every_test_that_shows_what_stops_a_stranger_is_there(self) -> None:
        self.check(SECURITY, least=40)

    def test_each_attack_that_was_held_names_a_test_of_it(self) -> None:
        rows = table(SECURITY, "What was tried and held")
        self.assertGreater(len(rows), 12)
        for tried, _, shown in rows:
            for one in shown.split("; "):
                named = re.fullmatch(r"`(tests/[\w/]+\.py)` (`test_\w+`(?:, `test_\w+`)*)", one)
                self.assertIsNotNone(named, f"{tried}: {one}")
                if named is not None:
                    there = set(names_of_tests((TESTS.parent / named[1]).read_text()))
                    self.assertEqual(set(re.findall(r"\w+", named[2])) - there, set(), tried)

    def check(self, page: Path, least: int) -> None:
        """A file is named first, then what is meant in it."""
        text, named, missing = "", 0, []
        for name in re.findall(r"`(tests/[\w/]+\.py|test_\w+|\w+Tests)`", page.read_text()):
            if name.startswith("tests/"):
                path = TESTS.parent / name
                text = path.read_text() if path.is_file() else ""
                if not text:
                    missing.append(name)
            elif not re.search(rf"^ *((async )?def|class) {name}\b", text, re.MULTILINE):
                missing.append(name)
            named += 1
        self.assertEqual(missing, [])
        self.assertGreater(named, least)
