"""What a keyed table says of itself, whatever keeps it: what it's of, and up to where it is merged.

What it's of (which landed table, key and topics) is a property of the table, so it outlives every commit's text.
Up to where it is merged stands in the commit, or the snapshot, that merged the last rows: both happen, or neither.
Once nothing says that any more, all is merged again, which changes nothing.

The landed table's version alone wouldn't say what was merged: put back from a backup, a table comes to the same
number again with other files. So the note has a digest of the files' names, too, which are never used twice.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final, Protocol

import pyarrow as pa

from hatwisted.pipeline.delta.errors import WrongTable

PARTITION_BY: Final = ("topic",)
PROPERTY: Final = "hatwisted.latest"
"""The table's property that says what it's of, in JSON."""
BATCH_ROWS: Final = 8192
"""Rows that are looked at together."""
FILE_BYTES: Final = 64 << 20
"""Small files are merged into files of this size; a merge writes a file again for one key that has changed."""


@dataclass(frozen=True)
class Merged:
    """A version of the landed table, all of which is merged. files: digest of its files' names."""

    version: int
    files: str

    @classmethod
    def of(cls, version: int, files: Collection[str]) -> Merged:
        return cls(version, sha256("\n".join(sorted(files)).encode()).hexdigest())

    @classmethod
    def parse(cls, said: Mapping[str, Any]) -> Merged:
        """As `as_json` has it."""
        return cls(int(said["version"]), str(said["files"]))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class LandedSource(Protocol):
    """A landed table's newest version. columns: of its rows; version: its number; id: the table's, for good;
    topics: only these; none: all."""

    columns: pa.Schema
    version: int
    id: str
    topics: tuple[str, ...]

    def reached(self) -> Merged:
        """What is merged once all its files are."""

    def files_since(self, merged: Merged | None) -> list[tuple[Any, int]]:
        """Files, for `rows`, with their bytes. merged: without its files."""

    def rows(self, file: Any) -> Iterator[pa.Table]:
        """A file's, a few at a time."""


class KeyedRows(Protocol):
    """A keyed table."""

    def prepare(self, columns: pa.Schema) -> pa.Schema:
        """Make the table, or widen it so that the rows fit; returns the rows' columns with its types. Raises
        WrongTable if it's of something else, or no keyed table at all.

        - columns: of the rows
        """

    def merged(self) -> Merged | None:
        """Up to where it is; None: it doesn't say."""

    def merge(self, rows: pa.Table, reached: Merged | None) -> tuple[int, int]:
        """Keys that are new, and that have another message now.

        - rows: the last of each key
        - reached: what is merged with them; None: there's more to come
        """

    def tidy(self) -> None:
        """Its small files into bigger ones, where that pays; what killed runs have left goes."""


def property_text(what: Mapping[str, Any]) -> str:
    """PROPERTY's. what: a table is of."""
    return json.dumps(what, sort_keys=True)


def check_property(name: str, found: str | None, what: Mapping[str, Any], is_empty: bool) -> bool:
    """Does a table say what it's of? An empty one needn't. Raises WrongTable if that is something else.

    - name: of the table
    - found: its property; None: it has none
    - what: is expected
    - is_empty: has it no rows?
    """
    if found is None:
        if not is_empty:
            raise WrongTable(f"{name}: holds rows that aren't the last messages of a table; give a new one")
        return False
    there = _parsed(found)
    if there != what:
        raise WrongTable(
            f"{name}: has the last messages of another table, or by another key or of other topics"
            f" (key {there.get('key')}, topics {', '.join(there.get('topics') or ()) or 'all'});"
            " give the same, or a new table"
        )
    return True


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
