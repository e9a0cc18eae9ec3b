"""What Spark starts: executors, and Python workers with the daemon that forks them, to be killed one at a time."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from testbed.processes import wait_until
from testbed.processtree import descendants

PYTHON = "pyspark.daemon"
"""In the command line of Python workers and of what forks them, but of no JVM."""
PATIENCE = 300.0
"""Seconds for what takes ten on an idle machine."""


def started_by(process: int, said: str = "") -> list[int]:
    """What it has started, and what those have. said: by their command lines, those with this alone."""
    return [each for each in descendants(process) if said in _command(each)]


def _command(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace")
    return ""


def kill_one(of: Iterable[int], chance: random.Random, said: str = "") -> None:
    """One of what these processes have started, any that is there. said: see started_by."""
    parents = list(of)

    def there() -> list[int]:
        return [each for parent in parents for each in started_by(parent, said)]

    wait_until(there, PATIENCE, "there is one to kill")
    with suppress(ProcessLookupError, IndexError):
        os.kill(chance.choice(there()), signal.SIGKILL)
