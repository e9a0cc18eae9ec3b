"""Every loop goes through `hatwisted.timing`: one exception must not end it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import hatwisted

PACKAGE = Path(hatwisted.__file__).parent
GUARDED = PACKAGE / "timing"
SIMULATION = PACKAGE / "sim"
"""It makes the clock and what goes wrong: an exception of its own has to end the run."""


@cache
def texts() -> dict[Path, str]:
    """Of all rooms: a client or a tool that hangs is no better than a server."""
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent not in (GUARDED, SIMULATION)]
    return {path: path.read_text() for path in paths}


def modules_with(word: str) -> Iterator[tuple[Path, ast.Module]]:
    """The modules whose text has `word`, taken apart."""
    return ((path, ast.parse(text)) for path, text in texts().items() if word in text)


def names(tree: ast.AST) -> set[str]:
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    found |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return found | {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def of_self(node: ast.AST) -> str | None:
    """`x` of `self.x`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return None


def sets_itself_again(tree: ast.AST) -> list[str]:
    """Methods that `callLater` is given and that lead, by way of others of their class, to that very call."""
    found = []
    for one in ast.walk(tree):
        if not isinstance(one, ast.ClassDef):
            continue
        leads: dict[str, set[str]] = {}
        sets: dict[str, set[str]] = {}
        for method in one.body:
            if not isinstance(method, ast.FunctionDef):
                continue
            leads[method.name] = {name for node in ast.walk(method) if (name := of_self(node))}
            calls = [node for node in ast.walk(method) if isinstance(node, ast.Call) and len(node.args) > 1]
            late = [call.args[1] for call in calls if getattr(call.func, "attr", "") == "callLater"]
            sets[method.name] = {name for target in late if (name := of_self(target))}
        found += [name for name in leads if any(name in sets[other] for other in reached(name, leads))]
    return found


def reached(start: str, leads: dict[str, set[str]]) -> set[str]:
    """`start` and all that it leads to."""
    seen, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [other for other in leads[name] if other in leads]
    return seen


class BareLoopTests(SynchronousTestCase):
    def test_all_rooms_are_looked_at(self) -> None:
        rooms = {path.relative_to(PACKAGE).parts[0] for path in texts()}
        some = {"broker", "cli", "client", "demo", "ha", "namesrv", "remoting", "store", "tap"}
        self.assertEqual(some - rooms, set())

    def test_no_looping_call(self) -> None:
        bare = [str(path) for path, tree in modules_with("LoopingCall") if "LoopingCall" in names(tree)]
        self.assertEqual(bare, [], "use hatwisted.timing.periodic.PeriodicCall")
        sample = "from twisted.internet import task\nloop = task.LoopingCall(print)\n"
        self.assertIn("LoopingCall", names(ast.parse(sample)))

    def test_no_call_that_sets_itself_again_unguarded(self) -> None:
        bare = [
            (str(path), name) for path, tree in modules_with("callLater") for name in sets_itself_again(tree)
        ]
        self.assertEqual(bare, [], "use hatwisted.timing.timer.GuardedTimer")
        sample = (
            "class A:\n def turn(self): self.again()\n def again(self): self.clock.callLater(1, self.turn)\n"
        )
        self.assertEqual(sets_itself_again(ast.parse(sample)), ["turn"])
