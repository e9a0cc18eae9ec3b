"""How many examples hypothesis draws for a property."""

from __future__ import annotations

from hypothesis import settings

from tests.support.soak import times


def examples(usual: int) -> settings:
    """So many in the unit layer, which is run after every change and draws others each time; `make soak` draws
    HATWISTED_SOAK times that. An example may take as long as it does."""
    return settings(max_examples=times(usual), deadline=None)
