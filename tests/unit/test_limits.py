"""Each limit is on docs/architecture.md and has a test that names it, as has each deadline of docs/security.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.test_architecture import PACKAGE, PAGE, missing

TESTS = PACKAGE.parent / "tests"
SECURITY, METRICS = PAGE.parent / "security.md", PAGE.parent / "metrics.md"
REACHED = PACKAGE / "sim" / "tightlimits.py"
"""Limits that simulated runs make tight and reach: `tests/unit/sim/test_tightlimits.py` looks at each of them."""


ROOMS = (
    *(
        "acl",
        "broker",
        "clientcore",
        "ha",
        "logcodec",
        "metrics",
        "namesrv",
        "remoting",
        "sqlfilter",
        "store",
    ),
    *("tap", "timing", "tls", "wire"),
)
"""They take what others send."""

LIMIT_LIKE = re.compile(
    r"(MAX|MOST|LONGEST|DEEPEST)_\w+|\w+_(LIMIT|TIMEOUT|WINDOW|PATIENCE)|PATIENCE|TIMEOUT"
)

NO_LIMITS = {
    "broker/node/copyreport.py": "BEHIND_LIMIT from when on something is said",
    "broker/node/joincheck.py": "CLOCK_LIMIT from when on something is said",
    "broker/send/deadletter.py": "MAX_TIMES_SINCE is a version",
    "broker/send/sendback.py": "MOST_TIMES is what a field holds",
    "clientcore/calls.py": "CONNECT_TIMEOUT is the drivers' own",
    "clientcore/selection.py": "MAX_PAUSE is of a broker that was slow",
    "clientcore/sendback.py": "MAX_RECONSUME is when a message is a dead letter",
    "ha/slavewatch.py": "ALONE_LIMIT from when on something is said",
    "logcodec/queueentry.py": "PHYSICAL_LIMIT is what a field holds",
    "logcodec/scan.py": "NO_LIMIT is none",
    "store/disk/filesystem.py": "IOV_LIMIT is Linux's",
    "store/index/indexfile.py": "MAX_SECONDS is what a field holds",
    "store/lifecycle/logages.py": "LOOK_LIMIT tells a clock that leaps",
    "store/lifecycle/unsyncedpages.py": "MOST_FILES are written again at a start",
    "logcodec/entrychoice.py": "MAX_GAP is a choice between two ways",
    "tap/steadytime.py": "LONGEST_WAIT tells a clock that leaps",
    "wire/layout.py": "MAX_RECORD_OVERHEAD is RocketMQ's",
    "wire/topics.py": "MAX_CHECKS_TOPIC is a topic",
    "wire/storenames.py": "MAX_QUEUE_ID is what a field holds",
}
"""Module -> which of its names only looks like a limit, and what it is."""


class Limit(NamedTuple):
    """module: its path in the package."""

    module: str
    name: str


def limits(text: str) -> Iterator[Limit]:
    """Those in a text like "`a/b.py` `ONE`, `OTHER`; `c/d.py`, `e.py` `THIRD`": the third is in both modules."""
    modules: list[str] = []
    named = False
    for word in re.findall(r"`([^`]+)`", text):
        if word.endswith(".py"):
            modules = [word] if named else [*modules, word]
            named = False
        else:
            yield from (Limit(module, word) for module in modules)
            named = True


def table(page: Path, title: str) -> list[list[str]]:
    """The rows of a section's table, by cells."""
    section = page.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines[2:]]


def constants(module: str) -> Iterator[str]:
    """Those of a module's text that look like limits."""
    for name in re.findall(r"^([A-Z]\w+)(?::[^=\n]+)? = ", module, re.MULTILINE):
        if LIMIT_LIKE.fullmatch(name):
            yield name


def words(text: str) -> set[str]:
    """All of them."""
    return set(re.findall(r"\w+", text))


@cache
def files_of_tests() -> list[tuple[str, set[str]]]:
    """Of each file its text and its words."""
    texts = [path.read_text() for path in (*TESTS.rglob("*.py"), REACHED)]
    return [(text, words(text)) for text in texts]


def tearDownModule() -> None:
    """The texts of all tests needn't stay with those to come."""
    files_of_tests.cache_clear()
    references.cache_clear()


