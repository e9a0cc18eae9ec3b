"""Servers as processes on a `leash`, and how they are asked: the real parts of a `localgroup`.

A thread for each reads its output, so that none ever waits for another's.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.cli.cluster.newslave import answers, twistd
from hatwisted.cli.host.groupplan import Member
from hatwisted.cli.host.leash import leashed
from hatwisted.cli.host.localgroup import GroupParts
from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.survey import Survey

LINES: Final = 10_000
"""Of output that wait to be shown; a server that says more waits."""


class Lines:
    """What servers say, line by line, in the order in which it came."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[tuple[str, str]] = queue.Queue(LINES)

    def read(self, name: str, stream: Iterable[str]) -> None:
        """All that `name` says until it ends; waits while nobody takes it."""
        for line in stream:
            self._waiting.put((name, line.rstrip("\n")))

    def take(self, seconds: float) -> tuple[str, str] | None:
        """(name, line), as `GroupParts` has it."""
        try:
            return self._waiting.get(timeout=seconds)
        except queue.Empty:
            return None


class ServerProcess:
    """A `localgroup.Server`.

    - member: what it is
    - folder: where it runs
    - lines: take what it says
    """

    def __init__(self, member: Member, folder: Path, lines: Lines) -> None:
        self._process = subprocess.Popen(
            leashed(twistd(), "-n", "--pidfile=", "--logfile=-", *member.words),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # the terminal's Ctrl-C is ours alone: they end in order
        )
        said = self._process.stdout
        threading.Thread(target=lines.read, args=(member.name, said), daemon=True).start()

    def ended_with(self) -> int | None:
        """As Server."""
        return self._process.poll()

    def terminate(self) -> None:
        """As Server."""
        self._process.terminate()

    def kill(self) -> None:
        """As Server."""
        self._process.kill()
        self._process.wait()


def slaves_of(names: str, master: str) -> int:
    """How many of its slaves are level; 0 as long as it doesn't answer.

    - names: address of the name server
    - master: its own
    """
    driver = BlockingDriver(Links(ClusterSettings(name_servers=(names,))))
    try:
        words = driver.run(Survey(ClusterLink(driver, names).session).broker(master))
    finally:
        driver.wait(driver.close())
    return 0 if words.error is not None else int((words.ha or {}).get("inSyncSlaveNums") or 0)


def process_parts(folder: Path) -> GroupParts:
    """Of a group whose servers run in `folder`."""
    lines = Lines()
    return GroupParts(
        start=lambda member: ServerProcess(member, folder, lines),
        take=lines.take,
        answers=answers,
        slaves=slaves_of,
        seconds=time.monotonic,
    )
