"""The process of `pipelinework.py`, as the demo sees it: spawned early, told to begin once the stores are at
rest, its output read."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProcessTransport
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from hatwisted.demo.cluster import DemoError, dies_with_us
from hatwisted.demo.screen import Screen

INSTALL = "pip install 'hatwisted[pipeline]'"
NEEDED = ("pyspark", "pyarrow", "deltalake", "matplotlib")
LONGEST_LINE = 64 * 1024  # bytes of a line of its output; ours have a few hundred


def missing_packages() -> list[str]:
    """Packages of the extra `pipeline` that aren't installed."""
    return [name for name in NEEDED if find_spec(name) is None]


class PipelineProcess(ProcessProtocol):
    """One run; `log_path` gets what Spark says.

    - reactor: the process's
    - screen: shows how it goes
    - folder: of stores and tables
    """

    def __init__(self, reactor: Any, screen: Screen, folder: str) -> None:
        self._reactor = reactor
        self._screen = screen
        self._folder = folder
        self.log_path = os.path.join(folder, "spark.log")
        self._process: IProcessTransport | None = None
        self._rest = b""
        self._heard = False
        self._begun = False
        self._failure: str | None = None
        self.ended: Deferred[None] = Deferred()
        """Fires when the work is done; fails with DemoError if it failed, or found the copies to differ."""

    def spawn(self, master: str, slave: str) -> None:
        """Start it; the stores' folders needn't exist yet."""
        command = [
            *dies_with_us(),
            sys.executable,
            "-m",
            "hatwisted.demo.pipelinework",
            master,
            slave,
            self._folder,
        ]
        with open(self.log_path, "wb") as log:
            files = {0: "w", 1: "r", 2: log.fileno()}
            self._process = self._reactor.spawnProcess(self, command[0], command, env=None, childFDs=files)

    def begin(self) -> None:
        """The stores don't change any more: land, audit, report."""
        self._begun = True
        if self._process is not None:
            self._process.writeToChild(0, b"\n")
        self._screen.doing("Spark starts")

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.signalProcess("KILL")

    def outReceived(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-LONGEST_LINE:]
        for line in lines:
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return  # a line of Java's
        if "failed" in event:
            self._failure = event["failed"]
        elif "done" in event:
            self._screen.step(event["done"])
        elif self._begun:
            self._screen.doing(event["doing"])

    def processEnded(self, reason: Failure) -> None:
        ended: Any = reason.value
        self._process = None
        self._screen.doing(None)
        if ended.exitCode == 0:
            self.ended.callback(None)
        else:
            self.ended.errback(
                DemoError(self._failure or f"the pipeline's process ended; see {self.log_path}")
            )
