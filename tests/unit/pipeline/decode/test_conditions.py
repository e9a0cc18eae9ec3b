"""Conditions give the rows they would give applied after the reader, whatever the columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import eq, ge, gt, le, lt
from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from hatwisted.pipeline import read_arrow
from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.decode.conditions import UNCOMPARED, Condition
from hatwisted.pipeline.errors import WrongSchema
from tests.support.examples import examples
from tests.support.golden import GOLDEN
from tests.support.logdrafts import TIMES, rows_of

STORE = str(GOLDEN / "master")
ROWS = rows_of(read_arrow(STORE))
COMPARE = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge, "in": lambda value, values: value in values}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_value(column: str, value: Any) -> Any:
    """Times are compared as datetimes."""
    return EPOCH + timedelta(microseconds=value) if column in TIMES and value is not None else value


def holds(row: dict[str, Any], condition: Condition) -> bool:
    value = as_value(condition.column, row[condition.column])
    return value is not None and condition.value is not None and COMPARE[condition.op](value, condition.value)


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from([name for name in COLUMNS if name not in UNCOMPARED]))
    values = st.sampled_from(ROWS).map(lambda row: as_value(column, row[column]))
    op = draw(st.sampled_from(list(COMPARE) if column != "body_crc_ok" else ["=", "in"]))
    value = draw(st.lists(values, max_size=3).map(tuple)) if op == "in" else draw(values)
    return Condition(column, op, value)


class Conditions(TestCase):
    @examples(25)
    @given(
        st.lists(conditions(), min_size=1, max_size=3),
        st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True),
    )
    def test_any_conditions_any_columns(self, where: list[Condition], columns: list[str]) -> None:
        expected = [
            {name: row[name] for name in columns}
            for row in ROWS
            if all(holds(row, condition) for condition in where)
        ]
        self.assertEqual(rows_of(read_arrow(STORE, columns, where)), expected)

    def test_a_time_without_a_zone_is_utc(self) -> None:
        last = as_value("store_timestamp", ROWS[-1]["store_timestamp"])
        where = [Condition("store_timestamp", ">=", last.replace(tzinfo=None))]
        same = [row for row in ROWS if row["store_timestamp"] == ROWS[-1]["store_timestamp"]]
        self.assertEqual(len(rows_of(read_arrow(STORE, ["topic"], where))), len(same))

    def test_a_number_beyond_the_columns_range_compares(self) -> None:
        for op, count in (("<", len(ROWS)), (">", 0), ("=", 0)):
            found = read_arrow(STORE, ["topic"], [Condition("queue_id", op, 1 << 40)]).read_all()
            self.assertEqual(found.num_rows, count)

    def test_what_cant_be_compared_is_reported(self) -> None:
        wrong = {
            "queue_id: 'x' isn't of type int32": Condition("queue_id", "=", "x"),
            "no column 'topics'; did you mean topic": Condition("topics", "=", "x"),
            "no operator '!='": Condition("topic", "!=", "x"),  # type: ignore[arg-type]
            "no condition can be on column properties": Condition("properties", "=", "x"),
        }
        for text, condition in wrong.items():
            with self.assertRaisesRegex(WrongSchema, text):
                read_arrow(STORE, where=[condition]).read_all()


class Columns(TestCase):
    def test_unknown_columns_are_reported_with_the_nearest(self) -> None:
        for columns, text in (
            (["tag"], "no column 'tag'; did you mean tags"),
            (["qqqq"], "there are: topic, "),
            ([], "no column requested"),
            (["topic", "topic"], "column topic is requested twice"),
        ):
            with self.assertRaisesRegex(WrongSchema, text):
                read_arrow(STORE, columns)
