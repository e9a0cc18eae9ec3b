"""docs/tutorial.md's commands, as they stand there, for a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from testbed.processes import REPOSITORY

TUTORIAL = REPOSITORY / "docs" / "tutorial.md"
SKIPPED = "<!-- not run by the test"
SECONDS = 120.0


def blocks() -> list[str]:
    """Each block of commands that is to be run, in order."""
    found = re.split(r"^```sh\n(.*?)^```$", TUTORIAL.read_text(), flags=re.DOTALL | re.MULTILINE)
    pairs = zip(found[::2], found[1::2], strict=False)
    return [code for before, code in pairs if SKIPPED not in before[-120:]]


def run_block(code: str, folder: Path, name_server: str) -> subprocess.CompletedProcess[str]:
    """One block in a shell, in `folder`.

    - code: its lines
    - folder: where
    - name_server: in place of the page's
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", code.replace("namesrv:9876", name_server)],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def stop_slave(folder: Path) -> None:
    """The one that the page has started, if it still runs."""
    ending = "kill $(cat copy/slave.pid) && while [ -e copy/slave.pid ]; do sleep 0.2; done"
    subprocess.run(["bash", "-c", ending], cwd=folder, capture_output=True, timeout=SECONDS)
