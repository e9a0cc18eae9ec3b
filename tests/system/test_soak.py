"""The simulation's own command: seeds on all cores, and what it tells of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.soak import times

MINUTES = 0.1
"""Of two processes: what `make test` gives the simulation beside the unit layer's seeds."""


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "hatwisted.sim", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=280 * times(1), check=False)


def test_seeds_for_a_while_keep_every_promise() -> None:
    done = simulate("--first", "100", "--minutes", str(MINUTES * times(1)), "--jobs", "2")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) >= 3, "no progress was printed"
    assert ", 0 failed" in lines[-2], lines[-2]
    assert lines[-1].startswith("answers {"), lines[-1]


SEED = 766
"""With consumers, a promotion, and most kinds of faults."""


def test_a_seed_comes_to_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    """What Python orders by chance, differently in each process, has no part in it; the figures are of these
    seeds."""
    pages = []
    for hashes in ("1", "2"):
        page, figures = tmp_path / f"{hashes}.html", tmp_path / f"{hashes}.json"
        arguments = f"--first {SEED} --seeds 1 --jobs 0 --page {page} --json {figures}".split()
        done = subprocess.run(
            (sys.executable, "-m", "hatwisted.sim", *arguments),
            env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        pages.append(page.read_text())
        told = json.loads(figures.read_text())
        assert (told["seeds"], told["failed"]) == (1, [])
        assert sum(told["faults"].values()) >= 1
    assert pages[0] == pages[1]


PLANTED = """
import sys
from hatwisted.sim.__main__ import main
from hatwisted.sim.deliberatebugs import planted
with planted("wrong-number"):
    sys.exit(main())
"""
"""The command with a bug that needs no fault. It runs its jobs itself: a process of its own would lack the bug."""


def test_a_seed_that_fails_is_reported_shrunk_and_repeated() -> None:
    def broken(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-c", PLANTED, "--first", "20", "--seeds", "1", "--jobs", "0", *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)

    done = broken()
    assert done.returncode == 1, done.stdout + done.stderr
    told = done.stdout
    assert "seed 20 failed:\n  stored: " in told
    assert "didn't replay" not in told
    faults = told.partition("--faults '")[2].partition("'")[0]
    assert json.loads(faults) == [], told
    again = broken("--faults", faults)
    assert again.returncode == 1
    assert "stored: " in again.stdout
