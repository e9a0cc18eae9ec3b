"""Pages of docs/: each block of commands that a reader is told to type is run by a test, or says why not."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from testbed.processes import REPOSITORY
from tests.support.pages import DOCS, Block, blocks, put_in

RUN = {
    "README.md": "tests/system/test_readme.py",
    "docs/index.md": "tests/system/cli/test_up.py",
    "docs/tutorial.md": "tests/interop/test_attach.py",
    "docs/hardening.md": "tests/system/test_hardening.py",
    "docs/howto/*.md": "tests/system/test_howto.py",
    "docs/systemd.md": "tests/system/test_systemd.py",
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
        self.assertGreater(len(found), 9)
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