@cache
def references(text: str) -> set[Limit]:
    """What a file takes from which modules of ours: by an import, as an attribute of one, or by its name beside
    one, as in `patch(module, "NAME", ...)`."""
    nodes = list(ast.walk(ast.parse(text)))
    found, modules = set(), dict[str, str]()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hatwisted"):
            for each in node.names:
                found.add(Limit(_path(f"{node.module}"), each.name))
                modules[each.asname or each.name] = _path(f"{node.module}.{each.name}")
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules:
                found.add(Limit(modules[name], attribute))
            case ast.Call(args=beside) | ast.Tuple(elts=beside):
                for module, constant in pairwise(beside):
                    if isinstance(module, ast.Name) and isinstance(constant, ast.Constant):
                        found.add(Limit(modules.get(module.id, ""), str(constant.value)))
    return found


def _path(module: str) -> str:
    return module.removeprefix("hatwisted.").replace(".", "/") + ".py"


def is_tested(limit: Limit, files: list[tuple[str, set[str]]]) -> bool:
    """Does one of the files take it from the module that it's in?"""
    wanted = {limit.name, Path(limit.module).stem}
    return any(wanted <= named and limit in references(text) for text, named in files)


class LimitTests(SynchronousTestCase):
    def test_a_limit_without_a_test_is_noticed(self) -> None:
        (known, unknown) = limits("`acl/aclfile.py` `MAX_NESTING`, `MAX_NOTHING`")
        self.assertTrue(is_tested(known, files_of_tests()))
        self.assertFalse(is_tested(unknown, files_of_tests()))
        for text, noticed in (
            ("from hatwisted.acl.aclfile import MAX_NESTING", True),
            ("from hatwisted.acl import aclfile as read\nassert read.MAX_NESTING", True),
            ("from hatwisted.acl import aclfile\nself.patch(aclfile, 'MAX_NESTING', 3)", True),
            ("from hatwisted.acl import aclfile\nTIGHT = ((aclfile, 'MAX_NESTING'),)", True),
            ("from hatwisted.acl import aclfile", False),
            ("from hatwisted.acl import aclfile\nfrom hatwisted.wire.other import MAX_NESTING", False),
            ("from hatwisted.acl import aclfile, other\nassert other.MAX_NESTING", False),
            ("from hatwisted.acl import aclfile\n'MAX_NESTING'", False),
        ):
            self.assertEqual(is_tested(known, [(text, words(text))]), noticed, text)

    def test_a_row_names_constants_of_several_modules(self) -> None:
        found = limits("`a.py` `ONE`, `TWO`; `b.py`, `c/d.py` `THREE`; `e.py` `FOUR`")
        self.assertEqual(
            [f"{each.module} {each.name}" for each in found],
            ["a.py ONE", "a.py TWO", "b.py THREE", "c/d.py THREE", "e.py FOUR"],
        )

    def test_each_limit_has_a_test_that_names_it(self) -> None:
        found = [each for row in table(PAGE, "Where the limits live") for each in limits(row[-1])]
        self.assertGreater(len(found), 180)
        self.assertEqual([each for each in found if not is_tested(each, files_of_tests())], [])


class CompleteTests(SynchronousTestCase):
    def test_each_limit_of_what_others_send_is_on_the_page(self) -> None:
        listed = {each for row in table(PAGE, "Where the limits live") for each in limits(row[-1])}
        others = {Limit(module, reason.split()[0]) for module, reason in NO_LIMITS.items()}
        found = set()
        for path in (path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
            module = str(path.relative_to(PACKAGE))
            found |= {Limit(module, name) for name in constants(path.read_text())}
        self.assertGreater(len(found), 150)
        self.assertEqual(sorted(found - listed - others), [])
        self.assertEqual(sorted(others - found), [], "they aren't there any more")


class FigureTests(SynchronousTestCase):
    def test_each_limit_has_a_figure_that_tells_or_a_reason_why_none_has_to(self) -> None:
        rows = table(PAGE, "What tells that one is met")
        told = [each for row in rows for each in limits(row[1])]
        self.assertEqual([each for each in told if told.count(each) > 1], [])
        listed = {each for row in table(PAGE, "Where the limits live") for each in limits(row[-1])}
        self.assertEqual(sorted(listed - set(told)), [], "add them to a row of figures, or of a reason")
        self.assertEqual(sorted(set(told) - listed), [], "they aren't limits any more")
        figures = set(re.findall(r"^\| `(\w+)`", METRICS.read_text(), re.MULTILINE))
        for tells, _ in rows:
            if not re.fullmatch(r"-: \w+( \S+){2,}", tells):
                named = re.fullmatch(r"`\w+`(, `\w+`)*", tells)
                self.assertTrue(named, tells)
                self.assertEqual(set(re.findall(r"\w+", tells)) - figures, set(), tells)

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
