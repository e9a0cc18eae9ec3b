"""Conditions that a source applies itself: Spark's pushed filters, and the same as options.

Spark gives a source in Python its filters only with `spark.sql.python.filterPushdown.enabled`, which is off by
default, never for a stream, and never for `or`. The options do without Spark. Each range has an inclusive begin
`...From` and an exclusive end `...To`, so that runs that follow one another share no row.

A filter that becomes a condition is settled: conditions follow SQL's rules, and Spark needn't apply it again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.decode.conditions import UNCOMPARED, Condition, Operator
from hatwisted.pipeline.spark.readoptions import RANGES, Options

_OPERATORS: Final[dict[type[Filter], Operator]] = {
    EqualTo: "=",
    EqualNullSafe: "=",  # differs for null only, which isn't taken
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    In: "in",
}
_TIMES: Final = frozenset({"store_timestamp", "born_timestamp"})

_PUSHDOWN_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def is_given_filters() -> bool:
    """Is this process the one in which Spark plans a read with filters to push?

    Spark refuses a reader that takes filters while pushdown is off, and gives no reader the setting. But it
    plans a read with filters by a program of its own.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_PLANNER in sys.modules or getattr(main, "name", None) == _PUSHDOWN_PLANNER


def pushed(filter: Filter) -> Condition | None:
    """The condition equivalent to Spark's filter; None if there is none."""
    operator = _OPERATORS.get(type(filter))
    column = ".".join(getattr(filter, "attribute", ()))
    if operator is None or column not in COLUMNS or column in UNCOMPARED:
        return None
    value: Any = getattr(filter, "value", None)
    if operator == "in":
        value = tuple(item for item in value if item is not None)
    values = value if operator == "in" else (value,)
    return Condition(column, operator, value) if all(_comparable(column, item) for item in values) else None


def _comparable(column: str, value: object) -> bool:
    """Only plain values of the columns' own types: decimals and dates are left to Spark."""
    if column in _TIMES:
        return isinstance(value, datetime) and value.tzinfo is not None
    return type(value) in (int, str, bool)


def conditions(options: Options) -> tuple[Condition, ...]:
    """The conditions that the options state."""
    found: list[Condition] = []
    if topics := options.items("topic"):
        found.append(Condition("topic", "in", topics))
    if queues := options.integers("queueId"):
        found.append(Condition("queue_id", "in", queues))
    if tags := options.items("tags"):
        found.append(Condition("tags", "in", tags))
    for name, column in RANGES.items():
        read = options.instant if column in _TIMES else options.integer
        sides: Iterable[tuple[str, Operator]] = (("From", ">="), ("To", "<"))
        for side, operator in sides:
            if (value := read(name + side)) is not None:
                found.append(Condition(column, operator, value))
    return tuple(found)


def offset_bounds(where: Iterable[Condition]) -> tuple[int | None, int | None]:
    """Which part [begin, end) of a log can hold rows at all, by conditions on physical_offset."""
    begins, ends = [], []
    for condition in where:
        if condition.column == "physical_offset":
            values = condition.value if condition.op == "in" else (condition.value,)
            if condition.op in ("=", "in", ">", ">="):
                begins.append(min(values, default=0) + (condition.op == ">"))
            if condition.op in ("=", "in", "<", "<="):
                ends.append(max(values, default=-1) + (condition.op != "<"))
    return max(begins, default=None), min(ends, default=None)


def span(condition: Condition) -> tuple[Any, Any]:
    """The least and the greatest value that may meet it; None: no limit. Open ends are treated as closed."""
    value = condition.value
    match condition.op:
        case "=":
            return value, value
        case "in":
            return min(value, default=None), max(value, default=None)
        case "<" | "<=":
            return None, value
    return value, None


def time_span(condition: Condition, slack: timedelta) -> tuple[datetime | None, datetime | None]:
    """The same of a condition on a time, wider by `slack` on each side."""
    low, high = span(condition)
    earliest = latest = None
    with suppress(OverflowError):
        earliest = None if low is None else low - slack
    with suppress(OverflowError):
        latest = None if high is None else high + slack
    return earliest, latest


class FilterPushdown:
    """A batch read that takes Spark's filters.

    Mixed into a reader whose `_read_task`, a dataclass, has the conditions as `where`."""

    _read_task: Any

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes what can be a condition; Spark applies the filters that are returned."""
        for filter in filters:
            if (condition := pushed(filter)) is None:
                yield filter
            else:
                self._read_task = replace(self._read_task, where=(*self._read_task.where, condition))
