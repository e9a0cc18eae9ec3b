"""Times of birth as files have them: a producer may have said any 64-bit number, far outside of `datetime`.

ISO 8601 with a sign and more digits for years that four digits don't hold: `+292278994-08-17T07:12:55.807Z`, as
Spark writes it. The calendar repeats itself every 400 years.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_LONG: Final = re.compile(r"([+-]?\d+)(-\d\d-\d\d.*)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?\d+")
_CYCLE_YEARS: Final = 400
_CYCLE_MS: Final = 146_097 * 86_400_000


def parse_born(value: int | str) -> int:
    """ms since the epoch: the number as it is, or of ISO 8601, in UTC if it names no zone. ValueError if it's
    neither, or needs more than 64 bits."""
    found = _parsed(value)
    if not -1 << 63 <= found < 1 << 63:
        raise ValueError(f"born_timestamp: {value!r} is beyond what a message has room for")
    return found


def _parsed(value: int | str) -> int:
    if isinstance(value, int):
        return value
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return int(text)
    found = _LONG.fullmatch(text)
    if found is None:
        raise ValueError(f"born_timestamp: {value!r} isn't a time as 2026-01-31T23:59:59.999Z")
    cycles, year = divmod(int(found[1]), _CYCLE_YEARS)
    try:
        time = datetime.fromisoformat(f"{2000 + year}{found[2]}")
    except ValueError as error:
        raise ValueError(f"born_timestamp: {value!r}: {error}") from None
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000) + (cycles - 2000 // _CYCLE_YEARS) * _CYCLE_MS
