"""Programs of others that npm fetches: once into the user's cache folder, never into the checkout."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from testbed.fetchedonce import cached_folder, fetched, is_complete, run_fetcher

FETCH_SECONDS = 180.0


@dataclass(frozen=True)
class NpmPackage:
    """One, at one version."""

    name: str
    version: str

    @property
    def folder(self) -> Path:
        return cached_folder(self.name, self.version)

    @property
    def installed(self) -> Path:
        return self.folder / "node_modules" / self.name

    def missing(self) -> str | None:
        """None if it can run here, else the reason why not. Fetches it the first time."""
        if shutil.which("node") is None:
            return "no node on the PATH"
        if is_complete(self.folder):
            return None
        if shutil.which("npm") is None:
            return f"no npm on the PATH and no {self.name} {self.version} in {self.folder}"
        return fetched(self.folder, self._fetch)

    def _fetch(self) -> str | None:
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        command += ["--prefix", str(self.folder), f"{self.name}@{self.version}"]
        return run_fetcher("npm", command, f"{self.name} {self.version}", FETCH_SECONDS)
