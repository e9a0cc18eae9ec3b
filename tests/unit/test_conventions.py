"""What CONTRIBUTING.md asks of every module, as far as the sources show it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import hatwisted

PACKAGE = Path(hatwisted.__file__).parent


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    """(path below the package, tree) of every module, or of those in `rooms`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not rooms or name.startswith(tuple(f"{room}/" for room in rooms)):
            yield name, ast.parse(path.read_text())


def dataclass_keywords(node: ast.ClassDef) -> set[str] | None:
    """The arguments that its `@dataclass` sets to True; None if it's no dataclass."""
    for each in node.decorator_list:
        call = each if isinstance(each, ast.Call) else None
        if isinstance(name := call.func if call else each, ast.Name) and name.id == "dataclass":
            keywords = call.keywords if call else []
            return {key.arg for key in keywords if key.arg and ast.unparse(key.value) == "True"}
    return None


class ValueClassTests(SynchronousTestCase):
    def test_options_settings_and_results_are_frozen_and_keyword_only(self) -> None:
        found = {
            f"{name}: {node.name}": keywords
            for name, tree in modules()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and node.name.endswith(("Options", "Settings", "Result"))
            if (keywords := dataclass_keywords(node)) is not None
        }
        self.assertGreater(len(found), 15)
        wrong = [name for name, keywords in found.items() if not {"frozen", "kw_only"} <= keywords]
        self.assertEqual(wrong, [])
