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


class UpGroup:
    """Started by docs/howto/index.md's command; its ports stand in place of a page's.

    - folder: where commands run
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (command,) = to_run(DOCS / "howto" / "index.md")
        out = folder / "up.out"
        with out.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command.split()], cwd=folder, stdout=file, stderr=subprocess.STDOUT
            )
        try:
            wait_until(lambda: self._ready(out), PATIENCE, "the group is ready")
        except TimeoutError as error:
            self.process.send_signal(signal.SIGINT)
            raise AssertionError(f"{error}; it says: {out.read_text()}") from None
        found = READY.search(out.read_text())
        assert found is not None, f"it has ended with {self.process.poll()}: {out.read_text()}"
        self.names, self.master, self.slave = found[1], int(found[2]), int(found[3])
        self.replaced: dict[str, object] = {
            "127.0.0.1:9876": self.names,
            "10911": self.master,
            "10921": self.slave,
            "5557": free_port(),
            "8080": free_port(),
        }

    def _ready(self, out: Path) -> bool:
        """Is there nothing to wait for any more?"""
        return READY.search(out.read_text()) is not None or self.process.poll() is not None

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

    def end(self) -> None:
        """Stop it, and what a page has started beside it, by their pid files."""
        for pid in self.folder.glob("*/*.pid"):
            run_block(f"kill $(cat {pid}) && while [ -e {pid} ]; do sleep 0.2; done", self.folder)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)


def said_in_order(said: str, expected: tuple[str, ...]) -> None:
    """Each of these is there, after the one before it."""
    at = 0
    for words in expected:
        found = said.find(words, at)
        assert found >= 0, (words, said)
        at = found + len(words)
