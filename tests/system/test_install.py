"""An ordinary `pip install` of the checkout: the package, the console script and the twistd plugins."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from testbed.processes import REPOSITORY

SOURCES = ("hatwisted", "twisted", "setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh venv with hatwisted installed, its dependencies borrowed from this one."""
    folder = tmp_path_factory.mktemp("install")
    for name in SOURCES:
        source = REPOSITORY / name
        ignored = shutil.ignore_patterns("__pycache__", "dropin.cache")
        if source.is_dir():
            shutil.copytree(source, folder / "checkout" / name, ignore=ignored)
        else:
            shutil.copy(source, folder / "checkout" / name)
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    # Not through --system-site-packages: .pth files behind a .pth file don't count, so the editable install of
    # this checkout stays invisible.
    (site / "borrowed.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")))
    # Python 3.11 puts an old setuptools into every venv, which would stand in front of the borrowed one.
    subprocess.run(
        [python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools"], check=True, cwd=folder
    )
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([python, *install, str(folder / "checkout")], check=True, cwd=folder)
    return python


def run(python: Path, *arguments: str) -> str:
    """Standard output, from a folder that is no checkout."""
    command = [str(python), "-I", *arguments]
    return subprocess.run(command, cwd=python.parent, capture_output=True, text=True, check=True).stdout


def test_the_installed_package_is_the_one_that_is_found(python: Path) -> None:
    where = run(python, "-c", "import hatwisted; print(hatwisted.__file__)")
    assert Path(where.strip()).is_relative_to(python.parents[1])


@pytest.mark.parametrize("program", ["hamaster", "haslave", "hanamesrv"])
def test_twistd_finds_the_plugins(python: Path, program: str) -> None:
    shown = run(python, "-c", "from twisted.scripts.twistd import run; run()", program, "--help")
    assert "RocketMQ-compatible" in shown and "--conf" in shown


def test_the_console_script(python: Path) -> None:
    shown = run(python, str(python.with_name("hatwisted")), "--help")
    assert "log" in shown
