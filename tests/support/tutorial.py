"""docs/tutorial.md's commands, as they stand there, for a shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import pages

TUTORIAL = pages.DOCS / "tutorial.md"


def blocks() -> list[str]:
    """Each block of commands that is to be run, in order."""
    return pages.to_run(TUTORIAL)


def run_block(code: str, folder: Path, name_server: str) -> subprocess.CompletedProcess[str]:
    """One block in a shell, in `folder`.

    - code: its lines
    - folder: where
    - name_server: in place of the page's
    """
    return pages.run_block(pages.put_in(code, {"namesrv:9876": name_server}), folder)


def stop_slave(folder: Path) -> None:
    """The one that the page has started, if it still runs."""
    pages.run_block("kill $(cat copy/slave.pid) && while [ -e copy/slave.pid ]; do sleep 0.2; done", folder)
