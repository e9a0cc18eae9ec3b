"""From which version the upgrade runbook's test sets out: by tags, by CHANGELOG.md, and in a shallow clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.lastrelease import Release, Unknown, last_release, sources

NOBODY = (
    "-c",
    "user.name=x",
    "-c",
    "user.email=x@y",
    "-c",
    "commit.gpgsign=false",
    "-c",
    "tag.gpgsign=false",
)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *NOBODY, "-C", str(folder), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def committed(folder: Path, **files: str) -> str:
    """A commit with these files, written anew."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Two releases, and work since: the version is the next one's already."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "hatwisted").mkdir()
    for version in ("0.1.0", "0.2.0"):
        (folder / "hatwisted" / "__init__.py").write_text(f'"""x"""\n__version__ = "{version}"\n')
        committed(folder, CHANGELOG_md=f"## {version}\n")
    (folder / "hatwisted" / "__init__.py").write_text('__version__ = "0.3.0"\n')
    committed(folder, README_md="x")
    return folder


def test_by_its_tag(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "tag", "-a", "v0.1.0", "-m", "x", "HEAD~2")
    assert last_release(checkout) == Release("0.1.0", git(checkout, "rev-parse", "HEAD~2"), "tag v0.1.0")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "3", f"file://{checkout}", str(clone))
    git(clone, "fetch", "--quiet", "--tags")
    assert last_release(clone).version == "0.1.0", "in a shallow clone that has the tag"


def test_without_tags_by_the_changelog(checkout: Path, tmp_path: Path) -> None:
    found = last_release(checkout)
    assert found == Release("0.2.0", git(checkout, "rev-parse", "HEAD~1"), "the last change of CHANGELOG.md")
    assert (sources(checkout, found, tmp_path / "old") / "CHANGELOG.md").read_text() == "## 0.2.0\n"


@pytest.mark.parametrize("depth", ["1", "2"])
def test_a_shallow_clone_without_tags_doesnt_guess(checkout: Path, tmp_path: Path, depth: str) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--no-tags", "--depth", depth, f"file://{checkout}", str(clone))
    with pytest.raises(Unknown, match="unshallow"):
        last_release(clone)


def test_no_history_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="no history"):
        last_release(tmp_path)
