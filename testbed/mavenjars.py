"""Programs of others whose jars Maven fetches: once into the user's cache folder, never into the checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FETCH_SECONDS = 300  # the first fetch loads some 40 to 100 jars

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hatwisted</groupId>
  <artifactId>jars</artifactId>
  <version>{version}</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = (
    "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    "<version>{version}</version>{classifier}{exclusions}</dependency>"
)
EXCLUSIONS = (
    "<exclusions><exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
    "</exclusions>"
)


class JarsMissing(Exception):
    """Java, Maven or the jars can't be had here; the message says which."""


@dataclass(frozen=True)
class MavenJars:
    """One program.

    - name: as a person calls it
    - group: its group id
    - artifacts: ids; they come with all that they need
    - version: of all of them
    - without: GROUP:ARTIFACT, what they need and comes in another way
    - others: GROUP:ARTIFACT:VERSION or GROUP:ARTIFACT:VERSION:CLASSIFIER, besides
    """

    name: str
    group: str
    artifacts: Sequence[str]
    version: str
    without: str = ""
    others: Sequence[str] = ()

    @property
    def folder(self) -> Path:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return Path(base) / "hatwisted" / f"{self.name.lower()}-{self.version}"

    def missing(self) -> str | None:
        """None if the program can run here, else the reason why not. Fetches it the first time."""
        try:
            self.install()
        except JarsMissing as reason:
            return str(reason)
        return None

    def install(self) -> Path:
        """The folder with all jars; fetched by Maven unless it is there. Safe to call from several processes."""
        folder = self.folder
        if shutil.which("java") is None:
            raise JarsMissing("no java on the PATH")
        if (folder / "complete").exists():
            return folder
        if shutil.which("mvn") is None:
            raise JarsMissing(f"no mvn on the PATH and no {self.name} {self.version} in {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "fetch.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "complete").exists():
                self._fetch(folder)
                (folder / "complete").touch()
        return folder

    def _fetch(self, folder: Path) -> None:
        what = f"{self.name} {self.version}"
        print(f"fetching {what} by Maven into {folder}", file=sys.stderr, flush=True)
        wanted = [f"{self.group}:{each}:{self.version}" for each in self.artifacts]
        dependencies = "\n".join(map(self._dependency, [*wanted, *self.others]))
        with tempfile.TemporaryDirectory() as scratch:
            pom = Path(scratch) / "pom.xml"
            pom.write_text(POM.format(version=self.version, dependencies=dependencies))
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS)
            except subprocess.TimeoutExpired:
                raise JarsMissing(f"Maven took longer than {FETCH_SECONDS} s for {what}") from None
        if done.returncode:
            errors = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            raise JarsMissing(f"Maven can't fetch {what}: {' '.join(errors[:2])[:400]}")

    def _dependency(self, coordinates: str) -> str:
        group, artifact, version, *classified = coordinates.split(":")
        left_out, _, name = self.without.partition(":")
        exclusions = EXCLUSIONS.format(group=left_out, artifact=name) if name else ""
        classifier = "".join(f"<classifier>{each}</classifier>" for each in classified)
        return DEPENDENCY.format(
            group=group, artifact=artifact, version=version, classifier=classifier, exclusions=exclusions
        )
