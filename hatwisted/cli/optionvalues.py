"""Kinds of values that options take: sizes, times, stores.

A time without a zone is in UTC, wherever one is given or printed: a command means the same on every machine, and
what one prints another takes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click


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


def parse_time(text: str) -> datetime:
    """A time in ISO 8601, in UTC unless it names a zone. Raises ValueError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} isn't a time like 2026-11-21T00:33:12 (UTC)") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def milliseconds(text: str) -> int:
    """A time as `parse_time` takes it, in ms since the epoch. Raises ValueError."""
    return round(parse_time(text).timestamp() * 1000)


class Instant(click.ParamType[datetime]):
    """A time in ISO 8601, in UTC unless it names a zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """As click's: with a time zone."""
        if isinstance(value, datetime):
            return value
        try:
            return parse_time(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
