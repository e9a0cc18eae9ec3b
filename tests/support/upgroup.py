"""The group that `hatwisted up` starts, for the commands of documentation pages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from hatwisted.pipeline.spark.javahome import find_java_home
from testbed.brokergroup import log_end_of
from testbed.processes import free_port, wait_until
from tests.support.pages import DOCS, put_in, run_block, to_run
from tests.support.quickspark import quick_start

READY = re.compile(r"ready: name server (\S+), master \S+:(\d+), slave \S+:(\d+)")
PATIENCE = 120.0
SPARK = tuple(f"pipeline {each}" for each in ("audit", "land -n", "report", "export", "reindex"))
"""Commands that start one."""


class Upped:
    """`hatwisted up` as it runs in a folder, once it says ready. That it waits for another one's ports
    stands on standard error.

    - folder: where it runs
    - words: its options
    """

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, self.errors = folder, folder / "up.err"
        self._path = folder / "up.out"
        command = [sys.executable, "-m", "hatwisted", "up", *words]
        with self._path.open("w") as out, self.errors.open("w") as errors:
            self.process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=errors)
        try:
            wait_until(self._is_ready, PATIENCE, "the group is ready")
        except TimeoutError as error:
            self.process.send_signal(signal.SIGINT)
            raise AssertionError(f"{error}; it says: {self.text()}{self.errors.read_text()}") from None
        found = READY.search(self.text())
        assert found is not None, (self.process.poll(), self.text(), self.errors.read_text())
        self.names, self.master, self.slave = found[1], int(found[2]), int(found[3])

    def _is_ready(self) -> bool:
        """Is there nothing to wait for any more?"""
        return READY.search(self.text()) is not None or self.process.poll() is not None

    def text(self) -> str:
        """What it has said on standard output."""
        return self._path.read_text()

    def end(self) -> int:
        """Stop it as Ctrl-C does; its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


class UpGroup(Upped):
    """Started by docs/howto/index.md's command; its ports stand in place of a page's."""

    def __init__(self, folder: Path) -> None:
        (command,) = to_run(DOCS / "howto" / "index.md")
        name, up, *words = command.split()
        assert (name, up) == ("hatwisted", "up"), command
        super().__init__(folder, *words)
        self.replaced: dict[str, object] = {
            "127.0.0.1:9876": self.names,
            "10911": self.master,
            "10921": self.slave,
            "5557": free_port(),
            "8080": free_port(),
        }

    def run(self, code: str) -> str:
        """What a block prints; it has to end with 0."""
        environment = {"NAMESRV_ADDR": self.names}
        if any(command in code for command in SPARK):
            environment |= quick_start(find_java_home(os.environ))
        done = run_block(put_in(code, self.replaced), self.folder, environment)
        assert done.returncode == 0, (code, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    def level(self) -> None:
        """Wait until the slave has what its master has."""
        wait_until(lambda: log_end_of(self.master) == log_end_of(self.slave), PATIENCE, "the slave is level")

    def end(self) -> int:
        """Stop it, and what a page has started beside it, by their pid files."""
        for pid in self.folder.glob("*/*.pid"):
            run_block(f"kill $(cat {pid}) && while [ -e {pid} ]; do sleep 0.2; done", self.folder)
        return super().end()


def said_in_order(said: str, expected: tuple[str, ...]) -> None:
    """Each of these is there, after the one before it."""
    at = 0
    for words in expected:
        found = said.find(words, at)
        assert found >= 0, (words, said)
        at = found + len(words)
