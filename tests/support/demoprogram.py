"""`make run`, as `python -m hatwisted.demo`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from testbed.processes import REPOSITORY

LIMIT = 560.0  # s; the slave learns of new topics every 10 s, and Spark starts


def demo(folder: Path, *arguments: str, path: Path = REPOSITORY) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hatwisted.demo", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{path}:{REPOSITORY}", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # a suite that runs in the background of a shell has inherited that Ctrl-C means nothing
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        output, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    return process.returncode, output
