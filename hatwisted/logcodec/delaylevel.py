"""Delay levels: what `messageDelayLevel` says, in milliseconds.

Level n (from 1 on) of a delayed message is the n-th of these; the queue entry of such a message carries its
deliver time instead of a tag's hash. Each broker computes that time with its own list, so a master and its
slaves must be given the same one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""RocketMQ's default of `messageDelayLevel`."""

UNKNOWN_LEVEL_MS: Final = 1000
"""Delay (ms) of any level if none are configured, as in RocketMQ."""

_UNITS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> list[int]:
    """Milliseconds of each level. ValueError naming the part that isn't a number followed by s, m, h or d."""
    levels = []
    for part in text.split():
        match = re.fullmatch(r"([0-9]+)([smhd])", part)
        if match is None:
            raise ValueError(f"delay level {part!r} isn't a number followed by s, m, h or d")
        levels.append(int(match[1]) * _UNITS[match[2]])
    return levels


def deliver_time(level: bytes, store_timestamp: int, levels: Sequence[int]) -> int | None:
    """When a message with a DELAY property is due (ms); None if the property isn't a number above 0.

    - level: the property; one above the highest level means the highest
    - store_timestamp: ms
    - levels: ms by level, from level 1 on
    """
    digits = level.lstrip(b"0")
    if not digits.isdigit():
        return None
    if not levels:
        return store_timestamp + UNKNOWN_LEVEL_MS
    # A property may be 32 KiB of digits; a number of more than nine is beyond any list.
    number = int(digits) if len(digits) < 10 else len(levels)
    return store_timestamp + levels[min(number, len(levels)) - 1]
