"""Conditions on rows, simple enough to be checked before most of a row exists.

A condition compares one column with a constant, by SQL's rules: null meets none. All of several have to be
met. Those on a record's fixed fields, topic, broker and file are checked before any other column is built, so
that a record that isn't wanted costs only its head; the others as soon as their column exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.errors import WrongSchema

Operator = Literal["=", "<", "<=", ">", ">=", "in"]

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
UNCOMPARED: Final = frozenset({"keys", "properties", "body"})
"""Columns that conditions can't be on: filter on those after reading."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`column op value`; for `in`, value is a tuple. Times are datetimes, in UTC if they name no zone."""

    column: str
    op: Operator
    value: Any


class Filter:
    """Conditions prepared for Arrow; WrongSchema for a column or a value that can't be compared."""

    def __init__(self, where: Iterable[Condition]) -> None:
        self._tests = [(condition.column, _test(condition)) for condition in where]
        self.columns = tuple(dict.fromkeys(column for column, _ in self._tests))

    def mask(self, arrays: dict[str, pa.Array]) -> pa.Array | None:
        """Which rows meet the conditions on these columns (bool, no nulls); None: there is no such condition."""
        found = None
        for column, test in self._tests:
            if column in arrays:
                one = pc.fill_null(test(arrays[column]), False)
                found = one if found is None else pc.and_(found, one)
        return found


def _test(condition: Condition) -> Callable[[pa.Array], pa.Array]:
    column, op, value = condition.column, condition.op, condition.value
    kind = arrow_schema((column,)).field(0).type
    if column in UNCOMPARED:
        raise WrongSchema(f"no condition can be on column {column}: filter the rows after reading")
    if op == "in":
        values = pa.array([_constant(condition, item, kind).as_py() for item in value], kind)
        return lambda array: pc.is_in(array, values, skip_nulls=True)
    if op not in _COMPARE:
        raise WrongSchema(f"condition on {column}: no operator {op!r}; there are: {', '.join(_COMPARE)}, in")
    compare, constant = _COMPARE[op], _constant(condition, value, kind)
    return lambda array: compare(array, constant)


def _constant(condition: Condition, value: Any, kind: pa.DataType) -> pa.Scalar:
    """The value with the column's type; an int too large for an int32 column stays one, so that it compares."""
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    wide = pa.int64() if kind == pa.int32() and condition.op != "in" else kind
    try:
        return pa.scalar(value, wide)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise WrongSchema(
            f"condition on {condition.column}: {value!r} isn't of type {kind} ({error})"
        ) from None
