"""What CONTRIBUTING.md asks of every module, as far as the sources show it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path

from click import Command, Context, Group
from twisted.trial.unittest import SynchronousTestCase

import hatwisted
from hatwisted.cli.lazygroup import LazyGroup
from hatwisted.cli.main import main
from tests.support.syntax import statements

PACKAGE = Path(hatwisted.__file__).parent
UNIT = Path(__file__).parent
TESTS = UNIT.parent
LAYERS = ("unit", "replay", "tables", "system", "interop", "pipeline")
MOST_LINES = 400
"""Of one module."""
MOST_ARGUMENTS = 6
"""Of one callable: an order of seven can't be remembered, and a call of seven can't be read."""
MORE_ARGUMENTS = {
    "pipeline/decode/logreader.py: read_split": "keywords of the public face, as readers of tables have them",
    "pipeline/decode/logreader.py: read_arrow": "as above",
    "pipeline/jobs/land/landing.py: land": "as above; how to land is an option struct already",
    "pipeline/jobs/messages/importing.py: import_messages": "as above",
    "wire/record.py: make_record": "the fields of a record, by their names",
}
"""Callables that have more all the same, and why."""
MAKEFILE = TESTS.parent / "Makefile"
IMPORTS = re.compile(r"^from (tests\.[\w.]+) import ", re.MULTILINE)
NOT_SOAKED = {TESTS / "system" / "test_soak.py"}
"""`make soak` does by itself what it tries."""
LISTED = re.compile(r"^ *(?:- )?(\w+(?:, \w+)*): ", re.MULTILINE)


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """(path below the package, tree) of every module."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return [(path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())) for path in paths]


def tearDownModule() -> None:
    """Half a million nodes needn't stay with the tests to come."""
    modules.cache_clear()


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
            for node in statements(tree)
            if isinstance(node, ast.ClassDef) and node.name.endswith(("Options", "Settings", "Result"))
            if (keywords := dataclass_keywords(node)) is not None
        }
        self.assertGreater(len(found), 15)
        wrong = [name for name, keywords in found.items() if not {"frozen", "kw_only"} <= keywords]
        self.assertEqual(wrong, [])


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A command of the command line: click calls it, with its options by their names."""
    calls = (each.func for each in node.decorator_list if isinstance(each, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr in ("command", "group") for called in calls)


def argument_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


class ModuleTests(SynchronousTestCase):
    def test_no_module_is_longer_than_a_reader_holds_in_mind(self) -> None:
        lengths = {
            path.relative_to(PACKAGE).as_posix(): len(path.read_text().splitlines())
            for path in PACKAGE.rglob("*.py")
        }
        long = {name: length for name, length in lengths.items() if length > MOST_LINES}
        self.assertEqual(long, {}, "split it along a noun of the field")


def callables(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(name, node) of functions and methods, local ones too; a method's name begins with its class's."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{owner}{node.name}", node
        # None stands within an expression.
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from callables(node, f"{node.name}." if isinstance(node, ast.ClassDef) else "")


class ArgumentTests(SynchronousTestCase):
    def test_no_callable_has_more_than_six(self) -> None:
        many = {
            f"{name}: {called}"
            for name, tree in modules()
            for called, node in callables(tree)
            if not is_command(node) and argument_count(node) > MOST_ARGUMENTS
        }
        self.assertEqual(many - set(MORE_ARGUMENTS), set(), "take an option struct")
        self.assertEqual(set(MORE_ARGUMENTS) - many, set(), "no exception is needed any more")


def public_callables(
    tree: ast.Module | ast.ClassDef,
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """(name, node, docstring) of functions, methods and constructors; these have their class's docstring too."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_callables(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node) or ""
            if isinstance(tree, ast.ClassDef) and node.name == "__init__":
                yield tree.name, node, f"{ast.get_docstring(tree) or ''}\n{doc}"
            elif not node.name.startswith("_"):
                yield node.name, node, doc


