"""docs/architecture.md names what exists: every path in it, and in its tables every class, function and limit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import hatwisted
from tests.support.syntax import statements

PACKAGE = Path(hatwisted.__file__).parent
PAGE = PACKAGE.parent / "docs" / "architecture.md"
NAMED = re.compile(r"`([^`]+)`")


def section(title: str) -> str:
    return PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> Iterator[str]:
    """The last cell of each row of a section's table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    assert len(lines) > 10, title
    for line in lines[2:]:
        yield line.strip("|").split("|")[-1]


@cache
def names_in(path: Path) -> set[str]:
    """What a module defines: classes, their methods, functions, constants."""
    found: set[str] = set()
    for node in statements(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


def missing(cell: str) -> list[str]:
    """The names in a cell like "`a/b.py` `Name`, `Other`" that aren't there."""
    path, wrong = None, []
    for word in NAMED.findall(cell):
        if word.endswith(".py"):
            path = PACKAGE / word
            if not path.is_file():
                wrong.append(word)
        elif path is None or not path.is_file() or word not in names_in(path):
            wrong.append(f"{word} in {path}")
    return wrong


class ArchitecturePageTests(SynchronousTestCase):
    def test_a_missing_name_is_noticed(self) -> None:
        self.assertEqual(missing("`ha/master.py` `HAService`, and more"), [])
        self.assertEqual(missing("`ha/nowhere.py`"), ["ha/nowhere.py"])
        self.assertEqual(len(missing("`ha/master.py` `HAService`, `Nobody`")), 1)

    def test_rocketmqs_classes_live_where_the_page_says(self) -> None:
        self.assertEqual(
            [each for cell in rows("Where RocketMQ's classes live") for each in missing(cell)], []
        )

    def test_limits_stand_where_the_page_says(self) -> None:
        self.assertEqual([each for cell in rows("Where the limits live") for each in missing(cell)], [])

    def test_every_path_on_the_page_exists(self) -> None:
        paths = set(re.findall(r"`([\w/]+/\w+\.py)`", PAGE.read_text()))
        self.assertGreater(len(paths), 50)
        self.assertEqual(
            sorted(
                path
                for path in paths
                if not any((base / path).is_file() for base in (PACKAGE, PACKAGE.parent))
            ),
            [],
        )

    def test_the_page_has_a_row_for_every_room(self) -> None:
        rooms = {folder.parent.name for folder in PACKAGE.glob("*/__init__.py")}
        named = re.findall(r"^\| (`[a-z, `]+`) \|", section("The rooms"), re.MULTILINE)
        self.assertEqual(rooms - {room for cell in named for room in NAMED.findall(cell)}, set())


class RoomTests(SynchronousTestCase):
    def test_a_rooms_init_names_each_of_its_modules(self) -> None:
        """A module that isn't in its room's reading order is found by nobody."""
        unnamed = []
        for init in sorted(PACKAGE.rglob("__init__.py")):
            text = ast.get_docstring(ast.parse(init.read_text())) or ""
            modules = [
                path.stem
                for path in init.parent.glob("*.py")
                if not path.stem.startswith("__") and path.stem != "errors"
            ]
            rooms = [path.parent.name for path in init.parent.glob("*/__init__.py")]
            words = set(re.findall(r"\w+", text))
            unnamed += [
                f"{init.parent.relative_to(PACKAGE)}: {name}" for name in modules + rooms if name not in words
            ]
        self.assertEqual("\n".join(unnamed), "", "say in the room's __init__ when to read them")
