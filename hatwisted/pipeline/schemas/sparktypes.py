"""Spark's own schemas, as `DataFrame.schema.json()` writes them, as types for JSON bodies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final

import pyarrow as pa
from msgspec import Meta

from hatwisted.pipeline.schemas.jsontypes import INT64, Typed, struct_type
from hatwisted.pipeline.schemas.values import DEEPEST, BadSchema


def _integer(bits: int) -> Typed:
    return Typed(Annotated[int, Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)], pa.int64())


SIMPLE: Final[Mapping[str, Typed]] = {
    "string": Typed(str, pa.string()),
    "byte": _integer(8),
    "short": _integer(16),
    "integer": _integer(32),
    "long": Typed(Annotated[int, Meta(ge=INT64[0], le=INT64[1])], pa.int64()),
    "float": Typed(float, pa.float64()),
    "double": Typed(float, pa.float64()),
    "boolean": Typed(bool, pa.bool_()),
    "timestamp": Typed(Annotated[datetime, Meta(tz=True)], pa.timestamp("us", "UTC")),
    "date": Typed(date, pa.date32()),
    "binary": Typed(bytes, pa.binary()),
}
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
MAX_DIGITS: Final = 38
"""Of a decimal."""


def spark_struct(schema: Mapping[str, Any], name: str) -> Typed:
    """The type of a body.

    - schema: `{"type": "struct", "fields": [...]}`
    - name: of it, for errors

    Raises BadSchema.
    """
    return _read(schema, name, 0)


def _read(kind: Any, at: str, depth: int) -> Typed:
    if depth > DEEPEST:
        raise BadSchema(f"{at}: is nested deeper than {DEEPEST} levels")
    if isinstance(kind, str):
        return _simple(kind, at)
    what = kind.get("type") if isinstance(kind, Mapping) else None
    try:
        if what == "struct":
            return _struct(kind["fields"], at, depth)
        if what == "array":
            item = _or_null(_read(kind["elementType"], f"{at}, element", depth + 1), kind["containsNull"])
            return Typed(list[item.annotation], pa.list_(pa.field("element", item.arrow)))  # type: ignore[name-defined]
        if what == "map" and kind["keyType"] == "string":
            item = _or_null(_read(kind["valueType"], f"{at}, value", depth + 1), kind["valueContainsNull"])
            return Typed(dict[str, item.annotation], pa.map_(pa.string(), item.arrow))  # type: ignore[name-defined]
    except KeyError as error:
        raise BadSchema(f"{at}: lacks {error}") from None
    raise BadSchema(f"{at}: {what or kind} isn't a type for JSON here")


def _struct(fields: list[Mapping[str, Any]], at: str, depth: int) -> Typed:
    found = {
        str(field["name"]): (_read(field["type"], f"{at}, {field['name']}", depth + 1), not field["nullable"])
        for field in fields
    }
    if len(found) < len(fields):
        raise BadSchema(f"{at}: has two fields of one name")
    return struct_type(found, at)


def _or_null(typed: Typed, null: bool) -> Typed:
    return Typed(typed.python, typed.arrow, null)


def _simple(kind: str, at: str) -> Typed:
    if kind in SIMPLE:
        return SIMPLE[kind]
    digits = _DECIMAL.fullmatch(kind)
    if digits and int(digits[2]) <= int(digits[1]) <= MAX_DIGITS:
        return Typed(Decimal, pa.decimal128(int(digits[1]), int(digits[2])))
    raise BadSchema(f"{at}: {kind} isn't a type for JSON here; there are {', '.join(SIMPLE)}, decimal(p,s)")