def unlisted(node: ast.FunctionDef | ast.AsyncFunctionDef, doc: str) -> list[str]:
    """Arguments that `doc` has no line for, if there are three or more; none where it refers to another one."""
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [each.arg for each in named if each.arg not in ("self", "cls") and not each.arg.startswith("_")]
    # What implements an interface has its docstring there.
    refers = re.match("(See|As) ", doc) or (not doc and node.name != "__init__")
    if len(names) < 3 or refers:
        return []
    lines = {name for match in LISTED.finditer(doc) for name in match[1].split(", ")}
    return [name for name in names if name not in lines]


class DocstringTests(SynchronousTestCase):
    def test_three_arguments_are_a_list(self) -> None:
        def first(source: str) -> list[str]:
            ((_, node, doc),) = public_callables(ast.parse(source))
            return unlisted(node, doc)

        self.assertEqual(
            first('def f(a, b, c):\n    """Do it: a, b.\n\n    - a: one\n    - b, c: two\n    """'), []
        )
        self.assertEqual(
            first('def f(a, b, c):\n    """Do it. a: one; b: two; c: three."""'), ["a", "b", "c"]
        )
        self.assertEqual(first('def f(a, b):\n    """Do it."""'), [])
        self.assertEqual(first('def f(a, b, c):\n    """See g."""'), [])

    def test_public_callables_list_their_arguments(self) -> None:
        missing = [
            f"{name}: {called}: {', '.join(names)}"
            for name, tree in modules()
            for called, node, doc in public_callables(tree)
            if not is_command(node) and (names := unlisted(node, doc))
        ]
        self.assertEqual("\n".join(missing), "", "add a line `- name: what it is` for each to the docstring")


class SuiteTests(SynchronousTestCase):
    def test_no_test_file_lies_where_make_test_doesnt_look(self) -> None:
        root = Path(__file__).parents[2]
        setup = ConfigParser()
        setup.read(root / "setup.cfg")
        paths = [root / path for path in setup["tool:pytest"]["testpaths"].split()]
        files = {path for path in (root / "tests").rglob("test_*.py") if path.name != "test_trial.py"}
        stray = [path for path in files if not set(paths) & set(path.parents)]
        self.assertEqual(stray, [])

    def test_no_layer_of_tests_imports_anothers(self) -> None:
        """What they share is in tests/support."""
        found = []
        for layer in LAYERS:
            others = "|".join(set(LAYERS) - {layer})
            wrong = re.compile(rf"^from tests\.(?:{others})[. ]", re.MULTILINE)
            found += [path.name for path in (TESTS / layer).rglob("*.py") if wrong.search(path.read_text())]
        self.assertEqual(found, [])

    def test_neither_support_nor_benchmarks_import_tests(self) -> None:
        wrong = {
            TESTS / "support": re.compile(r"^(?:from|import) tests\.(?!support)", re.MULTILINE),
            TESTS.parent / "bench": re.compile(r"^(?:from|import) tests\b", re.MULTILINE),
            TESTS.parent / "testbed": re.compile(r"^(?:from|import) tests\b", re.MULTILINE),
        }
        found = [
            path.name
            for folder, pattern in wrong.items()
            for path in folder.rglob("*.py")
            if pattern.search(path.read_text())
        ]
        self.assertEqual(found, [])

    def test_trial_runs_every_test_of_the_unit_layer(self) -> None:
        """A plain function would run by pytest alone."""
        functions = re.compile(r"^(?:async )?def test_\w+", re.MULTILINE)
        alone = {
            path.relative_to(UNIT).as_posix(): found
            for path in UNIT.rglob("test_*.py")
            if (found := functions.findall(path.read_text()))
        }
        self.assertEqual(alone, {})


def is_log(node: ast.expr) -> bool:
    """log, self.log, or either with an underscore."""
    match node:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name in ("log", "_log")
    return False


class LogTests(SynchronousTestCase):
    def test_no_event_has_a_field_that_twisteds_older_observers_take_for_their_own(self) -> None:
        taken = {"time", "system", "message", "format", "isError"}
        calls = [
            (path, node)
            for path, tree in modules()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_log(node.func.value)
        ]
        self.assertGreater(len(calls), 100)
        self.assertEqual(
            [f"{path}:{each.lineno}" for path, each in calls if taken & {key.arg for key in each.keywords}],
            [],
        )


