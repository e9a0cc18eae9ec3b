"""Numbers out of what RocketMQ writes for people: sizes, durations, rates, disk capacities.

Each gives None for what it can't read: versions differ, and a figure that is missing mustn't hide the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_UNITS: Final = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50, "EiB": 60}
_SIZE: Final = re.compile(r"(-?\d+(?:\.\d+)?) ?([KMGTPE]iB|B)")
_RUNTIME: Final = re.compile(r"(?<!\d)(\d{1,9}) days, (\d{1,9}) hours, (\d{1,9}) minutes, (\d{1,9}) seconds")
_LONG_END: Final = 1 << 63


def whole(text: object) -> int | None:
    """-> a whole number, of 64 bits as Java's are."""
    try:
        found = int(str(text))
    except ValueError:
        return None
    return found if abs(found) < _LONG_END else None


def ratio(text: object) -> float | None:
    """A share between 0 and 1; RocketMQ says -1 for a folder that isn't there."""
    try:
        found = float(str(text))
    except ValueError:
        return None
    return found if 0.0 <= found <= 1.0 else None


def rate(text: object) -> float | None:
    """The first of up to three numbers: the average of the last ten seconds."""
    try:
        return float(str(text).split()[0])
    except (ValueError, IndexError):
        return None


def size(text: object) -> int | None:
    """ "1.5 KiB" -> bytes."""
    found = _SIZE.search(str(text))
    return None if found is None else _bytes(found[1], found[2])


def capacity(text: object) -> tuple[int, int] | None:
    """ "Total : 252.0 GiB, Free : 79.4 GiB." -> (total, free) in bytes."""
    sizes = _SIZE.findall(str(text))
    if len(sizes) != 2:
        return None
    total, free = (_bytes(number, unit) for number, unit in sizes)
    return None if total is None or free is None else (total, free)


def _bytes(number: str, unit: str) -> int | None:
    found = float(number) * (1 << _UNITS[unit])
    return int(found) if abs(found) < _LONG_END else None


def runtime(text: object) -> int | None:
    """ "[ 0 days, 0 hours, 0 minutes, 52 seconds ]" -> seconds."""
    found = _RUNTIME.search(str(text))
    if found is None:
        return None
    days, hours, minutes, seconds = map(int, found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def clock(info: Mapping[str, object]) -> float | None:
    """Runtime info -> a broker's time, to a second: it tells when it was started, and how long ago that is."""
    boot, running = whole(info.get("bootTimestamp")), runtime(info.get("runtime"))
    return None if boot is None or running is None else boot / 1000 + running
