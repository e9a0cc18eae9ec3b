"""The programs of examples/, started as their readers start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from testbed.processes import REPOSITORY, dies_with_us

FOLDER = REPOSITORY / "examples"
SECONDS = 300.0  # a limit for a hang: some start a JVM and a Spark job or two

CLIENT = (
    *("admin", "consumer", "delayed", "ordered", "producer", "transactional"),
    *("aio_consumer", "aio_producer", "aio_transactional"),
)
PIPELINE = ("landing", "sparksink", "sparksource")


def lines_of(name: str, folder: Path, *arguments: str) -> list[str]:
    """What a program prints; it must end well, a client's without a traceback (Spark's workers leave some)."""
    done = subprocess.run(
        [*dies_with_us(), sys.executable, str(FOLDER / f"{name}.py"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert name in PIPELINE or "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines()
