"""A process takes the compiled kernel where it is built, and Python's where it is told to; one line says which."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from hatwisted.kernel.choice import compiled_parts
from testbed.processes import REPOSITORY
from tests.support.kerneltwins import NOT_BUILT

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


WATCHED = """
import hashlib, json, sys
from hatwisted.kernel import COMPILED
from hatwisted.sim import soak, trace
from hatwisted.sim.setup import draw_setup
from hatwisted.sim.simulation import Simulation

soak.quiet()
told, note = [], trace.Trace.note
queues, others = {}, hashlib.sha256()

def noted(self, what, data=b""):
    # How many entries go to a queue's file at once is each twin's own: what counts is what was written there.
    words = what.split()
    if "/consumequeue/" not in what:
        others.update(f"{self._seconds()} {what} {len(data)} ".encode() + data)
    elif words[0] == "write":
        at, held = int(words[2]), queues.setdefault(words[1], bytearray())
        held.extend(bytes(max(0, at - len(held))))
        held[at : at + len(data)] = data
    note(self, what, data)

trace.Trace.note = noted
for seed in map(int, sys.argv[1:]):
    outcome = Simulation(draw_setup(seed)).run()
    told.append((seed, outcome.answers, outcome.struck, outcome.violations, outcome.refusals, outcome.emptied,
                 others.hexdigest(), {path: held.hex() for path, held in queues.items()}))
print(json.dumps([COMPILED, told]))
"""
"""Runs seeds, and says all that happened."""
SEEDS = ("2", "7", "22")


def simulated(pure: str) -> Any:
    """Which twin ran, and what came of the seeds."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *SEEDS],
        cwd=REPOSITORY,
        env=os.environ | {"HATWISTED_PURE": pure, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.skipif(not compiled_parts(), reason=NOT_BUILT)
def test_seeds_of_the_simulation_come_to_the_same_on_both_twins() -> None:
    """Each answer and each byte of log, index and tables at the same moment, and the same bytes in the queues."""
    (one, compiled), (other, pure) = simulated("0"), simulated("1")
    assert (one, other) == (True, False)
    for seed, found, expected in zip(SEEDS, compiled, pure, strict=True):
        assert expected[2], f"seed {seed} has no faults"
        assert found == expected, f"seed {seed}"
