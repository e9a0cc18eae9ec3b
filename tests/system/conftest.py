"""twistd as an operator runs it: every test here starts real processes."""

from __future__ import annotations

import pytest

SECONDS = 300  # a limit for a hang; a start takes about a second on an idle machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks everything in this folder."""
    for item in items:
        if item.nodeid.startswith("tests/system/"):
            item.add_marker(pytest.mark.system)
            item.add_marker(pytest.mark.timeout(SECONDS))
