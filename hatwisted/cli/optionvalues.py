"""Kinds of values that options take: sizes, times, stores.

A time without a zone is in UTC, wherever one is given or printed: a command means the same on every machine, and
what one prints another takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

_SPAN: Final = re.compile(r"-?(\d+)\s*([smhdw])(?: ago)?")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class StorePath(click.Path):
    """An existing folder, or a path with a scheme, which only fsspec can look at."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As it is."""
        return value if "://" in value else super().convert(value, param, ctx)


class Size(click.ParamType[int]):
    """Bytes: 1048576, 64k, 512m, 2g."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """As click's: bytes, at least one."""
        if isinstance(value, int):
            return value
        digits, shift = value.lower().rstrip("b").rstrip("i"), 0
        if digits[-1:] in ("k", "m", "g", "t"):
            digits, shift = digits[:-1], 10 * ("kmgt".index(digits[-1]) + 1)
        if not digits.isascii() or not digits.isdigit() or not int(digits):
            self.fail(f"{value!r} isn't a size like 1048576, 64k, 512m or 2g", param, ctx)
        return int(digits) << shift


class Span(click.ParamType[timedelta]):
    """A time that something lasts: 90s, 30m, 12h, 7d, 2w."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """As click's: at least a second."""
        if isinstance(value, timedelta):
            return value
        found = _SPAN.fullmatch(value)
        if found is None or not found[0][0].isdigit() or found[0].endswith("ago") or not int(found[1]):
            self.fail(f"{value!r} isn't a time like 30m, 12h or 7d", param, ctx)
        try:
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
        except OverflowError:
            self.fail(f"{value!r} is too long", param, ctx)


def parse_time(text: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> datetime:
    """A time: in ISO 8601, in UTC unless it names a zone; "now", "today" or "yesterday" (at 0:00 UTC); or a span
    before now, such as "2h" or "-2h" (s, m, h, d, w). Raises ValueError.

    now: of a clock
    """
    if span := _SPAN.fullmatch(text.strip()):
        try:
            return now() - timedelta(**{_UNITS[span[2]]: int(span[1])})
        except OverflowError:
            raise ValueError(f"{text!r} is longer ago than there are dates") from None
    if text in ("now", "today", "yesterday"):
        day = now().replace(hour=0, minute=0, second=0, microsecond=0)
        return now() if text == "now" else day - timedelta(days=text == "yesterday")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} isn't a time like 2026-11-21T00:33:12 (UTC), 2h (ago) or yesterday"
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def milliseconds(text: str) -> int:
    """A time as `parse_time` takes it, in ms since the epoch. Raises ValueError."""
    return round(parse_time(text).timestamp() * 1000)


def iso_time(timestamp: int) -> str:
    """UTC with milliseconds; the number itself if it's no time."""
    try:
        time = datetime.fromtimestamp(timestamp / 1000, UTC).replace(tzinfo=None)
        return time.isoformat(" ", "milliseconds") + "Z"
    except (ValueError, OverflowError, OSError):
        return str(timestamp)


class Instant(click.ParamType[datetime]):
    """A time as `parse_time` takes it."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """As click's: with a time zone."""
        if isinstance(value, datetime):
            return value
        try:
            return parse_time(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
