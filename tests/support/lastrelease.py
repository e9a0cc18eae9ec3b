"""The last release of a checkout, by its history: what an upgrade begins with.

Its tag (vX.Y.Z), or where tags weren't fetched the last commit that has changed CHANGELOG.md, which releases alone
do. A shallow clone without that tag says nothing of a release: its oldest commit seems to have written every file.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple


class Unknown(Exception):
    """Why there is none."""


class Release(NamedTuple):
    """version: as its files say; commit: of it; by: how it was found."""

    version: str
    commit: str
    by: str


def _git(checkout: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(checkout), *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def last_release(checkout: Path) -> Release:
    """Raises Unknown, with what to do."""
    tag = _git(checkout, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    commit = _git(checkout, "rev-list", "-1", tag or "HEAD", *(() if tag else ("--", "CHANGELOG.md")))
    if not commit:
        raise Unknown(f"{checkout} has no history of git")
    if not tag and commit in _boundary(checkout):
        raise Unknown("a shallow clone without the last release: git fetch --unshallow --tags")
    found = re.search(
        r'^__version__ = "(.+)"$', _git(checkout, "show", f"{commit}:hatwisted/__init__.py"), re.M
    )
    if found is None:
        raise Unknown(f"commit {commit} names no version")
    return Release(found[1], commit, f"tag {tag}" if tag else "the last change of CHANGELOG.md")


def _boundary(checkout: Path) -> set[str]:
    """Commits whose parents a shallow clone lacks."""
    path = _git(checkout, "rev-parse", "--git-path", "shallow")
    shallow = checkout / path
    return set(shallow.read_text().split()) if path and shallow.is_file() else set()


def sources(checkout: Path, release: Release, folder: Path) -> Path:
    """A release's files, in a folder."""
    made = subprocess.run(
        ["git", "-C", str(checkout), "archive", release.commit], capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
