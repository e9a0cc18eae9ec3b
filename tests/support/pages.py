"""The commands and programs of documentation pages, as they stand there.

A block is run by its page's test, unless a comment before it says who runs it, or why nobody does:
`<!-- run by tests/... -->`, `<!-- not run: ... -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from testbed.processes import REPOSITORY
from tests.support.patientprogram import folder_for_path

DOCS = REPOSITORY / "docs"
SECONDS = 300.0  # a limit for a hang: some blocks start Spark
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n\n)?(?P<indent> *)```(?P<language>\w+)\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """code: its lines; mark: the comment before it, "" for none; heading: the section that it stands in."""

    code: str
    mark: str
    heading: str


def blocks(page: Path, language: str = "sh") -> list[Block]:
    """Every block of a page in a language, in its order.

    - page: its file
    - language: sh for commands, python for programs
    """
    text = page.read_text()
    headings = [(match.start(), match[1]) for match in HEADING.finditer(text)]
    found = []
    for match in BLOCK.finditer(text):
        if match["language"] != language:
            continue
        above = [title for at, title in headings if at < match.start()]
        found.append(Block(match["code"], match["mark"] or "", above[-1] if above else ""))
    return found


def to_run(page: Path, language: str = "sh") -> list[str]:
    """Those that the page's own test runs. language: see blocks."""
    return [block.code for block in blocks(page, language) if not block.mark]


def put_in(text: str, replaced: Mapping[str, object]) -> str:
    """A page's ports, addresses and folders in favour of a test's. replaced: theirs -> ours, whole words."""
    for shown, ours in replaced.items():
        text = re.sub(rf"(?<![\w.]){re.escape(shown)}(?!\w)", str(ours), text)
    return text


def run_block(
    code: str, folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """One block in a shell that ends with its first failure.

    - code: its lines
    - folder: where
    - environment: on top of this process's
    """
    path = os.pathsep.join((folder_for_path(), str(Path(sys.executable).parent), os.environ["PATH"]))
    ours = {"PATH": path, "PYTHONPATH": str(REPOSITORY), "HOME": str(folder)}
    return subprocess.run(
        ["bash", "-e", "-c", code],
        cwd=folder,
        env={**os.environ, **ours, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