def commands(command: Command, context: Context, path: str = "") -> Iterator[tuple[str, Command]]:
    """(words, command) of all that do something."""
    if not isinstance(command, Group):
        yield path, command
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from commands(below, Context(below, info_name=name, parent=context), f"{path} {name}".strip())


class CommandTests(SynchronousTestCase):
    def test_no_colour_is_for_dark_or_for_light_terminals_alone(self) -> None:
        """Usual palettes have these with a contrast below 2 to white, or blue to black."""
        poor = re.compile(r'"(?:bold )?(?:yellow|cyan|blue|white|black|bright_\w+)"')
        shown = [*(PACKAGE / "cli").rglob("*.py"), *(PACKAGE / "demo").rglob("*.py")]
        found = {path.name: poor.findall(path.read_text()) for path in shown}
        self.assertEqual({name: colours for name, colours in found.items() if colours}, {})

    def test_every_command_can_answer_a_program(self) -> None:
        found = dict(commands(main, Context(main)))
        self.assertGreater(len(found), 35)
        without = [
            path for path, each in found.items() if not any("--json" in option.opts for option in each.params)
        ]
        self.assertEqual(without, [])

    def test_every_command_says_what_its_exit_codes_mean(self) -> None:
        """docs/commands.md shows them all in one place."""
        silent = [
            path
            for path, each in commands(main, Context(main))
            if "Exit codes: 0 " not in " ".join((each.help or "").split())
        ]
        self.assertEqual(silent, [])

    def test_every_command_has_its_line_in_the_list_without_being_imported(self) -> None:
        assert isinstance(main, LazyGroup)
        places, helps = main._places, main._helps
        self.assertEqual(
            set(places) - set(helps), set(), "these have no line in `helps`, see hatwisted/cli/main.py"
        )
        for name, line in helps.items():
            command = main.get_command(Context(main), name)
            assert command is not None
            self.assertEqual(line, command.get_short_help_str(100), name)


class MakeTests(SynchronousTestCase):
    def test_its_help_names_every_target_and_fits_80_columns(self):
        text = MAKEFILE.read_text()
        (targets,) = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)
        said = re.findall(
            r"^\t@echo '(.*)'$", text.partition("\nhelp:\n")[2].partition("\n\n")[0], re.MULTILINE
        )
        named = {line.split()[1] for line in said if line.startswith("make ")}
        self.assertEqual(named, set(targets.split()) - {"help"})
        self.assertEqual([line for line in said if len(line) > 79], [])

    def test_soak_has_every_test_that_gets_more_tries_there(self) -> None:
        """Those that ask tests/support/soak.py how many, by themselves or by what they import; how long a test may
        take, which tests/conftest.py asks, isn't meant."""
        (soaked,) = re.findall(r"^SOAKED := ((?:.*\\\n)*.*)$", MAKEFILE.read_text(), re.MULTILINE)
        places = [TESTS.parent / each for each in soaked.replace("\\\n", " ").split()]
        self.assertEqual([str(place) for place in places if not place.exists()], [])
        imported = {
            "tests." + ".".join(path.relative_to(TESTS).with_suffix("").parts): IMPORTS.findall(
                path.read_text()
            )
            for path in TESTS.rglob("*.py")
            if path != TESTS / "conftest.py"
        }
        asking = {"tests.support.soak"}
        while more := {name for name, found in imported.items() if not asking.isdisjoint(found)} - asking:
            asking |= more
        files = {TESTS.parent / f"{name.replace('.', '/')}.py" for name in asking}
        tests = {path for path in files if path.name.startswith("test_")} - NOT_SOAKED
        self.assertGreater(len(tests), 60)
        left = [path for path in tests if path not in places and set(places).isdisjoint(path.parents)]
        self.assertEqual(sorted(map(str, left)), [], "add it to SOAKED in the Makefile")
