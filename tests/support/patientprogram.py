"""`hatwisted` as a program, whose calls wait longer than by themselves: see tests/support/patience.py.

python -m tests.support.patientprogram WORDS...
"""

from __future__ import annotations

import functools
import shlex
import sys
import tempfile
from pathlib import Path

from hatwisted.cli.cluster import clusterrun
from hatwisted.cli.main import main
from tests.support.patience import patient

PATIENT = (sys.executable, "-m", "tests.support.patientprogram")
"""The words that start it, in an environment whose PYTHONPATH has the checkout."""


@functools.cache
def folder_for_path() -> str:
    """One that has it under its own name, for shells."""
    folder = tempfile.TemporaryDirectory(prefix="hatwisted-patient-")
    _kept.append(folder)
    program = Path(folder.name, "hatwisted")
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PATIENT)} "$@"\n')
    program.chmod(0o755)
    return folder.name


_kept: list[tempfile.TemporaryDirectory[str]] = []
"""Removed when this process ends."""


def run() -> None:
    """The command."""
    link = clusterrun.Cluster
    clusterrun.Cluster = lambda *words, **named: patient(link(*words, **named))  # type: ignore[misc,assignment]
    main(prog_name="hatwisted")


if __name__ == "__main__":
    run()
