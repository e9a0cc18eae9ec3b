"""Programs in process groups of their own, as a shell makes one: killed or interrupted with all they start."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from testbed.processes import REPOSITORY

Program = subprocess.Popen[str]
Found = TypeVar("Found")


def has_members(program: Program) -> bool:
    """Does anything still run that this one, dead or alive, has started, whatever group that is in?"""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # of a process that has just gone
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(session) == program.pid and state not in "ZX":
                return True
    return False


@contextmanager
def process_group(*command: str, **streams: Any) -> Iterator[Program]:
    """A command started in the checkout, `streams` as Popen takes them; nothing of its group is left behind."""
    process = subprocess.Popen(command, cwd=REPOSITORY, text=True, start_new_session=True, **streams)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def when_started(program: Program, log: Path, look: Callable[[], Found | None], seconds: float) -> Found:
    """What `look` finds once a server runs; before that it's nothing.

    - log: of the server, which is told if it ends before
    - seconds: that it may take
    """
    until = time.monotonic() + seconds
    while not (found := look()):
        assert program.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
        time.sleep(0.1)
    return found
