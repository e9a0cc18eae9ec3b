"""Pages of docs/: each block of commands that a reader is told to type is run by a test, or says why not."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.main import main
from hatwisted.config.keydocs import all_keys
from testbed.processes import REPOSITORY
from tests.support.pages import DOCS, Block, blocks, put_in
from tools import sitereference

RUN = {
    "README.md": "tests/system/test_readme.py",
    "docs/index.md": "tests/system/cli/test_up.py",
    "docs/tutorial.md": "tests/interop/test_attach.py",
    "docs/hardening.md": "tests/system/test_hardening.py",
    "docs/howto/*.md": "tests/system/test_howto.py",
    "docs/runbooks/*.md": "tests/system/test_runbooks.py",
    "docs/client.md": "tests/system/test_reference.py",
    "docs/operations.md": "tests/system/test_reference.py",
    "docs/tls.md": "tests/system/test_reference.py",
    "docs/accounts.md": "tests/system/test_reference.py",
    "docs/pipeline.md": "tests/system/test_reference.py",
    "docs/pipeline/*.md": "tests/system/test_reference.py",
    "docs/metrics.md": "tests/system/metrics/test_prometheus.py",
    "docs/systemd.md": "tests/system/test_systemd.py",
    "docs/containers.md": "tests/system/test_containers.py",
}
"""Pages that say what to type, and the test of each."""
MARK = re.compile(r"run by (?P<test>tests/[\w/]+\.py)|not run: (?P<reason>.{10,})")


class ExecutedTests(SynchronousTestCase):
    def found(self) -> dict[str, list[Block]]:
        """Every such page, with its blocks."""
        return {
            page.relative_to(REPOSITORY).as_posix(): blocks(page)
            for pattern in RUN
            for page in sorted(REPOSITORY.glob(pattern))
        }

    def test_each_page_has_its_test(self) -> None:
        found = self.found()
        self.assertGreater(len(found), 15)
        for pattern, test in RUN.items():
            self.assertTrue(list(REPOSITORY.glob(pattern)), pattern)
            self.assertTrue((REPOSITORY / test).is_file(), test)

    def test_a_block_that_its_pages_test_leaves_out_says_why(self) -> None:
        marks = [(page, block.mark) for page, all_of_it in self.found().items() for block in all_of_it]
        self.assertGreater(len(marks), 40)
        for page, mark in marks:
            if mark:
                match = MARK.fullmatch(mark)
                self.assertIsNotNone(match, f"{page}: {mark}")
                if match and match["test"]:
                    self.assertTrue((REPOSITORY / match["test"]).is_file(), f"{page}: {mark}")

    def test_a_program_of_python_with_a_test_of_its_own_is_named_there(self) -> None:
        """All others of the pipeline's pages are run by tests/pipeline/programs/test_pages.py, which says so."""
        marks = [
            (page, block.mark)
            for page in sorted(DOCS.rglob("*.md"))
            for block in blocks(page, "python")
            if block.mark
        ]
        self.assertGreater(len(marks), 2)
        for page, mark in marks:
            match = MARK.fullmatch(mark)
            self.assertIsNotNone(match, f"{page}: {mark}")
            if match and match["test"]:
                test = REPOSITORY / match["test"]
                self.assertTrue(test.is_file(), f"{page}: {mark}")
                self.assertIn(page.name, test.read_text(), f"{mark}: doesn't name {page}")

    def test_most_are_run(self) -> None:
        every = [block for all_of_it in self.found().values() for block in all_of_it]
        left_out = [block for block in every if block.mark.startswith("not run")]
        self.assertLess(len(left_out), len(every) / 8)


class BlockTests(SynchronousTestCase):
    def page(self, text: str) -> list[Block]:
        path = self.mktemp()
        with open(path, "w") as file:
            file.write(text)
        return blocks(Path(path))

    def test_marks_and_headings(self) -> None:
        found = self.page("# A\n\n```sh\na\n```\n\n## B\n\n<!-- not run: x -->\n\n```sh\nb\nc\n```\n")
        self.assertEqual(found, [Block("a\n", "", ""), Block("b\nc\n", "not run: x", "B")])

    def test_a_block_of_something_else_is_none(self) -> None:
        self.assertEqual(self.page("```\nsaid\n```\n\n```python\nprint()\n```\n"), [])

    def test_ports_are_replaced_as_whole_words(self) -> None:
        text = "host:9876 19876 98765 10.0.0.1:9876;b"
        self.assertEqual(put_in(text, {"9876": 5}), "host:5 19876 98765 10.0.0.1:5;b")


