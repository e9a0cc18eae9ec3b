"""`make dist`: an sdist and a wheel whose bytes depend on nothing but the sources, in dist/.

setuptools writes the wheel reproducibly once SOURCE_DATE_EPOCH is set, but not the sdist: its archive has the
times, owners and permissions of whoever builds it. So the sdist is packed a second time, and the wheel is built
from what that unpacks to, as `pip install` of the sdist does. The sdist is built from a copy without what
.gitignore names: an earlier build's egg-info would add files of its own. The wheel's compiled modules ask for the
system's C library alone, so auditwheel names the wheel for every Linux that has one of that age (manylinux).

The time stamp of every file is the date of the latest release in CHANGELOG.md, unless SOURCE_DATE_EPOCH is set:
the same with and without a git repository around.
"""

from __future__ import annotations

import datetime
import gzip
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
LATEST_RELEASE = re.compile(r"^## (\S+) \((\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)


def main() -> None:
    """Build into dist/ of the checkout, or into the folder that is the only argument."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / "dist"
    version, date = _latest_release(CHECKOUT / "CHANGELOG.md")
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or date)
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder, "sources")
        ignored = shutil.ignore_patterns(".git", *_ignored(CHECKOUT / ".gitignore"))
        shutil.copytree(CHECKOUT, sources, ignore=ignored)
        sdist = _built("sdist", sources, Path(folder, "sdist"), epoch)
        if sdist.name != f"hatwisted-{version}.tar.gz":
            sys.exit(f"CHANGELOG.md ends at {version}, the sources make {sdist.name}: see docs/releases.md")
        unpacked = _unpacked(sdist, Path(folder, "unpacked"))
        repacked = Path(folder, sdist.name)
        _pack(unpacked, repacked, epoch)
        wheel = _portable(_built("wheel", unpacked, Path(folder, "wheel"), epoch), epoch)
        check = [sys.executable, "-m", "twine", "check", "--strict", str(repacked), str(wheel)]
        subprocess.run(check, check=True)
        target.mkdir(parents=True, exist_ok=True)
        for archive in (repacked, wheel):
            shutil.copy(archive, target)
            print(target / archive.name)


def _latest_release(changelog: Path) -> tuple[str, int]:
    """Version, and midnight UTC of its day in seconds since the epoch."""
    found = LATEST_RELEASE.search(changelog.read_text(encoding="utf-8"))
    if found is None:
        sys.exit(f"{changelog}: no heading '## VERSION (YYYY-MM-DD)' to take the archives' date from")
    day = datetime.datetime.fromisoformat(found[2]).replace(tzinfo=datetime.UTC)
    return found[1], int(day.timestamp())


def _ignored(gitignore: Path) -> list[str]:
    """The patterns of .gitignore that name files or folders anywhere."""
    lines = (line.rstrip("/") for line in gitignore.read_text(encoding="utf-8").split())
    return [line for line in lines if "/" not in line]


def _built(what: str, sources: Path, folder: Path, epoch: int) -> Path:
    """The archive that setuptools makes of the sources, with the build packages of this environment."""
    command = [
        sys.executable,
        "-m",
        "build",
        f"--{what}",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(sources),
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nthe {what} can't be built")
    return next(folder.iterdir())


def _portable(wheel: Path, epoch: int) -> Path:
    """The wheel under the name of the oldest Linux that its compiled modules run on; itself elsewhere, or without
    such modules."""
    if not sys.platform.startswith("linux") or wheel.stem.endswith("-any"):
        return wheel
    folder = wheel.parent / "portable"
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(folder), str(wheel)]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PATH": programs}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nthe wheel's compiled modules can't be checked")
    return next(folder.iterdir())


def _unpacked(sdist: Path, folder: Path) -> Path:
    """The sdist's one folder, made below `folder`."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.iterdir())


def _pack(folder: Path, target: Path, epoch: int) -> None:
    """A tar.gz of the folder: sorted, owned by nobody in particular, everything as old as the release."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = epoch
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with (
        open(target, "wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in (folder, *sorted(folder.rglob("*"))):
            archive.add(path, path.relative_to(folder.parent), recursive=False, filter=plain)


if __name__ == "__main__":
    main()
