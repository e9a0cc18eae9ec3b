"""The simulation's own command: seeds on all cores, and what it tells of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.soak import times

MINUTES = 0.5
"""Two cores for half of that are what `make test` gives the simulation."""


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "hatwisted.sim", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=280 * times(1), check=False)


def test_seeds_for_a_while_keep_every_promise() -> None:
    done = simulate("--first", "100", "--minutes", str(MINUTES * times(1)), "--jobs", "2")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) >= 3, "no progress was told"
    assert ", 0 failed" in lines[-2], lines[-2]
    assert lines[-1].startswith("answers {"), lines[-1]


def test_a_seed_that_fails_is_told_shrunk_and_repeated(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from hatwisted.store.log.waitline import WaitLine\n"
        "def release_all(line):\n"
        "    while line._waits:\n"
        "        line._waits.popleft().deferred.callback(line.offset)\n"
        "WaitLine.release_all = release_all\n"
    )
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import sitecustomize_sim; "
        "from hatwisted.sim.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    (tmp_path / "sitecustomize.py").rename(tmp_path / "sitecustomize_sim.py")

    def broken(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-c", program, str(tmp_path), *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)

    # In this process the workers are spawned without the mistake, so it runs its jobs by itself.
    done = broken("--first", "29", "--seeds", "1", "--jobs", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    told = done.stdout
    assert "seed 29 failed:\n  leak: " in told
    assert "didn't replay" not in told
    faults = told.partition("--faults '")[2].partition("'")[0]
    assert len(json.loads(faults)) == 1, told
    again = broken("--first", "29", "--seeds", "1", "--jobs", "0", "--faults", faults)
    assert again.returncode == 1
    assert "leak: " in again.stdout
