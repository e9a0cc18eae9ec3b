"""What every format has in common: a type of column, and a decoder of one body: its value, or why not.

A body that doesn't fit is told by an exception with one of few reasons, which are counted, and a text for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa

from hatwisted.pipeline.errors import PipelineError

MALFORMED: Final = "malformed"
"""The body can't be read as the format at all."""
MISSING: Final = "missing"
"""A field that has to be there isn't."""
WRONG_TYPE: Final = "type"
"""A field's value is of another type."""
WRONG_VALUE: Final = "value"
"""A value is outside of what the schema or the column's type allows."""
UNKNOWN: Final = "unknown"
"""A field, or the writer's schema, isn't known, and has to be."""
CHECKSUM: Final = "checksum"
"""The stored body isn't the one that the broker received."""

FORBIDDEN: Final = frozenset(" ,;{}()\n\t=")
"""Characters that Delta has in no column's name."""
DEEPEST: Final = 32
"""Levels of records in records that a schema may have."""


class BadSchema(PipelineError):
    """A schema can't be read, or has something for which there is no column."""


class Misfit(Exception):
    """A body doesn't fit its schema. reason: one of the above; str() is the text."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class BodyDecoder(Protocol):
    """Of one schema; it's used by one thread."""

    @property
    def type(self) -> pa.StructType:
        """Of the column, every field of which may be null."""

    def decode(self, body: bytes) -> Mapping[str, Any]:
        """The fields, as pyarrow takes them for `type`; raises Misfit."""


def check_names(names: Iterable[str], at: str) -> None:
    """Raises BadSchema if these can't be the names of columns beside each other.

    - names: of fields
    - at: where in the schema they are
    """
    seen: dict[str, str] = {}
    for name in names:
        if not name or FORBIDDEN & set(name):
            raise BadSchema(f"{at}: a column can't be called {name!r}: rename the field, or leave it out")
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise BadSchema(f"{at}: {other} and {name} would be the same column: leave one of them out")
