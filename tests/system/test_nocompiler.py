"""Where no C compiler is, what is built is the same package without its compiled modules, and says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from testbed.processes import REPOSITORY

pytestmark = pytest.mark.skipif(
    find_spec("Cython") is None or find_spec("setuptools") is None, reason='needs the extra "dist"'
)
SOURCES = ("hatwisted", "twisted", "conf")
FILES = ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "hatwisted-spark.pth")
TOLD = "kernel: Python, some 40 % slower: there was no C compiler when hatwisted was installed; "
USED = """
import hatwisted.kernel as kernel
from hatwisted.kernel import pure
from hatwisted.kernel.__main__ import told

assert kernel.RunEncoder is pure.RunEncoder and kernel.take_sends is None
print(kernel.__file__, kernel.COMPILED)
print(told())
"""


def test_without_a_compiler_the_package_is_built_all_the_same(tmp_path: Path) -> None:
    tree, built = tmp_path / "tree", tmp_path / "built"
    for name in SOURCES:
        left = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(REPOSITORY / name, tree / name, ignore=left)
    for name in FILES:
        shutil.copy(REPOSITORY / name, tree)
    names = {"CC", "CFLAGS", "HATWISTED_PURE", "PYTHONPATH"}
    own = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "setup.py", "build", f"--build-base={tmp_path / 'work'}", f"--build-lib={built}"],
        cwd=tree,
        env=own | {"CC": str(tmp_path / "no-compiler")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    modules = {path.stem.removeprefix("_") for path in (tree / "hatwisted" / "kernel").glob("_*.pyx")}
    for name in modules:
        assert f'building extension "hatwisted.kernel._{name}" failed' in done.stdout, name
    assert len(modules) > 10 and not list(built.rglob("*.so"))
    shown = subprocess.run(
        [sys.executable, "-c", USED],
        cwd=tmp_path,
        env=own | {"PYTHONPATH": str(built)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    used, said = shown.splitlines()
    assert used == f"{built / 'hatwisted' / 'kernel' / '__init__.py'} False"
    assert said.startswith(TOLD)