class NameTests(SynchronousTestCase):
    """What pages name is there: commands with their options, files of the checkout, tests."""

    PAGES = (*sorted(DOCS.rglob("*.md")), REPOSITORY / "README.md", REPOSITORY / "examples" / "README.md")

    def commands(self, text: str) -> Iterator[str]:
        """Every `hatwisted ...` of a page's code, whatever stands around it in a line."""
        yield from re.findall(r"`hatwisted ([^`]+)`", text)
        fenced = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        for block in (code for language, code in fenced if language in ("", "sh", "text")):
            for line in block.replace("\\\n", " ").splitlines():
                parts = re.split(r"\||;|&&", line.partition("#")[0])
                yield from re.findall(r"^\W*hatwisted (.*)", "\n".join(parts), re.MULTILINE)

    def wrong(self, words: list[str]) -> str | None:
        """What of a command isn't there."""
        command: click.Command = main
        context = click.Context(main)
        while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
            below = command.get_command(context, words[0])
            if below is None:
                return words[0]
            command, words = below, words[1:]
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        asked = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        return ", ".join(asked - known - {"-h", "--help"}) or None

    def test_every_command_with_its_options(self) -> None:
        count = 0
        for page in self.PAGES:
            for text in self.commands(page.read_text()):
                words = [word.strip("'\"") for word in text.split()]
                firsts = words[0].split("|") if words else []
                for first in firsts:
                    count += 1
                    self.assertIsNone(self.wrong([first, *words[1:]]), f"{page.name}: hatwisted {text}")
        self.assertGreater(count, 100)

    def test_one_that_isnt_there_is_noticed(self) -> None:
        self.assertEqual(self.wrong(["topic", "paint"]), "paint")
        self.assertEqual(self.wrong(["topic", "list", "--colour=red"]), "--colour")
        self.assertIsNone(self.wrong(["group", "reset", "billing", "Orders", "2h", "--yes"]))

    def test_every_test_that_a_page_leans_on(self) -> None:
        count = 0
        for page in self.PAGES:
            text = page.read_text()
            for path in re.findall(r"tests/[\w/]+\.py", text):
                count += 1
                self.assertTrue((REPOSITORY / path).is_file(), f"{page.name}: {path}")
            for path, name in re.findall(r"`(tests/[\w/]+\.py)`\s+`(test_\w+)`", text):
                self.assertIn(f"def {name}(", (REPOSITORY / path).read_text(), page.name)
        self.assertGreater(count, 80)


class PythonTests(SynchronousTestCase):
    """Programs on pages are Python, and what they import from here is there."""

    PAGES = (*sorted(DOCS.rglob("*.md")), REPOSITORY / "README.md")
    FENCED = re.compile(r"^( *)```python\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)

    def parsed(self) -> Iterator[tuple[str, ast.Module]]:
        """Each block with its page; `await` may stand outside of a function, as in a piece of one."""
        for page in self.PAGES:
            for _, code in self.FENCED.findall(page.read_text()):
                flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                yield page.name, compile(textwrap.dedent(code), page.name, "exec", flags, dont_inherit=True)

    def test_each_is_python_whose_imports_are_there(self) -> None:
        blocks = imported = 0
        for page, tree in self.parsed():
            blocks += 1
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hatwisted"):
                    for each in node.names:
                        imported += 1
                        self.assertTrue(
                            is_there(node.module or "", each.name), f"{page}: {ast.unparse(node)}"
                        )
        self.assertGreater(blocks, 20)
        self.assertGreater(imported, 15)

    def test_a_name_that_isnt_there_is_noticed(self) -> None:
        self.assertTrue(is_there("hatwisted.aio", "Cluster"))
        self.assertTrue(is_there("hatwisted.pipeline", "jobs"))
        self.assertFalse(is_there("hatwisted.aio", "Clutter"))
        self.assertFalse(is_there("hatwisted.nowhere", "Cluster"))


def is_there(module: str, name: str) -> bool:
    """Has a module that name? The pipeline's are read, as they need Spark to be imported."""
    if not module.startswith("hatwisted.pipeline"):
        try:
            return hasattr(import_module(module), name)
        except ImportError:
            return False
    path = REPOSITORY.joinpath(*module.split("."))
    if (path / f"{name}.py").is_file() or (path / name).is_dir():
        return True
    source = next(filter(Path.is_file, (path.with_suffix(".py"), path / "__init__.py")), None)
    bound = rf"^(?:class|def) {name}\b|^{name}\b.*=|import (?:\([^)]*|.*)\b{name}\b"
    return source is not None and re.search(bound, source.read_text(), re.MULTILINE) is not None


class MadeTests(SynchronousTestCase):
    """The pages that are made while the site is built."""

    def rows(self, page: str) -> list[str]:
        """Of all tables, each of two cells."""
        found = [line for line in page.splitlines() if line.startswith("| ")]
        for row in found:
            self.assertEqual(len(re.findall(r"(?<!\\)\|", row)), 3, row)
        return found

    def test_every_key_has_a_row_with_its_default(self) -> None:
        rows = self.rows(sitereference.configuration())
        for server in sitereference.SERVERS:
            for doc in all_keys(server):
                told = [row for row in rows if f"`{doc.key}`</a> |" in row]
                self.assertTrue(told, doc.key)
                self.assertTrue(any((doc.default or "no default") in row for row in told), doc.key)

    def test_every_key_can_be_linked_to(self) -> None:
        names = re.findall(r'<a class="key" id="(.*?)" href="#\1">', sitereference.configuration())
        keys = {server: [doc.key for doc in all_keys(server)] for server in sitereference.SERVERS}
        wanted = keys["broker"] + [f"namesrv-{key}" for key in keys["name server"]]
        self.assertEqual(sorted(names), sorted(wanted))

    def test_every_command_has_its_options_once(self) -> None:
        page = sitereference.commands()
        self.rows(page)
        shared, *each = re.split(r"^## hatwisted ", page, flags=re.MULTILINE)
        self.assertGreater(len(each), 35)
        for name in ("--credentials", "--json", "--namesrv"):
            self.assertIn(name, shared)
        (create,) = (text for text in each if text.startswith("topic create\n"))
        self.assertIn("| `-q, --queues", create)
        self.assertNotIn("| `--credentials", create)
        self.assertIn("`--credentials`", create)


class SiteTests(SynchronousTestCase):
    def test_every_page_is_in_the_navigation(self) -> None:
        """Sphinx warns of one that isn't, but not before it has built everything."""
        listed = set()
        for index in DOCS.rglob("*.md"):
            for tree in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(), re.DOTALL):
                entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
                for entry in entries:
                    name = entry.rpartition("<")[2].rstrip(">") if "<" in entry else entry
                    listed |= set(index.parent.glob(f"{name}.md"))
        pages = {path for path in DOCS.rglob("*.md") if path != DOCS / "index.md"}
        self.assertEqual(sorted(str(path.relative_to(DOCS)) for path in pages - listed), [])
