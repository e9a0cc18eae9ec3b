"""The guard of the layers below doesn't reach this one."""

from __future__ import annotations

import subprocess

from tests.support import nosockets


def test_what_trial_is_told_by_a_module_is_nothing_to_pytest() -> None:
    """`pytest tests/unit/test_*.py tests/system` imports such a module, which it would pass over otherwise."""
    nosockets.from_now_on()
    subprocess.run(["true"], check=True)
