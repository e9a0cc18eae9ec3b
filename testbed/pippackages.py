"""Packages of PyPI beside the checkout's environment, in another version than its own: once into the user's cache
folder, never into the environment."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from testbed import javarocketmq

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
        return javarocketmq.cache_folder().parent / f"{self.name}-{self.version}"

    def missing(self) -> str | None:
        """None if it is there, else the reason why not. Fetches it the first time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "fetch.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return None if (self.folder / "complete").exists() else self._fetch()

    def _fetch(self) -> str | None:
        what = f"{self.name}=={self.version}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--upgrade", "--target", str(self.folder), what]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS)
        except subprocess.TimeoutExpired:
            return f"pip took longer than {FETCH_SECONDS:g} s for {what}"
        if done.returncode:
            return f"pip can't fetch {what}: {done.stderr.strip()[-300:]}"
        (self.folder / "complete").touch()
        return None
