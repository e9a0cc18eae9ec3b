"""Kinds of values that options have: sizes, times, places of stores."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click


class StorePath(click.Path):
    """A folder that's there; or a path with a scheme, which nobody but fsspec can look at."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As it is."""
        return value if "://" in value else super().convert(value, param, ctx)


class Size(click.ParamType[int]):
    """Bytes: 1048576, 64k, 512m, 2g."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, at least one."""
        if isinstance(value, int):
            return value
        digits, shift = value.lower().rstrip("b").rstrip("i"), 0
        if digits[-1:] in ("k", "m", "g", "t"):
            digits, shift = digits[:-1], 10 * ("kmgt".index(digits[-1]) + 1)
        if not digits.isascii() or not digits.isdigit() or not int(digits):
            self.fail(f"{value!r} isn't a size like 1048576, 64k, 512m or 2g", param, ctx)
        return int(digits) << shift


class Instant(click.ParamType[datetime]):
    """A time in ISO 8601; UTC unless it says."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """With a time zone."""
        if isinstance(value, datetime):
            return value
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} isn't a time like 2026-11-21T00:33:12", param, ctx)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found
