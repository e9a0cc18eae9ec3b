"""A mistyped command names the nearest one; one that is like none of them doesn't."""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner, Result
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.host import conf
from hatwisted.cli.lazygroup import LazyGroup
from hatwisted.cli.main import main


def lists(command: click.Command, *path: str) -> Iterator[tuple[str, str]]:
    """Of each group below: what it is called, and its list of commands on a terminal of 80 columns."""
    if isinstance(command, click.Group):
        context = click.Context(command, info_name="any", terminal_width=80)
        yield " ".join(path), command.get_help(context).partition("Commands:")[2]
        for name in command.list_commands(context):
            if (inner := command.get_command(context, name)) is not None:
                yield from lists(inner, *path, name)


class MistypedTests(SynchronousTestCase):
    def said(self, *words: str) -> str:
        done = CliRunner().invoke(main, words)
        self.assertEqual(done.exit_code, 2)
        return done.output

    def test_the_nearest_command_is_named(self) -> None:
        self.assertIn("No such command 'statsu'; did you mean status?", self.said("statsu"))

    def test_a_word_like_none_of_them(self) -> None:
        said = self.said("qqqqqq")
        self.assertIn("No such command 'qqqqqq'", said)
        self.assertNotIn("did you mean", said)


class OutputTests(SynchronousTestCase):
    def ended(self, error: OSError) -> Result:
        def echo(*_: object, **__: object) -> None:
            raise error

        self.patch(conf.click, "echo", echo)
        return CliRunner().invoke(main, ["conf", "sample"])

    def test_a_full_disk_is_one_line(self) -> None:
        done = self.ended(OSError(errno.ENOSPC, "No space left on device"))
        self.assertEqual((done.exit_code, done.output), (2, "Error: input/output: No space left on device\n"))

    def test_who_reads_no_more_is_told_nothing(self) -> None:
        done = self.ended(BrokenPipeError(errno.EPIPE, "Broken pipe"))
        self.assertEqual((done.exit_code, done.output), (1, ""))


class ListTests(SynchronousTestCase):
    def test_each_command_has_a_line_that_says_it_all(self) -> None:
        found = dict(lists(main, "hatwisted"))
        self.assertIn("lag", found["hatwisted group"])
        self.assertEqual({name: said for name, said in found.items() if "..." in said}, {})


class GarbageTests(SynchronousTestCase):
    def imported(self, content: str) -> click.Command | None:
        """The command of a module that wasn't imported yet."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "lazycommand.py").write_text(content)
        self.patch(sys, "path", [str(folder), *sys.path])
        self.addCleanup(sys.modules.pop, "lazycommand", None)
        group = LazyGroup(places={"x": "lazycommand:x"})
        return group.get_command(click.Context(group), "x")

    def test_it_is_looked_for_after_an_import_alone(self) -> None:
        found = self.imported("import click, gc\nx = click.Command(str(gc.isenabled()))")
        self.assertEqual((found and found.name, gc.isenabled()), ("False", True))
        self.assertFalse([each for each in gc.get_objects() if each is found])

    def test_so_it_is_after_one_that_fails(self) -> None:
        with self.assertRaisesRegex(ImportError, "nothing there"):
            self.imported("raise ImportError('nothing there')")
        self.assertTrue(gc.isenabled())
