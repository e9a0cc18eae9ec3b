"""How long to wait before what failed is tried again."""

from __future__ import annotations

from typing import Final

_ENOUGH: Final = 64
"""Doublings after which any pause is longer than a program runs: after a day of failures it's still a number."""


def doubled(first: float, times: int, longest: float) -> float:
    """A pause that doubles each time, up to a limit; seconds.

    - first: the first one
    - times: how often it has been doubled, 0 or more
    - longest: the limit
    """
    return min(first * 2.0 ** min(times, _ENOUGH), longest)
