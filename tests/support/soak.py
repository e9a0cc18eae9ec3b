"""How often what chance decides is tried: as often as `make test` has time for, or HATWISTED_SOAK times that."""

from __future__ import annotations

import os


def times(usual: int) -> int:
    """Repetitions instead of `usual` ones."""
    return usual * int(os.environ.get("HATWISTED_SOAK", "1"))
