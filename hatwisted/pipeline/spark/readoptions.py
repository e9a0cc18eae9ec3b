"""The options of a read, from the strings Spark passes to typed values; both sources use it.

Spark's options are a map of strings with names in any case. An unknown name is an error here, with the nearest
known one: `maxBytesPerTriger` would otherwise be an unlimited trigger. A value that
can't be parsed is an error that says what is allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from hatwisted.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

    from hatwisted.pipeline.spark.queuetimes import AtTime

_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SHIFT: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_FLAGS: Final = {"true": True, "false": False}
_NO_NAMES: Final[Mapping[str, str]] = {}

RANGES: Final = {
    "queueOffset": "queue_offset",
    "physicalOffset": "physical_offset",
    "storeTimestamp": "store_timestamp",
    "bornTimestamp": "born_timestamp",
}
"""Columns with a range in the options, by the option's name without From or To."""

CONDITION_OPTIONS: Final = (
    "topic",
    "queueId",
    "tags",
    *(name + side for name in RANGES for side in ("From", "To")),
)


class BadOption(PipelineError):
    """An option has a name or a value that the source doesn't take."""


class OffsetBound(Enum):
    """An end of a log that moves."""

    EARLIEST = "earliest"
    LATEST = "latest"


Start: TypeAlias = "OffsetBound | datetime | AtTime | dict[str, Any]"
"""Where a stream begins: an end, the first message stored at or after a time, or an offset each."""

_Choice = TypeVar("_Choice", bound=str)


class Options:
    """The options of one read or write.

    - source: its name, for errors
    - given: as Spark passes them
    - known: the names it takes, as they are documented
    - other_names: what some of them are called as well
    """

    def __init__(
        self,
        source: str,
        given: Mapping[str, str],
        known: Iterable[str],
        other_names: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        names = {name.lower(): name for name in known}
        self._source = source
        self._given = {name.lower(): value for name, value in given.items()}
        for other, name in other_names.items():
            self._rename(other, name)
        for name in self._given.keys() - names.keys():
            raise BadOption(f"{source}: no option {name!r}{_nearest(name, names)}")

    def _rename(self, other: str, name: str) -> None:
        value = self._given.pop(other.lower(), None)
        if value is not None and self._given.setdefault(name.lower(), value) != value:
            raise BadOption(
                f"{self._source}: {other} and {name} are the same option, with two values; leave one of them out"
            )

    def text(self, name: str) -> str | None:
        """The option as it is; None if it isn't given or empty."""
        return self._given.get(name.lower(), "").strip() or None

    def items(self, name: str) -> tuple[str, ...]:
        """A comma-separated list, or a JSON array of strings where an item has a comma."""
        text = self.text(name)
        if text is None:
            return ()
        if text.startswith("["):
            values = self._json(name, text)
            if not all(isinstance(value, str) for value in values):
                raise self.wrong(name, "a JSON array of strings")
            return tuple(values)
        return tuple(item.strip() for item in text.split(",") if item.strip())

    def integer(self, name: str, *, least: int = 0) -> int | None:
        """A decimal number of at least `least`."""
        text = self.text(name)
        return None if text is None else self._number(name, text, least)

    def integers(self, name: str, *, least: int = 0) -> tuple[int, ...]:
        """A comma-separated list of decimal numbers."""
        return tuple(self._number(name, item, least) for item in self.items(name))

    def size(self, name: str) -> int | None:
        """Bytes, at least one: 1048576, 64k, 512m, 2g (powers of 1024)."""
        text = self.text(name)
        if text is None:
            return None
        found = _SIZE.fullmatch(text)
        if found is None or int(found[1]) == 0:
            raise self.wrong(name, "bytes as 1048576, 64k, 512m or 2g")
        return int(found[1]) << _SHIFT[found[2].lower()]

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in _FLAGS:
            raise self.wrong(name, "true or false")
        return _FLAGS[text.lower()]

    def choice(self, name: str, choices: Collection[_Choice], default: _Choice) -> _Choice:
        """One of some words, in any case.

        - name: of the option
        - choices: the words
        - default: if it isn't given
        """
        text = (self.text(name) or default).lower()
        for choice in choices:
            if choice.lower() == text:
                return choice
        raise self.wrong(name, " or ".join(choices))

    def instant(self, name: str) -> datetime | None:
        """A time as ISO 8601 (UTC, if it names no zone) or in ms since the epoch."""
        text = self.text(name)
        if text is None:
            return None
        time = parse_time(text)
        if time is None:
            raise self.wrong(name, "a time as 2026-01-31T23:59:59Z or milliseconds since the epoch")
        return time

    def start(self, name: str, default: OffsetBound) -> Start:
        """earliest, latest, a time as ISO 8601, or a JSON object of offsets.

        A bare number is refused: it could be meant as an offset as well as a time.
        """
        text = self.text(name)
        if text is None:
            return default
        if text.startswith("{"):
            return dict(self._json(name, text))
        if text.lower() in ("earliest", "latest"):
            return OffsetBound(text.lower())
        time = None if text.isdigit() else parse_time(text)
        if time is None:
            raise self.wrong(name, "earliest, latest, a time as 2026-01-31T23:59:59Z or a JSON object")
        return time

    def mapping(self, name: str) -> dict[str, Any] | None:
        """A JSON object."""
        text = self.text(name)
        if text is None:
            return None
        found = self._json(name, text)
        if not isinstance(found, dict):
            raise self.wrong(name, "a JSON object")
        return found

    def wrong(self, name: str, allowed: str) -> BadOption:
        """The error that `name` has a value which isn't `allowed`; to be raised by the caller."""
        return BadOption(f"{self._source}: option {name}={self._given.get(name.lower())!r} must be {allowed}")

    def _number(self, name: str, text: str, least: int) -> int:
        if not re.fullmatch(r"-?[0-9]+", text) or int(text) < least:
            raise self.wrong(name, f"a number of at least {least}")
        return int(text)

    def _json(self, name: str, text: str) -> Any:
        try:
            return json.loads(text, object_pairs_hook=_each_once)
        except ValueError as error:
            raise BadOption(f"{self._source}: option {name}={text!r} isn't JSON: {error}") from None


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Python's own reader keeps the last of several equal keys, and the others' offsets vanish."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in found if names.count(name) > 1)!r} is in one object twice")
    return found


def parse_time(text: str) -> datetime | None:
    """A time in UTC from ISO 8601 or ms since the epoch; None if it is neither."""
    try:
        if text.isdigit():
            return datetime.fromtimestamp(int(text) // 1000, UTC).replace(microsecond=int(text) % 1000 * 1000)
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _nearest(name: str, names: Mapping[str, str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {names[near[0]]}?" if near else f"; known are {', '.join(sorted(names.values()))}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a new stream begins, and how much one trigger takes, as far as its source knows; None: no limit."""

    start: Start
    max_bytes: int | None
    max_records: int | None

    def of_a_trigger(self) -> ReadLimit:
        """Which kind there is, for Spark; `latestOffset` applies both."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

        if self.max_bytes is not None:
            return ReadMaxBytes(self.max_bytes)
        return ReadAllAvailable() if self.max_records is None else ReadMaxRows(self.max_records)

    @classmethod
    def of(cls, options: Options, start: Start) -> Limits:
        """From the options; the source decides what `startingOffsets` may hold."""
        max_bytes = options.size("maxBytesPerTrigger")
        return cls(start, max_bytes, options.integer("maxRecordsPerTrigger", least=1))
