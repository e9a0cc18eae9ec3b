"""Packages of PyPI beside the checkout's environment, in another version than its own: once into the user's cache
folder, never into the environment."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from testbed.fetchedonce import cached_folder, fetched, run_fetcher

FETCH_SECONDS = 300.0
"""PySpark has 400 MB."""


@dataclass(frozen=True)
class PipPackage:
    """One, at one version, without what it needs: the environment has that."""

    name: str
    version: str

    @property
    def folder(self) -> Path:
        """To be put before others on the path of a Python."""
        return cached_folder(self.name, self.version)

    def missing(self) -> str | None:
        """None if it is there, else the reason why not. Fetches it the first time."""
        return fetched(self.folder, self._fetch)

    def _fetch(self) -> str | None:
        what = f"{self.name}=={self.version}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--upgrade", "--target", str(self.folder), what]
        return run_fetcher("pip", command, what, FETCH_SECONDS)
