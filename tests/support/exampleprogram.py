"""The programs of examples/, started as their readers start them; those of the client wait longer for answers than
by themselves: see tests/support/patience.py.

python -m tests.support.exampleprogram NAME WORDS...
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

from hatwisted import aio, client
from testbed.processes import REPOSITORY, dies_with_us
from tests.support.patience import patient

FOLDER = REPOSITORY / "examples"
SECONDS = 300.0  # a limit for a hang: some start a JVM and a Spark job or two

CLIENT = (
    *("admin", "consumer", "delayed", "ordered", "producer", "transactional"),
    *("aio_consumer", "aio_producer", "aio_transactional"),
)
PIPELINE = ("landing", "sparksink", "sparksource")


def started(name: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A program that runs."""
    program = [str(FOLDER / f"{name}.py")] if name in PIPELINE else ["-m", __name__, name]
    return subprocess.Popen(
        [*dies_with_us(), sys.executable, *program, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines_of(name: str, folder: Path, *arguments: str) -> list[str]:
    """What a program prints; it must end well, a client's without a traceback (Spark's workers leave some)."""
    with started(name, folder, *arguments) as process:
        try:
            said, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, said + errors
    assert name in PIPELINE or "Traceback" not in errors, errors
    return said.splitlines()


def main(name: str, *arguments: str) -> None:
    """Run one of the client's."""
    of_twisted, of_asyncio = client.Cluster, aio.Cluster
    client.Cluster = lambda *words, **named: patient(of_twisted(*words, **named))  # type: ignore[misc,assignment]
    aio.Cluster = lambda *words, **named: patient(of_asyncio(*words, **named))  # type: ignore[misc,assignment]
    sys.argv = [name, *arguments]
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
