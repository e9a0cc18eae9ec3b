"""A process takes the compiled kernel where it is built, and Python's where it is told to; one line says which."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hatwisted.kernel.choice import compiled_parts
from testbed.processes import REPOSITORY

SHOWN = (
    "import hatwisted.kernel as k; from hatwisted.kernel import __main__ as m; print(k.COMPILED, m.told())"
)


def shown(**environment: str) -> str:
    command = [sys.executable, "-c", SHOWN]
    own = {name: value for name, value in os.environ.items() if name != "HATWISTED_PURE"}
    return subprocess.run(command, env=own | environment, capture_output=True, text=True, check=True).stdout


def test_python_can_be_forced() -> None:
    assert shown(HATWISTED_PURE="1") == "False kernel: Python (HATWISTED_PURE is set)\n"


@pytest.mark.parametrize("environment", [{}, {"HATWISTED_PURE": "0"}, {"HATWISTED_PURE": ""}])
def test_the_compiled_twin_is_taken_where_it_is_built(environment: dict[str, str]) -> None:
    said = shown(**environment)
    if compiled_parts():
        assert said == "True kernel: compiled\n"
    else:
        assert said.startswith("False kernel: Python, some 40 % slower:"), said


def test_the_units_of_what_is_compiled_pass_on_python_too() -> None:
    """They run on the twin that the process has chosen: on Python's as well, wherever the other one is built."""
    rooms = [
        "broker/test_sendmessage.py",
        "store/test_commitlog.py",
        "store/test_crashes.py",
        "remoting",
    ]
    found = [f"tests/unit/{room}" for room in rooms]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *found],
        cwd=REPOSITORY,
        env=os.environ | {"HATWISTED_PURE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
