"""The unit layer under pytest: guarded as by trial (tests/unit/nosockets.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.nosockets import guarded


@pytest.fixture(autouse=True)
def _nothing_outside() -> Iterator[None]:
    with guarded():
        yield
